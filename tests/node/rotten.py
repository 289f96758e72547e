"""A broker's log folder with files of every kind, as it was stopped or killed; one of its files is spoiled, and the
next process starts. `findings` is what is wrong then.

Invariant (I30 of a single broken file): every record is read as it was written, or its loss is reported; nothing that
was acknowledged is silently changed or missing, for readers of committed records as well, and for lookups by time.
Or the replica is refused by one event that names the file.
"""

from random import Random
from typing import NamedTuple

from tests.node.one_broker import CLIENT, TOPIC, TOPIC_ID, WALL, OneBroker
from tidelog.errors import ErrorCode
from tidelog.sim.disk import SimDisk
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.records.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.wire.records import CONTROL, TRANSACTIONAL, Marker, Record, batches, build, build_marker, records

ROOT = "/data"
FOLDER = f"{ROOT}/{TOPIC}-0"
OPTIONS = {"min_insync_replicas": 1, "log_index_interval_bytes": 0, "alive": (0,)}
COMMITTED = 1
REFUSED = {ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR}
FINISHED_IN = 200
"""Offsets that a reader tries."""


class Content(NamedTuple):
    """What clients can learn of a partition. `committed` are the records for readers of committed records; `times` is
    the offset found for each timestamp; `unread` the offsets whose read was refused."""

    start: int
    end: int
    records: tuple
    committed: tuple
    times: tuple
    unread: frozenset


class Stopped(NamedTuple):
    """The files of a process that has ended, and what its clients had read."""

    files: dict
    content: Content


def lead(broker, epoch):
    broker.lead(isr=(0,), replicas=(0,), epoch=epoch, partition_epoch=epoch)


def append(broker, number, *, producer=-1, sequence=-1, transactional=False):
    record = Record(0, WALL + 10 * number, b"k%d" % number, b"value %d" % number)
    data = build(
        [record],
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=sequence,
        attributes=TRANSACTIONAL if transactional else 0,
    )
    partition = broker.partition()
    partition.log.append_as_leader(bytearray(data), partition.epoch, broker.now)


def end(broker, producer, *, commit):
    data = build_marker(Marker(commit, 0), timestamp=WALL, producer_id=producer, producer_epoch=0)
    partition = broker.partition()
    partition.log.append_as_leader(bytearray(data), partition.epoch, broker.now, from_client=False)


def fill(broker, rounds=4):
    """Segments, epochs, transactions of two producers that overlap, an idempotent producer, and a log start."""
    for number in range(rounds):
        lead(broker, epoch=number)
        append(broker, 10 * number, producer=7, sequence=number, transactional=True)
        append(broker, 10 * number + 1, producer=8, sequence=number, transactional=True)
        append(broker, 10 * number + 2)
        end(broker, 7, commit=number % 2 == 0)
        append(broker, 10 * number + 3, producer=9, sequence=number)
        end(broker, 8, commit=number % 2 == 1)
        assert broker.produced(broker.produce(f"acknowledged {number}"))[0] == 0
        if number < rounds - 1:
            broker.partition().log.roll(broker.now)
            broker.passes(1_000)
            while broker.syncs:
                broker.synced()
    partition = DeleteRecordsPartition(partition_index=0, offset=3)
    topic = DeleteRecordsTopic(name=TOPIC, partitions=[partition])
    broker.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=1_000), CLIENT)
    broker.partition().log.cleaned_to = 3
    broker.node.upkeep.jobs.note_compaction()


def stopped(*, clean):
    broker = OneBroker(**OPTIONS)
    fill(broker)
    content = content_of(broker)
    broker.passes(70_000)  # every checkpoint is written
    if clean:
        stop(broker)
    else:
        broker.disk.kill()
    return Stopped(files_of(broker.disk), content)


def stop(broker):
    broker.give("stop")
    broker.passes(1)
    assert broker.stopped is not None


def files_of(disk):
    return {path: disk.read(path) for path in paths(disk, ROOT)}


def paths(disk, folder):
    for name in disk.list(folder):
        path = f"{folder}/{name}"
        if path == FOLDER:
            yield from paths(disk, path)
        elif not name.startswith(TOPIC):  # a copy that was set aside
            yield path


def disk_with(files):
    disk = SimDisk([ROOT], Random(0))
    for folder in (ROOT, FOLDER):
        disk.make_folder(folder)
    for path, content in files.items():
        disk.replace(path, content)
    return disk


def started(files):
    """The next process, on these files."""
    disk = disk_with(files)
    broker = OneBroker(disk=disk, **OPTIONS)
    lead(broker, epoch=9)
    return broker


# What clients can learn.


def content_of(broker):
    log = broker.partition().log
    uncommitted, unread = read_all(broker, log, 0)
    committed, unread_committed = read_all(broker, log, COMMITTED)
    times = tuple(offset_at(broker, WALL + 10 * number) for number in (0, 2, 13, 20, 31, 33, 40))
    return Content(
        log.log_start_offset, log.log_end_offset, uncommitted, committed, times, frozenset(unread | unread_committed)
    )


def read_all(broker, log, isolation):
    """(the records from the log's start, the offsets that were refused)."""
    found, unread = [], set()
    offset, aborted_now = log.log_start_offset, set()
    for _ in range(FINISHED_IN):
        if offset >= log.log_end_offset:
            break
        data = fetched(broker, offset, isolation)
        if data.error_code:
            assert data.error_code in REFUSED, ErrorCode(data.error_code)
            unread.add(offset)
            offset += 1
            continue
        whole = list(batches(data.records or b""))
        if not whole:
            unread.add(offset)
            offset += 1
            continue
        aborted = {(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()}
        for batch in whole:
            for producer, first in aborted:
                if first <= batch.base_offset and producer == batch.producer_id:
                    aborted_now.add(producer)
            raw = bytes(memoryview(data.records)[batch.position : batch.end])
            if batch.attributes & CONTROL:
                aborted_now.discard(batch.producer_id)
                aborted = {(p, f) for p, f in aborted if p != batch.producer_id or f > batch.base_offset}
                continue
            if isolation and batch.attributes & TRANSACTIONAL and batch.producer_id in aborted_now:
                continue
            found += [(r.offset, r.timestamp, r.key, r.value) for r in records(raw) if r.offset >= offset]
        offset = whole[-1].next_offset
    return tuple(found), unread


def fetched(broker, offset, isolation):
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_epoch=-1,
        isolation_level=isolation,
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[wanted])],
    )
    for _ in range(3):  # an examination comes first
        number = broker.send(request)
        if number not in broker.answers:
            broker.passes(1_000)
        data = broker.answers[number].responses[0].partitions[0]
        if data.error_code or data.records:
            return data
    return data


def offset_at(broker, timestamp):
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=[wanted])])
    found = broker.ask(request, CLIENT, 7).topics[0].partitions[0]
    assert found.error_code == 0 or found.error_code in REFUSED, ErrorCode(found.error_code)
    return (found.error_code, found.offset)


def reported(broker):
    """The events that an operator reads, by kind."""
    return {event.kind: event.fields for event in broker.events if event.level in ("warning", "error")}


def findings(before, files):
    """What is wrong after a start on these files; empty if nothing is."""
    broker = started(files)
    events = reported(broker)
    partition = broker.partition()
    if broker.stopped is not None:
        return f"stopped: {broker.stopped}" if not events else ""
    if "log.corrupt" in events:
        return ""
    if partition is None:
        return "no replica, and no word about it"
    now = content_of(broker)
    events = reported(broker)
    found = compared(before.content, now, events)
    if found:
        return f"{found}; events {events}"
    return after(broker, now)


def compared(before, now, events):
    lost = set(before.records) - set(now.records)
    silent = {record[0] for record in lost} - now.unread
    if silent and not events:
        return f"lost {sorted(silent)} of {before.start}..{before.end}, now {now.start}..{now.end}"
    if set(now.records) - set(before.records) and not (now.start < before.start or events):
        return f"changed {sorted(set(now.records) - set(before.records))}"
    if now.unread and not events:
        return f"refused {sorted(now.unread)} without a word"
    if not events and now.start == before.start and now.committed != before.committed:
        return f"committed: {now.committed} for {before.committed}"
    wrong = [time for time, old in zip(now.times, before.times, strict=True) if time[0] == 0 and time != old]
    if not events and now.start == before.start and wrong:
        return f"times: {now.times} for {before.times}"
    return ""


def after(broker, before):
    """It goes on: more is appended, old segments are looked at, and another process starts on what it leaves."""
    broker.passes(400_000)
    number = broker.produce("after")
    if broker.produced(number) != (0, before.end):
        return f"not appended: {broker.produced(number)}"
    now = content_of(broker)
    if is_less(now, before):
        return f"then {now} for {before}"
    stop(broker)
    again = started(files_of(broker.disk))
    if again.partition() is None:
        return "no replica in the second process"
    last = content_of(again)
    if is_less(last, now):
        return f"in the second process {last} for {now}"
    return ""


def is_less(now, before):
    """Whether a record that was read before is now neither read nor refused."""
    missing = set(before.records) - set(now.records) | set(before.committed) - set(now.committed)
    return bool({record[0] for record in missing} - now.unread)


def spoiled(content, step):
    """(what was done, the file): bits turned, the file cut, and followed by zeros, as a power loss leaves them. With a
    step of 1 every bit of every byte; otherwise one of each, and at least a few bytes of a short file."""
    step = min(step, max(1, len(content) // 4))
    for position in range(0, len(content), step):
        yield f"cut at {position}", content[:position]
        for bit in range(8) if step == 1 else [position % 8]:
            changed = bytearray(content)
            changed[position] ^= 1 << bit
            yield f"byte {position} ^ {1 << bit}", bytes(changed)
        yield f"zeros from {position}", content[:position] + bytes(len(content) - position)
    for more in (1, 4080):  # and whole entries of every kind of index
        yield f"{more} zeros more", content + bytes(more)
