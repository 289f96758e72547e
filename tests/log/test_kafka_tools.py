"""Kafka's own DumpLogSegments reads every file of a partition's folder, and agrees with what the log says."""

import re

from tests.log.support import NOW, WALL, batch, options
from tidelog.log.compaction.candidates import candidate
from tidelog.log.compaction.compactor import compact
from tidelog.log.compaction.steps import Flush
from tidelog.log.log import Log
from tidelog.model import TopicPartition
from tidelog.shell.disk import OsDisk
from tidelog.wire.compression import Compression
from tidelog.wire.records import TRANSACTIONAL, Marker, build_marker


def test_kafka_audits_our_files(tmp_path, tool_server):
    folder = tmp_path / "audit-0"
    log = Log.open(
        OsDisk([str(tmp_path)]),
        str(folder),
        TopicPartition("audit", 0),
        bytes(range(16)),
        options(internal_segment_bytes=6_000, index_interval_bytes=200),
        recovery_point=0,
        log_start_offset=0,
        clean=False,
        now=NOW,
    )
    codecs = list(Compression)
    for number in range(60):
        values = [b"value %d" % number] * (number % 4 + 1)
        fields = {"compression": codecs[number % 5], "timestamp": WALL + number * 7 % 50}
        if number % 2:
            fields |= {"producer_id": number % 3, "producer_epoch": 0, "base_sequence": 0}
            known = log.producers.get(number % 3)
            fields["base_sequence"] = known.last_sequence + 1 if known else 0
        log.append_as_leader(batch(*values, **fields), number // 20, NOW)
    log.truncate_to(log.log_end_offset - 9)
    log.append_as_leader(batch(b"after a truncation", timestamp=WALL + 99), 3, NOW)
    transactional = {"attributes": TRANSACTIONAL, "producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    log.append_as_leader(batch(b"never committed", timestamp=WALL + 99, **transactional), 3, NOW)
    log.roll(NOW)
    aborted = build_marker(Marker(committed=False, coordinator_epoch=7), timestamp=WALL + 99, producer_id=9,
                           producer_epoch=1)  # fmt: skip
    log.append_as_leader(aborted, 3, NOW, from_client=False, transaction_version=2)
    first = log.log_end_offset - 2
    log.close()

    assert len(log.segments) >= 2
    files = sorted(str(path) for path in folder.iterdir() if path.name[0] == "0" and path.suffix != ".deleted")
    done = tool_server.run("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(files))
    assert done.returncode == 0
    # The tool's own way with a segment that does not begin at 0: it takes -1 for the offset before.
    harmless = re.compile(r"SLF4J.*|Non-consecutive offsets in .*|  -1 is followed by \d+")
    assert [line for line in done.stderr.splitlines() if not harmless.fullmatch(line)] == []
    records = [int(offset) for offset in re.findall(r"^\| offset: (\d+) ", done.stdout, re.MULTILINE)]
    assert records == list(range(log.log_end_offset))
    assert len(re.findall(r"^producerId: ", done.stdout, re.MULTILINE)) >= 3
    assert f"producerId: 9 firstOffset: {first} lastOffset: {first + 1} lastStableOffset: {first + 2}" in done.stdout
    assert "endTxnMarker: ABORT coordinatorEpoch: 7" in done.stdout
    index_entries = re.findall(r"^offset: \d+ position: \d+$", done.stdout, re.MULTILINE)
    assert len(index_entries) == sum(len(segment.offsets) for segment in log.segments) > 5


TINY = options(cleanup_policy="compact", internal_segment_bytes=4_000, index_interval_bytes=200,
               min_cleanable_dirty_ratio="0.01")  # fmt: skip


def opened(tmp_path, point=0):
    return Log.open(
        OsDisk([str(tmp_path)]),
        str(tmp_path / "keyed-0"),
        TopicPartition("keyed", 0),
        bytes(range(16)),
        TINY,
        recovery_point=point,
        log_start_offset=0,
        clean=False,
        now=NOW,
    )


def synced(log):
    end = log.log_end_offset
    for file in log.unsynced():
        file.sync()
    log.mark_synced(end)


def compacted(log, steps):
    """Compact the log, but stop after so many steps, as a process does that is killed; whether it came to the end."""
    found = candidate(log, log.log_end_offset, WALL + 10_000)
    for number, step in enumerate(compact(found, WALL + 10_000, 1 << 20)):
        if number == steps:
            return False
        if isinstance(step, Flush):
            for file in step.files:
                file.sync()
    return True


def test_kafka_audits_what_compaction_and_a_kill_in_the_middle_of_it_left(tmp_path, tool_server):
    log = opened(tmp_path)
    for number in range(300):
        key = b"key %d" % (number % 7)
        fields = {"compression": list(Compression)[number % 5], "timestamp": WALL + number}
        if number % 10 == 3:
            fields |= {"attributes": TRANSACTIONAL, "producer_id": 9, "producer_epoch": 0,
                       "base_sequence": number // 10}  # fmt: skip
        log.append_as_leader(batch(b"value %d" % number * 9, key=key, **fields), number // 100, NOW)
    synced(log)
    flushes = [number for number, step in enumerate(_steps(log)) if isinstance(step, Flush)]
    assert len(flushes) > 4
    for steps in (flushes[0], flushes[1] + 1, flushes[2] + 1, flushes[3] + 1):
        compacted(log, steps)
        log = opened(tmp_path, log.recovery_point)
    log.append_as_leader(batch(b"after the kills", timestamp=WALL + 999), 4, NOW)
    synced(log)
    log.close()
    folder = tmp_path / "keyed-0"
    files = sorted(str(path) for path in folder.iterdir() if path.name[0] == "0" and path.suffix != ".deleted")
    done = tool_server.run("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(files))
    assert done.returncode == 0
    harmless = re.compile(r"SLF4J.*|Non-consecutive offsets in .*|  -?\d+ is followed by \d+")
    assert [line for line in done.stderr.splitlines() if not harmless.fullmatch(line)] == []
    assert "Mismatch" not in done.stdout
    assert "Found" not in done.stdout
    records = [int(offset) for offset in re.findall(r"^\| offset: (\d+) ", done.stdout, re.MULTILINE)]
    assert records == sorted(set(records))
    assert records[-1] == 300
    assert len(records) < 250, "it was compacted"


def _steps(log):
    """A whole pass, on the log as it is."""
    for step in compact(candidate(log, 100, WALL), WALL, 1 << 20):
        if isinstance(step, Flush):
            for file in step.files:
                file.sync()
        yield step
