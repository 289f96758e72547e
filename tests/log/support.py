"""What the log's tests share: a log on a simulated disk, batches, and what a log holds, read back batch by batch."""

from random import Random

from tidelog.config.broker import BrokerConfig
from tidelog.config.topic import TopicConfig
from tidelog.log.log import Log
from tidelog.model import Time, TopicPartition
from tidelog.sim.disk import SimDisk
from tidelog.wire.records import Record, batches, build, header

ROOT = "/data"
FOLDER = "/data/t-0"
TOPIC_ID = bytes(range(16))
WALL = 1_700_000_000_000
NOW = Time(1_000, WALL)
BROKER = BrokerConfig({})


def after(ms):
    return Time(NOW.mono + ms, NOW.wall + ms)


def options(**overrides):
    return TopicConfig({name.replace("_", "."): str(value) for name, value in overrides.items()}, BROKER)


def sim_disk(seed=0):
    return SimDisk([ROOT], Random(seed))


def open_log(disk, config=None, *, recovery_point=0, start=0, clean=False, now=NOW, folder=FOLDER, warm=None):
    return Log.open(
        disk,
        folder,
        TopicPartition("t", 0),
        TOPIC_ID,
        config or options(),
        recovery_point=recovery_point,
        log_start_offset=start,
        clean=clean,
        now=now,
        warm=warm,
    )


def batch(*values, timestamp=WALL, key=b"k", **fields):
    """A client's batch of these values, base offset 0."""
    return build([Record(0, timestamp, key, value) for value in values or (b"v",)], **fields)


def read_batches(log, start=None, limit=None, max_bytes=100):
    """Every batch as its bytes, fetched as a follower would: piece by piece."""
    offset = log.log_start_offset if start is None else start
    limit = log.log_end_offset if limit is None else limit
    found = []
    while (piece := log.read(offset, max_bytes, limit, at_least_one=True)) is not None:
        data = piece.file.read(piece.position, piece.length)
        assert len(data) == piece.length
        whole = list(batches(data))
        assert whole, "the first batch is whole"
        found += [data[b.position : b.end] for b in whole]
        offset = header(found[-1]).next_offset
    return found


def end_of(held):
    return header(held[-1]).next_offset if held else 0


def flush(log):
    """What the node does: sync the files in order, then notify the log; the recovery point that it would checkpoint."""
    end = log.log_end_offset
    for file in log.unsynced():
        file.sync()
    log.mark_synced(end)
    return log.recovery_point


def check_indexes(log):
    """I2: every index entry points at the start of the batch that it names."""
    for segment in log.segments:
        data = segment.file.read(0, segment.size)
        ends = {b.last_offset: b for b in batches(data)}
        for number in range(len(segment.offsets)):
            offset, position = segment.offsets.entry(number)
            assert ends[offset].position == position
        for number in range(len(segment.times)):
            timestamp, offset = segment.times.entry(number)
            assert ends[offset].max_timestamp == timestamp
            assert all(b.max_timestamp <= timestamp for last, b in ends.items() if last <= offset)


def check_epochs(log, held):
    """I18: every epoch in the log begins where its first retained record does; other entries hold no records."""
    log.epochs.check_invariants()
    expected = {}
    for data in held:
        found = header(data)
        expected.setdefault(found.leader_epoch, max(found.base_offset, log.log_start_offset))
    entries = dict(log.epochs)
    assert {epoch: entries.get(epoch) for epoch in expected} == expected
    for data in held:
        found = header(data)
        assert log.epochs.epoch_at(max(found.base_offset, log.log_start_offset)) == found.leader_epoch
