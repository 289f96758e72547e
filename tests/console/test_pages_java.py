"""The console's pages on a real Apache Kafka: everything but what only Tidelog's brokers report."""

import pytest

from tests.console.test_pages_process import go, page_at, served
from tests.lab.browser import chromium
from tidelog.cli.main import run
from tidelog.shell.transport import Consumer, Producer


@pytest.fixture(scope="module")
def filled(real_kafka):
    at = ("--bootstrap-server", real_kafka)
    assert (
        run(["topics", "--create", *at, "--topic", "of-console", "--partitions", "2", "--replication-factor", "1"]) == 0
    )
    with Producer(real_kafka) as producer:
        for number in range(30):
            producer.send("of-console", b'{"n": %d}' % number, key=b"k")
        assert all(each.is_acknowledged for each in producer.flush(90))
    for protocol in ("classic", "consumer"):
        with Consumer(
            real_kafka, group=f"{protocol}-readers", group_protocol=protocol, auto_offset_reset="earliest"
        ) as reader:
            reader.subscribe(["of-console"])
            assert reader.poll(90, 10)
            reader.commit()
    return real_kafka


def test_every_page_of_a_real_kafka(filled):
    with chromium() as browser, served(filled, "--allow-changes") as address, page_at(browser, address) as page:
        page.get_by_text("Apache Kafka").wait_for()
        for place, text in (
            ("overview", "KRaft"),
            ("topics", "of-console"),
            ("topic/of-console", "Only with trouble"),
            ("topic/of-console?tab=messages", "30 messages of 30"),
            ("topic/of-console?tab=options", "retention.ms"),
            ("groups", "consumer-readers"),
            ("group/classic-readers", "Coordinator"),
            ("group/consumer-readers", "assignment"),
            ("transactions", "Open in the logs"),
            ("moves", "No replica is moving"),
            ("quotas", "Quotas"),
            ("users", "bob"),
            ("acls", "ACLs"),
        ):
            go(page, place)
            page.get_by_text(text).first.wait_for()
        go(page, "topic/of-console")
        page.locator(".replica.leader .numbers", has_text="30").wait_for()
        go(page, "topics")
        page.get_by_role("button", name="New topic").click()
        page.get_by_label("Name", exact=True).fill("made-by-console")
        page.get_by_role("button", name="Create").click()
        page.get_by_role("heading", name="made-by-console").wait_for()
        page.get_by_role("button", name="Delete", exact=True).click()
        page.get_by_label("Type made-by-console to confirm").fill("made-by-console")
        page.get_by_role("button", name="Delete topic").click()
        page.get_by_role("heading", name="Topics").wait_for()
        page.locator("#health .pill.ok").wait_for()
