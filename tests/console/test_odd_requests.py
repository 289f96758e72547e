"""Whatever a page sends, every route answers with a sentence and the console goes on; what a stream fails of, it says."""

import asyncio
import json

import pytest

from tests.console.asking import console
from tidelog.console import console as console_module
from tidelog.console import diagnosis, routes_cluster, routes_messages
from tidelog.console.console import Refused
from tidelog.console.routes import BODY_BYTES, ROUTES
from tidelog.errors import ApiError, ErrorCode
from tidelog.shell.transport import Producer
from tidelog.testing import Cluster

NAMES = (
    "topic", "name", "kind", "group", "id", "partition", "offset", "cursor", "from", "time", "text", "key", "minutes",
    "scenario", "value", "rows", "options", "entity", "values", "replicas", "resource", "principal", "headers", "watch",
)  # fmt: skip
ODD = ["", "\ud800", "\0", "[" * 5_000, 10**30, -1, 1.5, None, [], [{}], {"0": 1e999}]
STREAMS = ("live", "messages/tail")
"""They do not end by themselves."""


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=1) as running:
        running.create_topic("t", partitions=2, max_message_bytes=2 * BODY_BYTES)
        with Producer(running.bootstrap) as producer:
            producer.send("t", b"1", partition=0)
            producer.flush()
        yield running


def opened(cluster, **settings):
    return console(cluster.bootstrap, **settings)


def test_odd_values_get_a_sentence_from_every_route(cluster, capsys, monkeypatch):
    """Each value in every place of a request, and alone in the place that the others lead to."""

    monkeypatch.setattr(diagnosis, "WATCH_MS", 0)

    async def run():
        async with opened(cluster, allow_changes=True) as asking:
            for path, route in ROUTES.items():
                for odd in ODD:
                    for given in (dict.fromkeys(NAMES, odd), {**dict.fromkeys(NAMES, odd), **PLAUSIBLE}):
                        if path in STREAMS and given.get("topic") == "t":
                            continue
                        answer = await asking.post(path, given)
                        assert answer.status != 500, (path, given, answer)
                        assert answer.status == 200 or len(answer.json["sentence"]) > 10
                        assert not route.changes or answer.status != 200 or path in HARMLESS, (path, given)

    asyncio.run(run())
    assert "Traceback" not in capsys.readouterr().err


PLAUSIBLE = {
    "topic": "t",
    "name": "t",
    "group": "g",
    "kind": "topic",
    "scenario": "to_offset",
    "from": "offset",
    "confirm": "g",
}
HARMLESS = ("messages/produce", "configs/alter", "groups/reset")
"""Of these changes some odd requests are valid: a record of a null value, no options, no rows."""


def test_a_body_is_as_large_as_its_route_needs(cluster):
    async def run():
        async with opened(cluster, allow_changes=True) as asking:
            large = "x" * BODY_BYTES
            assert (await asking.post("topics/create", {"topic": "u", "options": large})).status == 413
            assert (await asking.post("messages/produce", {"topic": "t", "value": {"text": large}})).status == 200

    asyncio.run(run())


def test_a_live_page_says_what_it_cannot_show_and_goes_on(cluster, monkeypatch):
    """Its stream must not end: the page would show a console that does not answer."""
    calls = []

    async def fails(*_):
        calls.append(1)
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE) if len(calls) < 3 else KeyError("x")

    async def run():
        async with opened(cluster) as asking:
            monkeypatch.setitem(routes_cluster.WATCHES, "group", (fails, 0.01))
            answer = await asking.events(
                "GET", "/api/live", "watch=group&group=g", enough=lambda body: body.count(b"event: refused") == 2
            )
            sentences = [json.loads(block.split("data: ")[1])["sentence"] for block in blocks(answer, "refused")]
            assert sentences == [
                "The coordinator is not available (COORDINATOR_NOT_AVAILABLE).",
                "The console failed: KeyError. It has printed the details where it was started.",
            ]

    asyncio.run(run())


def blocks(answer, kind):
    return [block for block in answer.body.decode().split("\n\n") if block.startswith(f"event: {kind}\n")]


def test_an_export_that_cannot_begin_is_refused_with_a_status(cluster, monkeypatch):
    async def run():
        monkeypatch.setattr(console_module, "MOST_READERS", 0)
        monkeypatch.setattr(console_module, "READER_WAIT_S", 0.01)
        async with opened(cluster) as asking:
            answer = await asking.get("messages/export", topic="t")
            assert (answer.status, "at a time" in answer.json["sentence"]) == (429, True)

    asyncio.run(run())


def test_an_export_that_ends_at_its_limit_is_no_whole_file(cluster, monkeypatch):
    """A file that looks complete and is not would be believed."""

    async def run():
        monkeypatch.setattr(routes_messages, "EXPORT_BYTES", 1)
        async with opened(cluster) as asking:
            with pytest.raises(Refused, match="limit of bytes"):
                await asking.get("messages/export", topic="t")

    asyncio.run(run())
