"""The console's pages in a headless Chromium, on three broker processes: what is shown, live, and never an error."""

import re
from contextlib import contextmanager
from urllib.request import urlopen

import pytest

from tests.cli.commands import running
from tests.cli.hanging import hang
from tests.lab.browser import PATIENCE_MS, chromium
from tests.output import line_with
from tests.shell.authority import Authority
from tests.waiting import wait_for
from tidelog.cli.admin_requests import connect
from tidelog.cli.main import run
from tidelog.shell.transport import Consumer, Producer
from tidelog.testing import Cluster

HOSTILE = '<img src=x onerror="document.title=1">&\'\u202e</script>'


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def filled(cluster):
    """Topics with records, and a group whose names are as hostile as Kafka allows."""
    at = ("--bootstrap-server", cluster.bootstrap)
    assert run(["topics", "--create", *at, "--topic", "flights", "--partitions", "3", "--replication-factor", "3"]) == 0
    with Producer(cluster.bootstrap, max_request_size=8_000_000, client_id=HOSTILE) as producer:
        for number in range(60):
            value = b'{"n":%d,"big":12345678901234567890}' % number
            producer.send("flights", value, key=HOSTILE.encode(), headers=[(HOSTILE, HOSTILE.encode())])
        assert all(each.is_acknowledged for each in producer.flush(90))
    with Consumer(cluster.bootstrap, group=HOSTILE, auto_offset_reset="earliest", client_id=HOSTILE) as consumer:
        consumer.subscribe(["flights"])
        assert consumer.poll(90, 10)
        consumer.commit()
    return cluster


@contextmanager
def served(bootstrap, *more):
    with running("console", "--bootstrap", bootstrap, "--port", "0", *more) as process:
        yield line_with(process.stdout, "console http").split()[1]


@contextmanager
def page_at(browser, address, *, width=1300, scheme="light", expected=(), any_certificate=False):
    """A page whose console stays silent but for what is expected, which stays within its width and asks nobody else."""
    said, asked = [], []
    view = {"width": width, "height": 900}
    with browser.new_context(viewport=view, color_scheme=scheme, ignore_https_errors=any_certificate) as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        page.locator("h1, .login").first.wait_for()
        yield page
    origin = address.partition("#")[0]
    assert [text for text in said if not any(each in text for each in expected)] == []
    assert [url for url in asked if not url.startswith((origin, "blob:", "data:"))] == []


@pytest.fixture(scope="module")
def address(filled):
    with served(filled.bootstrap, "--allow-changes") as found:
        yield found


def go(page, place):
    page.evaluate("place => { location.hash = place }", f"#/{place}")


def test_every_page_shows_the_cluster_on_a_desk_and_on_a_phone(browser, address):
    for width, scheme in ((1300, "light"), (390, "dark")):
        with page_at(browser, address, width=width, scheme=scheme) as page:
            assert "token" not in page.url, "the address bar must not show the token"
            page.get_by_text("Healthy").wait_for()
            for place, text in (
                ("overview", "Broker 2"),
                ("topics", "flights"),
                ("topic/flights", "Only with trouble"),
                ("topic/flights?tab=messages", "50 messages of 60"),
                ("topic/flights?tab=options", "retention.ms"),
                ("groups", "onerror"),
                ("broker/1", "Log directories"),
                ("transactions", "No coordinator knows a transaction"),
                ("moves", "No replica is moving"),
                ("quotas", "No quotas are set"),
                ("users", "There are no SCRAM users"),
                ("acls", "The brokers have no ACLs"),
            ):
                go(page, place)
                page.get_by_text(text).first.wait_for()
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (place, width)
            dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (dark == "rgb(15, 20, 24)") == (scheme == "dark")


def test_hostile_names_keys_and_headers_are_only_text(browser, address):
    with page_at(browser, address) as page:
        go(page, "groups")
        page.locator("tbody a", has_text="onerror").click()
        page.get_by_role("heading", name=HOSTILE).wait_for()
        go(page, "topic/flights?tab=messages")
        page.locator(".messages .expand").first.click()
        page.locator(".detail dl.facts dt", has_text="onerror").wait_for()
        page.get_by_text("12345678901234567890").first.wait_for()
        page.locator(".detail").get_by_role("tab", name="Hex").click()
        rows = page.locator(".detail .hex").inner_text().splitlines()
        assert rows[0].startswith("000000  7b 22 6e 22 3a ")
        assert rows[0].endswith('{"n":59,"big":12')
        assert page.locator("main img, main script").count() == 0
        assert page.title() != "1"


def test_hostile_topics_of_a_hostile_cluster_are_only_text(browser, address):
    """No broker of ours allows such a topic; another one may."""
    row = {"name": HOSTILE, "id": "", "internal": False, "partitions": 1, "replication": 1, "trouble": 1, "records": 1,
           "bytes": 1, "rate": 0}  # fmt: skip
    text = f'event: page\ndata: {{"total": 1, "hidden": 0, "rows": [{__import__("json").dumps(row)}]}}\n\n'
    with page_at(browser, address) as page:
        page.route(
            "**/api/live?watch=topics*", lambda route: route.fulfill(content_type="text/event-stream", body=text)
        )
        go(page, "topics")
        page.locator("tbody a", has_text="onerror").wait_for()
        assert page.locator("main img").count() == 0
        assert page.title() != "1"


def test_replicas_move_and_new_messages_arrive_while_one_looks(browser, filled, address):
    with page_at(browser, address) as page, Producer(filled.bootstrap) as producer:
        go(page, "topic/flights")
        numbers = page.locator(".replica.leader .numbers")
        numbers.first.wait_for()
        before = wait_for(lambda: [text for text in numbers.all_inner_texts() if text.strip("…")], "offsets")
        producer.send("flights", b"moved", partition=0)
        producer.flush(90)
        wait_for(lambda: numbers.all_inner_texts() != before, "the bar of partition 0 to move")
        go(page, "topic/flights?tab=messages")
        page.get_by_role("button", name="Live").click()
        page.get_by_text("Waiting for messages").wait_for()
        producer.send("flights", b"just now", partition=1)
        producer.flush(90)
        page.get_by_text("just now").wait_for()
        page.get_by_role("button", name="Stop").click()
        page.get_by_label("Text to search for").fill('"n":42,')
        page.get_by_role("button", name="Read").click()
        page.get_by_text("all read").wait_for()
        assert page.locator(".messages tbody tr").count() == 1


def test_produce_and_delete_behind_a_typed_name(browser, address):
    with page_at(browser, address) as page:
        go(page, "topics")
        page.get_by_role("button", name="New topic").click()
        page.get_by_label("Name", exact=True).fill("by-hand")
        page.get_by_label("Partitions").last.fill("1")
        page.get_by_role("button", name="Create").click()
        page.get_by_role("heading", name="by-hand").wait_for()
        page.get_by_role("tab", name="Messages").click()
        page.get_by_role("button", name="Produce").click()
        page.locator("dialog textarea").first.fill("from a person")
        page.locator("dialog").get_by_role("button", name="Produce").click()
        page.get_by_text("Written to partition 0 at offset 0").wait_for()
        page.get_by_role("button", name="Read").click()
        page.get_by_text("from a person").wait_for()
        page.get_by_role("button", name="Delete", exact=True).click()
        confirm = page.get_by_role("button", name="Delete topic")
        assert confirm.is_disabled()
        page.get_by_label("Type by-hand to confirm").fill("by-han")
        assert confirm.is_disabled()
        page.get_by_label("Type by-hand to confirm").fill("by-hand")
        confirm.click()
        page.get_by_role("heading", name="Topics").wait_for()


def test_a_large_message_is_shown_in_part_and_saved_whole(browser, filled, address):
    at = ("--bootstrap-server", filled.bootstrap)
    made = ["topics", "--create", *at, "--topic", "large", "--config", "max.message.bytes=8000000"]
    assert run([*made, "--partitions", "1", "--replication-factor", "3"]) == 0
    with Producer(filled.bootstrap, max_request_size=8_000_000) as producer:
        for number in range(5):
            producer.send("large", b"%d" % number + b"x" * 5_000_000, partition=0)
            assert all(each.is_acknowledged for each in producer.flush(90))
    with page_at(browser, address) as page:
        go(page, "topic/large?tab=messages")
        page.locator(".messages .expand").first.click()
        page.get_by_text("The first part of 5.00 MB").wait_for()
        with page.expect_download() as saved:
            page.get_by_role("button", name="Download").click()
        assert saved.value.path().stat().st_size == 5_000_001


def test_without_the_token_the_page_asks_for_it(browser, address):
    place, token = address.split("#token=")
    with page_at(browser, place, expected=("401",)) as page:
        page.get_by_text("This console needs its token").wait_for()
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Open").click()
        page.get_by_text("wrong or of an earlier start").wait_for()
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Open").click()
        page.get_by_text("Healthy").wait_for()


def test_keys_and_names_for_a_screen_reader(browser, address):
    with page_at(browser, address) as page:
        page.keyboard.press("g")
        page.keyboard.press("t")
        page.get_by_role("heading", name="Topics").wait_for()
        page.get_by_role("link", name="flights").wait_for()
        page.keyboard.press("/")
        page.keyboard.type("flig")
        wait_for(lambda: page.locator("tbody tr").count() == 1, "one topic")
        page.get_by_role("link", name="flights").focus()
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="flights").wait_for()
        page.keyboard.press("?")
        assert page.get_by_role("dialog", name="Keys").is_visible()
        page.keyboard.press("Escape")
        for control in page.locator("button, input, select, a").all():
            if control.is_visible():
                name = control.evaluate(
                    "e => e.getAttribute('aria-label') || e.labels?.[0]?.innerText || e.innerText || e.title"
                )
                assert name.strip(), control.evaluate("e => e.outerHTML")


def test_a_hanging_transaction_is_found_and_aborted(browser, filled, address):
    at = ("--bootstrap-server", filled.bootstrap)
    assert run(["topics", "--create", *at, "--topic", "hung", "--partitions", "1", "--replication-factor", "3"]) == 0
    verify = ["configs", *at, "--alter", "--broker-defaults", "--add-config"]
    assert run([*verify, "transaction.partition.verification.enable=false"]) == 0
    hang(filled.bootstrap, "hung", 0)
    with page_at(browser, address) as page:
        go(page, "transactions")
        page.get_by_role("button", name="Look for open transactions").click()
        row = page.locator("tr", has_text="hung-0")
        assert "hangs" in row.inner_text()
        row.get_by_role("button", name="Abort").click()
        page.get_by_label("Type hung to confirm").fill("hung")
        page.locator("dialog").get_by_role("button", name="Abort").click()
        page.get_by_text("No log has an open transaction.").wait_for()
    assert run([*verify, "transaction.partition.verification.enable=true"]) == 0


def test_a_secured_cluster_and_a_console_with_tls_that_only_reads(browser, tmp_path):
    authority = Authority(tmp_path)
    issued = authority.ca.issue_cert("127.0.0.1")
    for name, parts in (("certificate", issued.cert_chain_pems), ("key", [issued.private_key_pem])):
        (tmp_path / name).write_bytes(b"".join(part.bytes() for part in parts))
    tls = ("--certificate", tmp_path / "certificate", "--key", tmp_path / "key")
    with Cluster(brokers=1, secure=True) as cluster:
        cluster.create_topic("safe")
        with connect(cluster.bootstrap, str(cluster.security.client_file)):
            pass
        with (
            served(cluster.bootstrap, "--command-config", cluster.security.client_file, *tls) as place,
            urlopen(place.partition("#")[0], context=authority.context()) as answer,
            page_at(browser, place, any_certificate=True) as page,
        ):
            assert (place.partition(":")[0], answer.status) == ("https", 200)
            page.get_by_text("read-only").wait_for()
            go(page, "topics")
            page.get_by_role("link", name="safe").wait_for()
            assert page.get_by_role("button", name="New topic").count() == 0


def test_a_killed_broker_is_seen(browser, filled, address, request):
    """The last test of this cluster. The moment that the page notes is recorded, on two busy cores 0.4 s; `test_limits.py`
    asserts that one beat of the console is enough."""
    with page_at(browser, address) as page:
        page.get_by_text("Healthy").wait_for()
        page.evaluate(
            """() => new MutationObserver(() => {
                 if (!window.seenAt && document.querySelector('#health').innerText.includes('Broker 2')) window.seenAt = Date.now();
               }).observe(document.querySelector('#health'), {subtree: true, childList: true, characterData: true})"""
        )
        killed_at = page.evaluate("Date.now()")
        filled.kill(2)
        page.get_by_text("Broker 2 is down").wait_for()
        request.node.user_properties.append(("seen_after_ms", page.evaluate("window.seenAt") - killed_at))
        go(page, "topic/flights")
        wait_for(lambda: page.locator(".replica.down").count() == 3, "its replicas to be drawn as down")
        page.locator("#health .why").click()
        page.locator(".finding").first.wait_for()
        assert "broker 2" in page.locator(".findings").inner_text().lower()
        page.keyboard.press("Escape")
        go(page, "overview")
        page.locator(".timeline", has_text="is elected").wait_for()
        story = address.replace("/#token", "/story.html#token")
        page.goto(story.partition("#")[0])
        page.get_by_role("heading", name=re.compile("The last election of (flights|large|hung)-")).wait_for()
        page.keyboard.press("End")
        page.locator(".party.down").wait_for()
        assert page.locator(".party.leader").count() == 1
