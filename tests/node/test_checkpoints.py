"""The offsets that a broker writes down for its next life, when records go or a replica does: what was true of other
records must not be believed of those that come after them."""

from random import Random

import pytest

from tests.log.support import read_batches
from tests.node.one_broker import CLIENT, OneBroker
from tidelog.effects import Replace, SyncFolders
from tidelog.errors import DiskFull
from tidelog.node import replicas as held_replicas
from tidelog.node.log_dirs import sync_folders
from tidelog.sim.disk import SimDisk
from tidelog.wire.messages.records.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.wire.records import header, records

ANOTHER_ID = b"another-topic-id".ljust(16, b".")
ALONE = {"isr": (0,), "replicas": (0,)}


def values(broker):
    return [record.value for data in read_batches(broker.partition().log) for record in records(data)]


def delete_records(broker, offset):
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsTopic(name="t", partitions=[partition])
    broker.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=1_000), CLIENT)


@pytest.mark.parametrize("power", [False, True])
def test_a_topic_of_the_same_name_inherits_no_offset_of_the_deleted_one(power):
    broker = OneBroker(min_insync_replicas=1)
    broker.lead(**ALONE)
    for number in range(20):
        broker.produce(f"old {number}")
    delete_records(broker, 15)
    broker.partition().log.cleaned_to = 15
    broker.passes(61_000)
    assert broker.disk.read("/data/log-start-offset-checkpoint") == b"0\n1\nt 0 15\n"
    broker.delete()
    broker.lead(**ALONE, topic_id=ANOTHER_ID)
    assert broker.produced(broker.produce("new")) == (0, 0)
    for file in broker.partition().log.unsynced():
        file.sync()
    (broker.disk.lose_power if power else broker.disk.kill)()
    again = OneBroker(disk=broker.disk, min_insync_replicas=1)
    again.lead(**ALONE, topic_id=ANOTHER_ID)
    assert values(again) == [b"new"]
    assert again.partition().log.log_start_offset == 0
    assert again.partition().log.cleaned_to == 0


CHECKPOINTS = ("replication-offset", "recovery-point-offset", "log-start-offset", "cleaner-offset")
OLD = b"0\n2\nt 0 15\nu 1 15\n"


def checkpointed(disk):
    return {name: disk.read(f"/data/{name}-checkpoint") for name in CHECKPOINTS}


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("way", ["deleted", "deleted in one turn", "deleted in the life before", "another topic's"])
def test_a_replica_serves_once_no_checkpoint_has_offsets_of_the_former_one(monkeypatch, way, power):
    """With 1,100 replicas what was acknowledged was lost by a SIGKILL before the log starts were written: a log that
    ends below its start is emptied."""
    broker = OneBroker(min_insync_replicas=1)
    broker.lead(**ALONE)
    for number in range(20):
        broker.produce(f"old {number}")
    delete_records(broker, 15)
    broker.partition().log.cleaned_to = 15
    for name in CHECKPOINTS:
        broker.disk.replace(f"/data/{name}-checkpoint", OLD)
    broker.syncs_folders = False

    def begins(broker):
        """No checkpoint is written from now on but by fsyncs of folders: the others are late."""
        carry_out = broker._carry_out
        monkeypatch.setattr(
            broker, "_carry_out", lambda effects: carry_out([each for each in effects if type(each) is not Replace])
        )

    begins(broker)
    if way != "another topic's":
        broker.begin_delete()
    if way.startswith("deleted") and way != "deleted in one turn":
        broker.synced_folders()
    if way == "deleted in the life before":
        broker.disk.kill()
        broker = OneBroker(disk=broker.disk, min_insync_replicas=1)
        broker.syncs_folders = False
        begins(broker)
    broker.lead(**ALONE, topic_id=ANOTHER_ID)
    assert checkpointed(broker.disk) == dict.fromkeys(CHECKPOINTS, OLD), "it does not serve yet"
    while broker.folder_syncs:
        broker.synced_folders()
    assert checkpointed(broker.disk) == dict.fromkeys(CHECKPOINTS, b"0\n1\nu 1 15\n")
    assert broker.produced(broker.produce("new")) == (0, 0)
    for file in broker.partition().log.unsynced():
        file.sync()
    (broker.disk.lose_power if power else broker.disk.kill)()
    again = OneBroker(disk=broker.disk, min_insync_replicas=1)
    again.lead(**ALONE, topic_id=ANOTHER_ID)
    assert values(again) == [b"new"]
    log = again.partition().log
    assert (log.log_start_offset, log.cleaned_to) == (0, 0)


def test_a_checkpoint_goes_that_cannot_be_written_without_a_replica():
    disk = SimDisk(["/data"], Random(0))
    for name in CHECKPOINTS[:3]:
        disk.replace(f"/data/{name}-checkpoint", OLD)
    disk.replace(f"/data/{CHECKPOINTS[0]}-checkpoint", b"damaged")
    disk.replace(f"/data/{CHECKPOINTS[1]}-checkpoint", b"0\n1\nu 1 15\n")
    disk.capacity = disk.used()
    with pytest.raises(DiskFull):
        disk.replace("/data/any", OLD)
    sync_folders(disk, SyncFolders(1, ["/data"], ["/data/t-0", "/data/t-1"]))
    disk.lose_power()
    assert disk.list("/data") == sorted(f"{name}-checkpoint" for name in CHECKPOINTS[:2])
    assert disk.read(f"/data/{CHECKPOINTS[0]}-checkpoint") == b"damaged"


def test_former_replicas_are_not_remembered_for_ever(monkeypatch):
    monkeypatch.setattr(held_replicas, "MOST_STALE", 2)
    broker = OneBroker(min_insync_replicas=1)
    for index in range(3):
        broker.lead(**ALONE, index=index)
    for name in CHECKPOINTS:
        broker.disk.replace(f"/data/{name}-checkpoint", OLD)
    for index in range(3):
        broker.syncs_folders = index < 2
        broker.delete(index) if index < 2 else broker.begin_delete(index)
    assert broker.folder_syncs[0].reused == ["/data/t-0", "/data/t-1", "/data/t-2"]
    assert not broker.node.replicas.stale


def test_a_clean_stop_writes_how_far_logs_are_compacted():
    """What waited for its turn to be written because of a truncation was not written when the broker stopped."""
    broker = OneBroker(min_insync_replicas=1)
    broker.lead(**ALONE)
    broker.produce("m")
    broker.disk.replace("/data/cleaner-offset-checkpoint", b"0\n1\nt 0 5\n")
    broker.node.replicas.close(1)
    assert broker.disk.read("/data/cleaner-offset-checkpoint") == b"0\n0\n"


def test_a_log_that_was_cut_is_dirty_again_from_there_on_in_the_next_life_too():
    broker = OneBroker(min_insync_replicas=1)
    broker.lead(**ALONE)
    for number in range(20):
        broker.produce(f"old {number}")
    broker.partition().log.cleaned_to = 15
    broker.node.upkeep.jobs.note_compaction()
    broker.partition().truncate_to(5)
    broker.node.replicas.truncated = True
    broker.lead(**ALONE, epoch=1, partition_epoch=1)
    assert broker.disk.read("/data/cleaner-offset-checkpoint") == b"0\n1\nt 0 5\n"


def test_a_log_that_lost_its_end_is_dirty_from_there_on():
    broker = OneBroker(min_insync_replicas=1)
    broker.lead(**ALONE)
    broker.produce("only")
    broker.disk.replace("/data/cleaner-offset-checkpoint", b"0\n1\nt 0 5\n")
    broker.disk.kill()
    again = OneBroker(disk=broker.disk, min_insync_replicas=1)
    again.lead(**ALONE)
    for number in range(10):
        again.produce(f"new {number}")
    assert header(read_batches(again.partition().log)[-1]).next_offset == 11
    assert again.partition().log.cleaned_to == 1
