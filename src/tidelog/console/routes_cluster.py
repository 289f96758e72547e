"""The cluster as a whole: what every page shows live, brokers, and why something is wrong."""

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import Any

from tidelog.console import views
from tidelog.console.answers import KEEP_ALIVE, Events, event
from tidelog.console.console import MOST_STREAMS, Console, Query, Refused
from tidelog.console.diagnosis import SubjectKind, command_line, explained
from tidelog.console.refusals import refused
from tidelog.console.routes_groups import group_live, groups_live
from tidelog.console.routes_moves import moves_live
from tidelog.console.routes_topics import topic_live, topics_live

READY_S = 5.0
KEEP_ALIVE_S = 10.0
KINDS: dict[str, SubjectKind] = {
    "cluster": "cluster",
    "topic": "topic",
    "partition": "partition",
    "broker": "broker",
    "group": "group",
}

Payload = Callable[[Console, Query], Awaitable[Any]]


async def session(console: Console, _query: Query) -> Any:
    """What the page needs first; waits for a moment for the first look at the cluster."""
    await console.observer.ready(READY_S)
    return {
        "bootstrap": console.bootstrap,
        "allow_changes": console.allow_changes,
        "header": views.header(console.observer),
    }


async def overview(console: Console, _query: Query) -> Any:
    return views.overview(console.observer)


async def nothing(_console: Console, _query: Query) -> Any:
    return None


WATCHES: dict[str, tuple[Payload, float]] = {
    "nothing": (nothing, 2.0),
    "overview": (overview, 1.0),
    "topics": (topics_live, 2.0),
    "topic": (topic_live, 0.5),
    "groups": (groups_live, 2.0),
    "group": (group_live, 1.0),
    "moves": (moves_live, 1.0),
}
"""What a page may watch, and how often it is looked at, in seconds, if nothing calls for it sooner."""


async def live(console: Console, query: Query) -> Events:
    """Events `header`, and `page` with what the page watches, each whenever it changes."""
    watch = query.text("watch", "nothing")
    if watch not in WATCHES:
        raise Refused(HTTPStatus.BAD_REQUEST, f"watch: {watch!r} is not one of {', '.join(WATCHES)}.")
    if console.streams >= MOST_STREAMS:
        raise Refused(HTTPStatus.TOO_MANY_REQUESTS, f"Too many pages are open; the limit is {MOST_STREAMS}.")
    payload, pause_s = WATCHES[watch]
    return Events(_live(console, query, payload, pause_s))


async def _live(console: Console, query: Query, payload: Payload, pause_s: float) -> AsyncIterator[bytes]:
    sent: dict[str, str] = {}
    sent_at = 0.0
    console.streams += 1
    try:
        while True:
            looks = {"header": views.header(console.observer)}
            try:
                looks["page"] = await payload(console, query)
            except Exception as error:  # noqa: BLE001 (the page shows it)
                looks["refused"] = {"sentence": refused(error).sentence}
            for kind, data in looks.items():
                text = json.dumps(data)
                if sent.get(kind) != text:
                    sent[kind], sent_at = text, time.monotonic()
                    yield event(kind, data)
            if time.monotonic() - sent_at > KEEP_ALIVE_S:
                sent_at = time.monotonic()
                yield KEEP_ALIVE
            await console.observer.wait_changed(pause_s)
    finally:
        console.streams -= 1


async def why(console: Console, query: Query) -> Any:
    """The findings of `explain` about the cluster, or a part of it."""
    kind = query.text("kind")
    name = query.text("name", "")
    if kind not in KINDS:
        raise Refused(HTTPStatus.BAD_REQUEST, f"kind: {kind!r} is not one of {', '.join(KINDS)}.")
    if kind == "broker":
        query.number("name", least=0)
    complete = command_line(console.bootstrap, console.command_config)
    return await console.blocking(explained, console.bridged, KINDS[kind], name, complete)
