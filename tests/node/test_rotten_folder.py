"""Bytes that changed in the files of a stopped broker: see `tests.node.rotten`.

`test_every_kind_of_file` takes some bytes of each file; TIDELOG_ROT_STEP=1 takes every bit of every byte (half an hour).
The other tests are defects that it found.
"""

import os

import pytest

from tests.node import rotten
from tests.node.one_broker import TOPIC
from tests.node.rotten import COMMITTED, FOLDER, OPTIONS, ROOT
from tests.node.test_rot import answer, dial, repairs
from tidelog.log import checkpoints
from tidelog.model import id_text
from tidelog.wire.records import batches

STEP = int(os.environ.get("TIDELOG_ROT_STEP", "61"))
FIRST, ACTIVE = f"{FOLDER}/{0:020d}", f"{FOLDER}/{21:020d}"
STARTS = f"{ROOT}/{checkpoints.START_OFFSETS}"
METADATA = f"{FOLDER}/{checkpoints.PARTITION_METADATA}"
BASE_OFFSET, LENGTH, TIMESTAMP = range(8), 8, 27


@pytest.fixture(scope="module", params=["clean", "killed"])
def before(request):
    return rotten.stopped(clean=request.param == "clean")


@pytest.fixture(scope="module")
def clean():
    return rotten.stopped(clean=True)


def is_known_limit(path, what, found, before):
    """What no checksum covers and nothing contradicts; docs/security.md says so."""
    if path.endswith(".timeindex"):  # without its last entries it is that of an older segment
        return found.startswith("times") and not what.startswith("byte")
    is_clean = f"{ROOT}/{checkpoints.CLEAN_SHUTDOWN}" in before.files
    return path == STARTS and not is_clean and what.startswith("byte") and found.startswith("lost")


@pytest.mark.parametrize("kind", ["checkpoint", ".kafka_clean", ".metadata", "index", ".log", ".snapshot"])
def test_every_kind_of_file(before, kind):
    tried = 0
    for path, content in before.files.items():
        if kind not in path.removeprefix(ROOT) or (kind == "index" and "index" not in path[-8:]):
            continue
        for what, changed in rotten.spoiled(content, STEP):
            found = rotten.findings(before, {**before.files, path: changed})
            assert not found or is_known_limit(path, what, found, before), f"{path}, {what}: {found}"
            tried += 1
    assert tried or f"{ROOT}/{checkpoints.CLEAN_SHUTDOWN}" not in before.files


def turned(content, position, mask=1):
    changed = bytearray(content)
    changed[position] ^= mask
    return bytes(changed)


def started(before, path, content):
    return rotten.started({**before.files, path: content})


@pytest.mark.parametrize(
    "name",
    [
        checkpoints.REPLICATION_OFFSETS,
        checkpoints.RECOVERY_POINTS,
        checkpoints.START_OFFSETS,
        checkpoints.CLEANER_OFFSETS,
    ],
)
@pytest.mark.parametrize("content", [b"0\n2\nt 0 3\n", b"0\n1\nt 0 3", b"\x00" * 10, b"0\n2\nt 0 3\nt 0 3\n"])
def test_a_damaged_checkpoint_is_reported_and_nothing_is_lost(clean, name, content):
    """The broker ended with a traceback, and the next start took the stop for unclean."""
    broker = started(clean, f"{ROOT}/{name}", content)
    assert set(rotten.content_of(broker).records) >= set(clean.content.records)
    fields = rotten.reported(broker)["checkpoint.unreadable"]
    assert name in fields["reason"]
    broker.passes(70_000)
    again = rotten.started(rotten.files_of(broker.disk))
    assert not rotten.reported(again), "it was written again"


@pytest.mark.parametrize("start", [7, 20, 28, 500])
def test_a_log_start_that_the_epochs_contradict_hides_no_record(clean, start):
    """Records below it were gone; all of them if it was beyond the end."""
    broker = started(clean, STARTS, b"0\n1\nt 0 %d\n" % start)
    assert rotten.content_of(broker) == clean.content
    assert f"the start {start} " in rotten.reported(broker)["log.doubtful"]["reason"]


def test_a_folder_with_an_unreadable_topic_id_is_refused_until_the_topic_is_deleted(clean):
    """An empty replica took its place."""
    broker = started(clean, METADATA, b"version: 0\ntopic_id: ?")
    assert broker.partition() is None
    assert METADATA in rotten.reported(broker)["log.corrupt"]["reason"]
    assert rotten.files_of(broker.disk).keys() >= clean.files.keys() - {f"{ROOT}/{checkpoints.CLEAN_SHUTDOWN}"}
    broker.delete()
    rotten.lead(broker, epoch=10)
    assert broker.partition().log.log_end_offset == 0


def test_a_replica_of_another_topic_is_set_aside(clean):
    """It was deleted, though perhaps a bit of its id had changed."""
    other = id_text(b"another-topic...")
    broker = started(clean, METADATA, b"version: 0\ntopic_id: " + other.encode())
    assert broker.partition().log.log_end_offset == 0
    assert rotten.reported(broker)["log.stray"] == {
        "partition": f"{TOPIC}-0",
        "topic_id": other,
        "folder": f"{FOLDER}-stray",
    }
    kept = [each for each in broker.disk.list(f"{FOLDER}-stray") if each.endswith(".log")]
    assert len(kept) == 4


def positions(content):
    return [batch.position for batch in batches(content)]


@pytest.mark.parametrize("path", [FIRST, ACTIVE])
@pytest.mark.parametrize("byte", BASE_OFFSET)
def test_no_wrong_offset_stops_the_broker(clean, path, byte):
    """A lookup asserted that offsets ascend; offsets of more than 31 bits did not fit into the index."""
    content = clean.files[f"{path}.log"]
    for position in positions(content):
        found = rotten.findings(clean, {**clean.files, f"{path}.log": turned(content, position + byte, 4)})
        assert not found


def test_records_behind_a_batch_whose_offset_is_wrong_are_not_skipped(clean):
    """A rebuild of the index that failed left holes among the last positions."""
    content = clean.files[f"{ACTIVE}.log"]
    broker = started(clean, f"{ACTIVE}.log", turned(content, positions(content)[2] + 3))
    rotten.content_of(broker)
    broker.passes(400_000)
    broker.produce("after")
    now = rotten.content_of(broker)
    assert now.unread == {23}
    assert {record[0] for record in now.records} >= {25, 27, 28}


@pytest.mark.parametrize("kind", [".index", ".timeindex"])
@pytest.mark.parametrize("byte", range(12))
def test_the_last_entry_of_an_index_of_the_active_segment(clean, kind, byte):
    """The next append asserted that it is below the end."""
    content = clean.files[ACTIVE + kind]
    size = 8 if kind == ".index" else 12
    if byte < size:
        changed = turned(content, len(content) - size + byte)
        assert not rotten.findings(clean, {**clean.files, ACTIVE + kind: changed})


@pytest.mark.parametrize("byte", range(8))
def test_a_time_index_deletes_no_segment(clean, byte):
    """The last timestamp decides when a segment is old enough."""
    content = bytearray(clean.files[f"{FIRST}.timeindex"])
    content[-12 + byte] = 0
    broker = started(clean, f"{FIRST}.timeindex", bytes(content))
    broker.passes(400_000)
    assert rotten.content_of(broker) == clean.content


def test_a_file_that_lost_its_end_is_reported_and_completed_from_another_replica(clean):
    """What was missing was skipped without a word."""
    content = clean.files[f"{FIRST}.log"]
    cut = positions(content)[-2]
    broker = rotten.OneBroker(disk=rotten.disk_with({**clean.files, f"{FIRST}.log": content[:cut]}), **{
        **OPTIONS, "alive": (0, 1)
    })  # fmt: skip
    broker.lead(isr=(0,), replicas=(0, 1), epoch=9, partition_epoch=9)
    assert rotten.fetched(broker, 5, 0).error_code in rotten.REFUSED
    dial(broker)
    ((_, _, request),) = repairs(broker)
    assert request.topics[0].partitions[0].fetch_offset == 5
    answer(broker, content[cut:])
    assert broker.disk.read(f"{FIRST}.log") == content
    assert {"log.rot", "log.repaired"} <= {event.kind for event in broker.events}
    assert rotten.content_of(broker).records == clean.content.records


def test_a_log_that_is_shorter_than_it_was_is_reported(before):
    content = before.files[f"{ACTIVE}.log"]
    cut = positions(content)[-1]
    broker = started(before, f"{ACTIVE}.log", content[:cut])
    assert broker.partition().log.log_end_offset == 27
    assert "28" in rotten.reported(broker)["log.doubtful"]["reason"]


@pytest.mark.parametrize("byte", [9, 12, 17, 25])
def test_a_wrong_entry_of_a_transaction_index_is_found(clean, byte):
    """An aborted record was read as committed."""
    path = f"{FOLDER}/{7:020d}.txnindex"
    for mask in (1, 2, 128):
        broker = started(clean, path, turned(clean.files[path], byte, mask))
        assert rotten.content_of(broker) == clean.content
    broker = started(clean, path, b"")
    assert rotten.read_all(broker, broker.partition().log, COMMITTED)[0] == clean.content.committed


def test_a_lookup_by_time_believes_no_damaged_record(clean):
    """The offset of another record was answered, or INVALID_RECORD."""
    content = clean.files[f"{FIRST}.log"]
    start = positions(content)[4]
    for position in (start + 61, start + 63, start + 70):
        broker = started(clean, f"{FIRST}.log", turned(content, position))
        code, offset = rotten.offset_at(broker, rotten.WALL + 30)
        assert (code, offset) in ((2, -1), (0, 4))
