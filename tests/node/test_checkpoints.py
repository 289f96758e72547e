"""The offsets that a broker writes down for its next life, when records go or a replica does: what was true of other
records must not be believed of those that come after them."""

import pytest

from tests.log.support import read_batches
from tests.node.one_broker import CLIENT, OneBroker
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
