"""Messages: browsing, one message, search, live tail, export and produce. Everything reads within a budget."""

import asyncio
import json
import time
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import AsyncIterator, Callable, Mapping
from http import HTTPStatus
from itertools import islice
from typing import Any

from tidelog.cli.admin_requests import EARLIEST, LATEST, list_offsets
from tidelog.client.sending.partitioner import partition_of_key
from tidelog.console import rendering
from tidelog.console.answers import KEEP_ALIVE, Events, File, begun, event
from tidelog.console.console import MOST_OFFSET, Console, Query, Refused, whole_number
from tidelog.console.reading import Budget, Read, backwards, fetch, forwards, merged
from tidelog.console.refusals import refused
from tidelog.model import TopicPartition
from tidelog.wire.record_format import Header

LIMIT, MOST_LIMIT = 50, 500
BROWSE_BYTES, BROWSE_S = 24 * 1024 * 1024, 8.0
SEARCH_BYTES, SEARCH_S = 64 * 1024 * 1024, 15.0
MOST_SEARCH_BYTES, MOST_SEARCH_S = 1024 * 1024 * 1024, 300.0
MOST_FOUND = 500
EXPORT_RECORDS, EXPORT_BYTES, EXPORT_S = 1_000_000, 1024 * 1024 * 1024, 300.0
TAIL_WAIT_MS = 250
MOST_TAIL_S = 3_600.0
TAIL_AT_ONCE = 100
"""Records of one look that the tail shows; a page cannot show more in a quarter of a second."""
MOST_PARTITIONS = 200
PROGRESS_S = 0.25
UNLIMITED = 2**62

Bounds = tuple[dict[int, int], dict[int, int]]


async def messages(console: Console, query: Query) -> Any:
    """Records from a place: `newest`, `oldest`, `offset`, `time`, or where an earlier answer ended (`cursor`)."""
    topic, place = query.text("topic"), query.text("from", "newest")
    limit = query.number("limit", LIMIT, least=1, most=MOST_LIMIT)
    budget = Budget(limit, BROWSE_BYTES, BROWSE_S)
    committed = query.flag("committed")
    async with console.reader() as admin:
        starts, ends = await _bounds(console, topic, _partitions(console, topic, query))
        total = sum(ends[each] - starts[each] for each in ends)
        if place == "newest":
            tops = {**ends, **_cursor(query, ends)}
            taken, following = await backwards(admin, topic, starts, tops, committed=committed, budget=budget)
            more = any(following[each] > starts[each] for each in following)
        else:
            positions = await _positions(console, topic, query, place, starts, ends)
            found: list[Read] = []
            share = {each: Budget(limit, BROWSE_BYTES, BROWSE_S) for each in positions}
            for partition, position in positions.items():
                window = forwards(
                    admin, topic, {partition: position}, ends, committed=committed, budget=share[partition]
                )
                async for piece in window:
                    found += piece.found
                    budget.bytes += piece.size
                if budget.spent_by() in ("bytes", "time"):
                    break
            taken, following = merged(found, positions, limit)
            more = any(following[each] < ends[each] for each in following)
    return {
        "rows": [rendering.row(topic, each) for each in taken],
        "cursor": following if more and taken else None,
        "total": total,
        "bytes": budget.bytes,
        "ms": round(budget.elapsed * 1000),
        "stopped_by": budget.spent_by() if budget.spent_by() != "records" else None,
    }


def _partitions(console: Console, topic: str, query: Query) -> list[int]:
    """The partitions that are asked for: one, those where a key belongs, or all; those of a large topic are limited."""
    known = [each.partition_index for each in console.topic(topic).partitions]
    if query.has("partition"):
        wanted = query.number("partition")
        if wanted not in known:
            raise Refused(HTTPStatus.NOT_FOUND, f"Topic {topic!r} has no partition {wanted}.")
        return [wanted]
    if query.has("key") and not query.flag("everywhere"):
        return [partition_of_key(query.text("key").encode(), len(known))]
    return known[:MOST_PARTITIONS]


async def _bounds(console: Console, topic: str, partitions: list[int]) -> Bounds:
    """Where each partition begins and ends; partitions without a leader are left out."""
    names = [TopicPartition(topic, each) for each in partitions]

    async def at(timestamp: int) -> dict[int, int]:
        found = await console.blocking(list_offsets, console.bridged, dict.fromkeys(names, timestamp), attempts=3)
        return {name.partition: each.offset for name, each in found.items() if not each.error and each.offset >= 0}

    starts, ends = await asyncio.gather(at(EARLIEST), at(LATEST))
    both = starts.keys() & ends.keys()
    if not both and partitions:
        raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "No leader of these partitions answers.")
    return {each: starts[each] for each in sorted(both)}, {each: ends[each] for each in sorted(both)}


def _cursor(query: Query, known: Mapping[int, int]) -> dict[int, int]:
    """Positions by partition, from an earlier answer."""
    if not query.has("cursor"):
        return {}
    try:
        given = json.loads(query.text("cursor"))
        wanted = {int(partition): offset for partition, offset in given.items()}
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise Refused(HTTPStatus.BAD_REQUEST, "cursor: expected partitions with their offsets.") from None
    return {
        partition: whole_number("cursor", offset, 0, MOST_OFFSET)
        for partition, offset in wanted.items()
        if partition in known
    }


async def _positions(
    console: Console, topic: str, query: Query, place: str, starts: Mapping[int, int], ends: Mapping[int, int]
) -> dict[int, int]:
    """Where reading forwards begins, in each partition."""
    if query.has("cursor"):
        return {each: max(offset, starts[each]) for each, offset in _cursor(query, starts).items()}
    if place == "oldest":
        return dict(starts)
    if place == "offset":
        wanted = query.number("offset", least=0)
        return {each: min(max(wanted, starts[each]), ends[each]) for each in starts}
    if place == "time":
        names = {TopicPartition(topic, each): query.number("time", least=0) for each in starts}
        found = await console.blocking(list_offsets, console.bridged, names, attempts=3)
        return {
            name.partition: each.offset if each.offset >= 0 else ends[name.partition] for name, each in found.items()
        }
    raise Refused(HTTPStatus.BAD_REQUEST, f"from: {place!r} is not one of newest, oldest, offset, time.")


async def message(console: Console, query: Query) -> Any:
    """One record with all that the page can show of it."""
    topic, read = await _one(console, query)
    return rendering.row(topic, read, whole=True)


async def download(console: Console, query: Query) -> File:
    """The bytes of one record's key or value."""
    topic, read = await _one(console, query)
    part = query.text("part", "value")
    data = read.record.key if part == "key" else read.record.value
    name = f"{topic}-{read.partition}-{read.record.offset}.{'key' if part == 'key' else 'value'}"
    return File(_once(bytes(data or b"")), name)


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _one(console: Console, query: Query) -> tuple[str, Read]:
    topic, offset = query.text("topic"), query.number("offset", least=0)
    name = TopicPartition(topic, query.number("partition", least=0))
    _partitions(console, topic, query)
    async with console.reader() as admin:
        piece = await fetch(admin, name, offset, committed=False)
    found = next((each for each in piece.found if each.record.offset == offset), None)
    if found is None:
        raise Refused(HTTPStatus.NOT_FOUND, f"{name} has no record at offset {offset}.")
    return topic, found


# Search, tail and export.


def _matcher(query: Query) -> Callable[[Read], bool]:
    """Whether a record has the key, or contains the text or the pattern, in the field that is searched."""
    key = query.text("key").encode() if query.has("key") else None
    text, where = query.text("text", ""), query.text("where", "any")
    finds = _pattern(text, regex=query.flag("regex"), ignore_case=not query.flag("regex") and not query.flag("case"))

    def matches(read: Read) -> bool:
        record = read.record
        if key is not None and record.key != key:
            return False
        if not text:
            return True
        in_key = where in ("any", "key") and record.key is not None and finds(record.key)
        in_value = where in ("any", "value") and record.value is not None and finds(record.value)
        in_headers = where in ("any", "headers") and any(
            finds(name.encode()) or finds(value or b"") for name, value in record.headers
        )
        return in_key or in_value or in_headers

    return matches


def _pattern(text: str, *, regex: bool, ignore_case: bool) -> Callable[[bytes], bool]:
    """RE2 takes linear time for any pattern, and releases the interpreter's lock while it searches, so that the
    server goes on."""
    import re2

    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.log_errors = False
    try:
        compiled = re2.compile(text if regex else re2.escape(text), options)
    except re2.error as error:
        (why,) = error.args
        why = why.decode(errors="replace") if isinstance(why, bytes) else why
        raise Refused(HTTPStatus.BAD_REQUEST, f"The pattern is not valid: {why}.") from None
    return lambda data: compiled.search(bytes(data)) is not None


async def search(console: Console, query: Query) -> Events:
    """Events `found` with records, `progress`, and `done`, until the budget of time and bytes is spent."""
    topic = query.text("topic")
    matches, partitions = _matcher(query), _partitions(console, topic, query)
    seconds = query.number("seconds", int(SEARCH_S), least=1, most=int(MOST_SEARCH_S))
    most_bytes = query.number("bytes", SEARCH_BYTES, least=1, most=MOST_SEARCH_BYTES)
    starts, ends = await _bounds(console, topic, partitions)
    place = query.text("from", "oldest")
    begin = dict(starts) if place == "newest" else await _positions(console, topic, query, place, starts, ends)
    return Events(_search(console, query, matches, begin, ends, seconds, most_bytes))


async def _search(
    console: Console,
    query: Query,
    matches: Callable[[Read], bool],
    begin: dict[int, int],
    ends: dict[int, int],
    seconds: float,
    most_bytes: int,
) -> AsyncIterator[bytes]:
    topic, found_count, said_at = query.text("topic"), 0, 0.0
    budget = Budget(UNLIMITED, most_bytes, seconds)
    total = sum(ends[each] - position for each, position in begin.items())

    def progress(kind: str, **more: Any) -> bytes:
        spent = {"records": budget.records, "bytes": budget.bytes, "ms": round(budget.elapsed * 1000)}
        limits = {"total": total, "most_bytes": most_bytes, "most_ms": round(seconds * 1000)}
        return event(kind, {**spent, **limits, "found": found_count, **more})

    stopped_by = None
    try:
        async with console.reader() as admin:
            yield progress("progress")
            committed = query.flag("committed")
            async for piece in forwards(admin, topic, begin, ends, committed=committed, budget=budget):
                rows = await asyncio.to_thread(_matching_rows, topic, piece.found, matches, MOST_FOUND - found_count)
                found_count += len(rows)
                if rows:
                    yield event("found", rows)
                if found_count >= MOST_FOUND:
                    stopped_by = "found"
                    break
                if time.monotonic() - said_at > PROGRESS_S:
                    said_at = time.monotonic()
                    yield progress("progress")
            else:
                stopped_by = budget.spent_by()
    except Exception as error:  # noqa: BLE001 (the page shows it)
        yield event("refused", {"sentence": refused(error).sentence})
    yield progress("done", stopped_by=stopped_by)


def _matching_rows(topic: str, found: list[Read], matches: Callable[[Read], bool], most: int) -> list[Any]:
    return list(islice((rendering.row(topic, read) for read in found if matches(read)), most))


def _last_rows(topic: str, found: list[Read], matches: Callable[[Read], bool]) -> tuple[list[Any], int]:
    """The last matches that a tail can show, and how many there are."""
    matching = [read for read in found if matches(read)]
    return [rendering.row(topic, read) for read in matching[-TAIL_AT_ONCE:]], len(matching)


async def tail(console: Console, query: Query) -> Events:
    """Events `found` with new records as they come, and `progress`."""
    topic = query.text("topic")
    matches, partitions = _matcher(query), _partitions(console, topic, query)
    _, ends = await _bounds(console, topic, partitions)
    return Events(_tail(console, query, matches, topic, ends))


async def _tail(
    console: Console, query: Query, matches: Callable[[Read], bool], topic: str, positions: dict[int, int]
) -> AsyncIterator[bytes]:
    budget = Budget(UNLIMITED, UNLIMITED, MOST_TAIL_S)
    committed, turn = query.flag("committed"), 0
    try:
        async with console.reader() as admin:
            yield event("progress", {"records": 0, "skipped": 0})
            while budget.spent_by() is None:
                found: list[Any] = []
                matched = 0
                waits = TAIL_WAIT_MS if len(positions) == 1 else 0
                behind = await _behind(console, topic, positions, everything=waits > 0)
                for partition in behind:
                    piece = await fetch(
                        admin,
                        TopicPartition(topic, partition),
                        positions[partition],
                        committed=committed,
                        wait_ms=waits,
                    )
                    positions[partition] = piece.next_offset
                    budget.spend(piece)
                    rows, count = await asyncio.to_thread(_last_rows, topic, piece.found, matches)
                    found, matched = found + rows, matched + count
                if found:
                    shown = sorted(found, key=lambda row: row["timestamp"])[-TAIL_AT_ONCE:]
                    yield event("found", shown)
                    yield event("progress", {"records": budget.records, "skipped": matched - len(shown)})
                elif turn % 40 == 0:
                    yield KEEP_ALIVE
                turn += 1
                if not waits:
                    await asyncio.sleep(TAIL_WAIT_MS / 1000)
    except Exception as error:  # noqa: BLE001 (the page shows it)
        yield event("refused", {"sentence": refused(error).sentence})
    yield event("done", {"stopped_by": budget.spent_by()})


async def _behind(console: Console, topic: str, positions: Mapping[int, int], *, everything: bool) -> list[int]:
    """The partitions that have more records: one request for each leader instead of one for each partition."""
    if everything:
        return list(positions)
    _, ends = await _bounds(console, topic, list(positions))
    return [partition for partition, end in ends.items() if end > positions[partition]]


async def export(console: Console, query: Query) -> File:
    """The records that browsing or a search would show, whole, as lines of JSON or as CSV."""
    topic, kind = query.text("topic"), query.text("format", "jsonl")
    if kind not in ("jsonl", "csv"):
        raise Refused(HTTPStatus.BAD_REQUEST, f"format: {kind!r} is not one of jsonl, csv.")
    most = query.number("limit", 10_000, least=1, most=EXPORT_RECORDS)
    matches, partitions = _matcher(query), _partitions(console, topic, query)
    starts, ends = await _bounds(console, topic, partitions)
    place = query.text("from", "oldest")
    if place == "newest":
        share = -(-most // max(1, len(starts)))
        begin = {each: max(starts[each], ends[each] - share) for each in starts}
    else:
        begin = await _positions(console, topic, query, place, starts, ends)
    media_type = "text/csv" if kind == "csv" else "application/jsonl"
    content = _exported(console, topic, kind, matches, begin, ends, most, committed=query.flag("committed"))
    return File(await begun(content), f"{topic}.{kind}", media_type)


async def _exported(
    console: Console,
    topic: str,
    kind: str,
    matches: Callable[[Read], bool],
    begin: dict[int, int],
    ends: dict[int, int],
    most: int,
    *,
    committed: bool,
) -> AsyncIterator[bytes]:
    line = rendering.csv_line if kind == "csv" else lambda read: rendering.json_line(topic, read)
    budget = Budget(UNLIMITED, EXPORT_BYTES, EXPORT_S)
    count = 0
    if kind == "csv":
        yield rendering.csv_row(rendering.CSV_COLUMNS)
    async with console.reader() as admin:
        async for piece in forwards(admin, topic, begin, ends, committed=committed, budget=budget):
            lines = await asyncio.to_thread(_matching_lines, piece.found, matches, line, most - count)
            count += len(lines)
            if lines:
                yield b"".join(lines)
            if count >= most:
                return
        if budget.spent_by() is not None:
            raise Refused(HTTPStatus.INSUFFICIENT_STORAGE, f"The export ended early: its limit of {budget.spent_by()}.")


def _matching_lines(
    found: list[Read], matches: Callable[[Read], bool], line: Callable[[Read], bytes], most: int
) -> list[bytes]:
    return list(islice((line(each) for each in found if not each.batch.is_control and matches(each)), most))


# Produce.


async def produce(console: Console, query: Query) -> Any:
    """Send one record; `key` and `value` are null, {"text": …} or {"base64": …}."""
    topic = query.text("topic")
    known = [each.partition_index for each in console.topic(topic).partitions]
    partition = query.number("partition") if query.has("partition") else None
    if partition is not None and partition not in known:
        raise Refused(HTTPStatus.NOT_FOUND, f"Topic {topic!r} has no partition {partition}.")
    headers = [_header(each) for each in (query.sequence("headers") if query.has("headers") else [])]
    delivery = await console.producer.send(
        topic,
        _bytes("value", query.optional("value")),
        key=_bytes("key", query.optional("key")),
        headers=headers,
        partition=partition,
    )
    return {"partition": delivery.partition, "offset": delivery.offset, "timestamp": delivery.timestamp}


async def send_again(console: Console, query: Query) -> Any:
    """Send a copy of a record, byte for byte, to its topic or to another one."""
    topic, read = await _one(console, query)
    target = query.text("target", topic)
    console.topic(target)
    if read.batch.is_control:
        raise Refused(HTTPStatus.BAD_REQUEST, "A control record cannot be sent.")
    record = read.record
    delivery = await console.producer.send(
        target,
        None if record.value is None else bytes(record.value),
        key=None if record.key is None else bytes(record.key),
        headers=list(record.headers),
        partition=read.partition if query.flag("same_partition") else None,
    )
    return {"partition": delivery.partition, "offset": delivery.offset, "timestamp": delivery.timestamp}


def _header(given: Any) -> Header:
    if not isinstance(given, list) or len(given) != 2 or not isinstance(given[0], str):
        raise Refused(HTTPStatus.BAD_REQUEST, "headers: expected [name, value] in each.")
    return given[0], _bytes("headers", given[1])


def _bytes(name: str, given: Any) -> bytes | None:
    if given is None:
        return None
    if isinstance(given, dict) and isinstance(given.get("text"), str):
        return str(given["text"]).encode()
    try:
        return b64decode(given["base64"], validate=True)
    except (KeyError, TypeError, NotBase64, ValueError):
        raise Refused(HTTPStatus.BAD_REQUEST, f"{name}: expected a text, base64 or null.") from None
