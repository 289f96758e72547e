"""The report's page in Chromium, as a person would open it: no word on the console, nothing wider than the window, and
what is broken plain to see, of a small log, of a very long one and of a hundred partitions."""

from contextlib import contextmanager

import pytest

from tests.audit.logs import batches, flip_record, remove_segment, segment, write_cluster
from tests.lab.browser import chromium, opened
from tidelog.audit.core import finding
from tidelog.audit.core.finding import Finding
from tidelog.audit.core.report import PartitionView, ReplicaView, Report
from tidelog.cli.audit.audit_page import page as as_page
from tidelog.cli.main import run

LONG = 1_000_000_000
WHERE = 123_456_789


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@contextmanager
def shown(browser, tmp_path, report, anchor=""):
    file = tmp_path / "report.html"
    file.write_text(as_page(report), encoding="utf-8")
    with opened(browser, f"{file}{anchor}") as page:
        yield page
        for width in (1400, 480):
            page.set_viewport_size({"width": width, "height": 900})
            fits = page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            assert fits, f"the page is no wider than a window of {width}"


def replica(broker, end=LONG, epochs=3):
    begins = [(epoch, epoch * (end // epochs)) for epoch in range(epochs)]
    return ReplicaView(broker, "folder", "", 0, end, end - 5, 1_000, 10**9, 7, in_sync=True, epochs=begins)


def partition(number, *, diverges=-1, **shape):
    lanes = [replica(broker, **shape) for broker in range(3)]
    return PartitionView("t", number, 0, 2, False, 0, diverges, lanes)


def divergence(number):
    sentence = "broker 2 holds another batch"
    return Finding(finding.DIVERGENCE, "t", number, (0, 1, 2), sentence, WHERE, WHERE + 1, 2)


def test_the_page_shows_a_lane_for_each_replica_and_where_it_is_broken(browser, tmp_path):
    path = write_cluster(tmp_path / "logs", batches(60))[1]
    remove_segment(path, 1)
    flip_record(segment(path, 1))
    page_file = tmp_path / "report.html"
    run(["audit", "--local", "--folder", str(tmp_path / "logs"), "--html", str(page_file)])
    with opened(browser, page_file) as page:
        assert page.inner_text("h1") == "Replica audit: 2 broken"
        assert page.locator("svg text", has_text="broker").count() == 3
        titles = page.locator("svg title").all_text_contents()
        assert "gap: offsets 100 to 199 are missing" in titles
        assert any(title.startswith("checksum: ") for title in titles)
        assert page.locator("svg polygon").count() == 2
        assert page.locator(".key span").count() == 7


def test_where_replicas_agree_the_page_says_so(browser, tmp_path):
    with shown(browser, tmp_path, Report([partition(0)], [])) as page:
        assert page.inner_text("h1") == "Replica audit: all replicas agree"
        assert page.title() == "Replica audit: all replicas agree"
        assert not page.locator("svg[role=img]").is_visible()
        page.locator("summary").click()
        assert page.locator("svg[role=img]").is_visible()
        assert page.locator("svg polygon").count() == 0


def test_one_batch_of_a_thousand_million_is_shown_from_near(browser, tmp_path):
    with shown(browser, tmp_path, Report([partition(0, diverges=WHERE, epochs=3_000)], [divergence(0)])) as page:
        assert page.inner_text("p.bad") == "Replicas diverge first in t-0 at offset 123,456,789."
        whole, near = page.locator("svg[role=img]").all()
        for picture in (whole, near):
            assert picture.locator("text.first").text_content() == "first divergence: offset 123,456,789"
        assert whole.locator("rect").count() < 2_000
        assert near.locator("text.epoch").all_text_contents() == ["epoch 370"] * 3
        widths = [
            [mark.bounding_box()["width"] for mark in picture.locator("rect[fill='url(#differs)']").all()]
            for picture in (whole, near)
        ]
        assert [len(each) for each in widths] == [1, 1]  # the replica that stands against the others
        assert widths[0][0] >= 2
        assert widths[1][0] > 20


def test_of_a_hundred_partitions_the_broken_one_comes_first_and_is_open(browser, tmp_path):
    views = [partition(number, diverges=WHERE if number == 57 else -1) for number in range(100)]
    tail = Finding(finding.TAIL, "t", 3, (1,), "uncommitted", LONG - 9, LONG)
    with shown(browser, tmp_path, Report(views, [divergence(57), tail]), "#t-99") as page:
        assert page.locator(".tiles a").count() == 100
        assert page.locator(".tiles a.bad").all_text_contents() == ["t-57"]
        assert page.locator("summary").first.inner_text() == "t-57: 1 broken"
        assert page.locator("details[open]").count() == 2, "the broken one, and the one that the address names"
        page.locator("td a", has_text="t-3").click()
        page.locator("details", has=page.locator("[id=t-3]")).locator("svg[role=img]").first.wait_for(state="visible")


def test_more_findings_than_one_reads_are_folded(browser, tmp_path):
    found = [Finding(finding.ORPHAN, f"gone-{number}", 0, (1,), "<b>nobody's</b>") for number in range(90)]
    with shown(browser, tmp_path, Report([partition(0)], found)) as page:
        assert page.locator("tr", has_text="nobody's").locator("visible=true").count() == 40
        page.locator("summary", has_text="50 more").click()
        assert page.locator("tr", has_text="nobody's").locator("visible=true").count() == 90
        assert page.locator("td", has_text="<b>nobody's</b>").count() == 90
