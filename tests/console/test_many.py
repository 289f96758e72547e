"""A cluster with 10,000 partitions: the list, the first paint and the console's memory."""

from pathlib import Path

import pytest

from tests.cli.commands import running
from tests.console.test_pages_process import go, page_at
from tests.lab.browser import chromium
from tests.output import line_with
from tests.processes import Processes
from tests.waiting import wait_for
from tidelog.cli.admin_requests import connect
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreateTopicsRequest

TOPICS, PARTITIONS = 200, 50
PATIENCE_MS = 120_000
MOST_MB = 400
LIST_MS, FIRST_PAINT_MS, SLOWNESS = 1_000, 500, 20
"""The limits on a machine that does nothing else, where 100 ms each were measured, and how much slower another one may
be. `test_limits.py` asserts them in CPU time."""


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    with Processes(tmp_path_factory.mktemp("many"), brokers=3, port=0) as cluster:
        with connect(cluster.bootstrap, timeout_ms=PATIENCE_MS) as admin:
            for start in range(0, TOPICS, 20):
                topics = [
                    CreatableTopic(name=f"many-{number:03}", num_partitions=PARTITIONS, replication_factor=1)
                    for number in range(start, start + 20)
                ]
                answer = admin.ask(CreateTopicsRequest(topics=topics, timeout_ms=PATIENCE_MS), timeout_ms=PATIENCE_MS)
                assert {each.error_code for each in answer.topics} <= {0, 36}, "36: a retry found it created"
        yield cluster


def within(request, name, measured_ms, limit_ms):
    request.node.user_properties.append((name, measured_ms))
    assert measured_ms <= SLOWNESS * limit_ms, name


def resident_mb(process):
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmRSS"))


def test_ten_thousand_partitions_are_no_different_from_ten(many, request):
    with (
        running("console", "--bootstrap", many.bootstrap, "--port", "0") as process,
        chromium() as browser,
    ):
        address = line_with(process.stdout, "console http").split()[1]
        with page_at(browser, address) as page:
            wait_for(lambda: "10,000" in page.locator(".stats").inner_text(), "all partitions to be known")
            page.evaluate("location.hash = '#/groups'")
            page.get_by_role("heading", name="Groups").wait_for()
            measured = """() => new Promise((resolve) => {
                const began = performance.now();
                const look = () => document.querySelectorAll('.stack tbody tr a').length >= 50
                    ? resolve(performance.now() - began) : requestAnimationFrame(look);
                location.hash = '#/topics';
                look();
            })"""
            within(request, "list_ms", page.evaluate(measured), LIST_MS)
            page.get_by_text("of 200").wait_for()
            go(page, "topics?find=many-199")
            page.get_by_role("link", name="many-199").click()
            page.get_by_role("heading", name="many-199").wait_for()
            wait_for(lambda: page.locator(".replica").count() == 25, "one page of partitions")
            page.reload()
            page.get_by_role("heading", name="many-199").wait_for()
            paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
            within(request, "first_paint_ms", page.evaluate(paint), FIRST_PAINT_MS)
            assert page.locator("main *").count() < 2000, "the page holds one page of the list"
        memory = resident_mb(process)
        request.node.user_properties.append(("resident_mb", memory))
        assert memory < MOST_MB
