"""Topics: the list, one topic with its replicas live, options, and changes."""

import asyncio
import time
from http import HTTPStatus
from typing import Any

from tidelog.cli.admin_requests import alter_configs, describe_configs
from tidelog.cli.config_actions import SOURCES
from tidelog.client.admin import CONTROLLER
from tidelog.client.results import code_of
from tidelog.config.alter import BROKER, GROUP, TOPIC
from tidelog.console import views
from tidelog.console.console import Console, Query, Refused
from tidelog.errors import ApiError
from tidelog.model import NO_ID, TopicPartition, id_text
from tidelog.wire.messages.topics.topic_changes import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

TIMEOUT_MS = 30_000
SEEN_S, SEEN_PAUSE_S = 10.0, 0.1
PAGE_SIZE = 50
MOST_PARTITIONS_SHOWN = 100
RESOURCES = {"topic": TOPIC, "broker": BROKER, "group": GROUP}


async def topics_live(console: Console, query: Query) -> Any:
    return views.topics(
        console.observer,
        find=query.text("find", ""),
        sort=query.text("sort", "name"),
        descending=query.flag("descending"),
        page=query.number("page", 0, least=0),
        size=query.number("size", PAGE_SIZE, least=1, most=views.MOST_ROWS),
        internal=query.flag("internal"),
    )


async def topic_live(console: Console, query: Query) -> Any:
    """One page of partitions, with every replica's log end offset and high watermark."""
    name = query.text("topic")
    topic = console.topic(name)
    size = query.number("size", PAGE_SIZE, least=1, most=MOST_PARTITIONS_SHOWN)
    page = query.number("page", 0, least=0)
    total, shown = views.partitions_page(topic, page=page, size=size, only_trouble=query.flag("trouble"))
    wanted: dict[int, list[TopicPartition]] = {}
    for each in shown:
        for replica in each.replica_nodes:
            wanted.setdefault(replica, []).append(TopicPartition(name, each.partition_index))
    positions = await console.observer.positions(wanted)
    eligible = await console.observer.eligible(name, shown)
    return {
        "topic": views.topic_row(console.observer, topic),
        "total": total,
        "rows": views.partition_rows(console.observer, name, shown, positions, eligible),
    }


async def configs(console: Console, query: Query) -> Any:
    """The options of a topic, broker or group, each with where its value comes from."""
    kind, name = query.text("kind"), query.text("name")
    if kind not in RESOURCES:
        raise Refused(HTTPStatus.BAD_REQUEST, f"kind: {kind!r} is not one of {', '.join(RESOURCES)}.")
    broker = query.number("name", least=0) if kind == "broker" else -1
    found = await console.blocking(
        describe_configs, console.bridged, RESOURCES[kind], [name], broker=broker, synonyms=True
    )
    return {"options": [_option(each) for each in sorted(found.get(name, []), key=lambda each: str(each.name))]}


def _option(entry: Any) -> views.Json:
    return {
        "name": entry.name,
        "value": None if entry.is_sensitive else entry.value,
        "sensitive": entry.is_sensitive,
        "read_only": entry.read_only,
        "source": SOURCES.get(entry.config_source, str(entry.config_source)),
        "documentation": entry.documentation,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": SOURCES.get(each.source, str(each.source))}
            for each in entry.synonyms
        ],
    }


async def alter(console: Console, query: Query) -> Any:
    """Set options, or delete those whose value is null."""
    kind, name = query.text("kind"), query.text("name")
    if kind not in RESOURCES:
        raise Refused(HTTPStatus.BAD_REQUEST, f"kind: {kind!r} is not one of {', '.join(RESOURCES)}.")
    confirm(query, name)
    given = query.mapping("options")
    options = [(str(option), None if value is None else str(value)) for option, value in given.items()]
    broker = query.number("name", least=0) if kind == "broker" else -1
    await console.blocking(alter_configs, console.bridged, RESOURCES[kind], name, options, broker=broker)
    return {}


def confirm(query: Query, name: str) -> None:
    """The person has typed the name of what is changed."""
    if query.text("confirm", "") != name:
        raise Refused(HTTPStatus.BAD_REQUEST, f"Type {name!r} to confirm.")


async def create(console: Console, query: Query) -> Any:
    name = query.text("topic")
    topic = CreatableTopic(
        name=name,
        num_partitions=query.number("partitions", -1, least=-1, most=100_000),
        replication_factor=query.number("replication", -1, least=-1, most=1_000),
        configs=[
            CreatableTopicConfig(name=str(option), value=str(value))
            for option, value in (query.mapping("options") if query.has("options") else {}).items()
        ],
    )
    only_check = query.flag("dry_run")
    request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=only_check)
    _check((await console.admin.ask(request, CONTROLLER)).topics[0])
    if not only_check:
        await _seen(console, lambda: name in _names(console))
    return {}


async def add_partitions(console: Console, query: Query) -> Any:
    name = query.text("topic")
    console.topic(name)
    confirm(query, name)
    wanted = query.number("partitions", least=1, most=100_000)
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=wanted, assignments=None)], timeout_ms=TIMEOUT_MS
    )
    _check((await console.admin.ask(request, CONTROLLER)).results[0])
    await console.observer.refresh()
    return {}


async def delete(console: Console, query: Query) -> Any:
    name = query.text("topic")
    topic = console.topic(name)
    confirm(query, name)
    # By its ID where it has one: a topic of the same name that somebody created meanwhile is another one.
    has_id = topic.topic_id != NO_ID
    wanted = DeleteTopicState(name=None if has_id else name, topic_id=topic.topic_id)
    names = [] if has_id else [name]
    request = DeleteTopicsRequest(topics=[wanted], topic_names=names, timeout_ms=TIMEOUT_MS)
    _check((await console.admin.ask(request, CONTROLLER)).responses[0])
    await _seen(console, lambda: name not in _names(console))
    return {}


def _names(console: Console) -> Any:
    return console.observer.topology.topics if console.observer.topology is not None else {}


async def _seen(console: Console, is_seen: Any) -> None:
    """Wait until the page will show what was changed; not for ever, because it was changed in any case."""
    until = time.monotonic() + SEEN_S
    await console.observer.refresh()
    while not is_seen() and time.monotonic() < until:
        await asyncio.sleep(SEEN_PAUSE_S)
        await console.observer.refresh()


def _check(result: Any) -> None:
    if result.error_code:
        raise ApiError(code_of(result.error_code), result.error_message)


async def topic(console: Console, query: Query) -> Any:
    """One topic, and every partition's bounds for browsing."""
    found = console.topic(query.text("topic"))
    numbers = [each.partition_index for each in found.partitions]
    row = views.topic_row(console.observer, found)
    row["id"] = "" if found.topic_id == NO_ID else id_text(found.topic_id)
    return {"topic": row, "numbers": numbers[: views.MOST_ROWS], "more": max(0, len(numbers) - views.MOST_ROWS)}
