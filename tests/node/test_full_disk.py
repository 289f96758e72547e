"""A folder without room: nothing is appended there, what is there is served, and it goes on when there is room again."""

import pytest

from tests.node.one_broker import TOPIC_ID, OneBroker, values
from tidelog.controller import tree
from tidelog.errors import DiskFull, ErrorCode
from tidelog.node.upkeep.disk_space import CHECK_EVERY_MS
from tidelog.ports import Children
from tidelog.sim.faults import Fault
from tidelog.wire import codec
from tidelog.wire.messages.records.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.wire.records import Record, batches, build, stamp

REFUSED = (ErrorCode.KAFKA_STORAGE_ERROR, -1)
BIG = "v" * 3_000
HUGE = "v" * 300_000


def kinds(broker):
    return [event.kind for event in broker.events if event.kind.startswith("folder.")]


def filled(broker, room=100):
    broker.disk.capacity = broker.disk.used() + room
    return broker


def alone(**options):
    broker = OneBroker(min_insync_replicas=1, **options)
    broker.lead(isr=(0,), replicas=(0,))
    assert broker.produced(broker.produce("m1")) == (0, 0)
    return broker


def idempotent(sequence):
    return build([Record(0, 1_700_000_000_000, b"k", BIG.encode())], producer_id=7, producer_epoch=0,
                 base_sequence=sequence)  # fmt: skip


def test_a_produce_is_refused_its_torn_tail_taken_back_and_what_is_there_is_served():
    broker = filled(alone())
    log = broker.partition().log
    content = broker.disk.read(f"{log.folder}/00000000000000000000.log")
    assert broker.produced(broker.produce(BIG)) == REFUSED
    assert broker.disk.read(f"{log.folder}/00000000000000000000.log") == content
    assert log.log_end_offset == 1
    assert broker.partition().high_watermark == 1
    assert broker.partition().read(0, 1_000, 1, at_least_one=True).length == len(content)
    assert kinds(broker) == ["folder.full"]
    assert broker.stopped is None


def test_even_what_would_fit_is_refused_until_there_is_room_again():
    broker = filled(alone(), room=200)
    broker.produce(BIG)
    assert broker.produced(broker.produce("m")) == REFUSED
    broker.disk.capacity = None
    assert broker.produced(broker.produce("m")) == REFUSED
    broker.passes(2 * CHECK_EVERY_MS)
    assert kinds(broker) == ["folder.full", "folder.room"]
    assert broker.produced(broker.produce("m")) == (0, 1)
    assert not any(name.startswith("/data/.tidelog") for name in broker.disk.names)


def test_a_folder_is_looked_at_once_a_second_and_only_while_it_is_full():
    broker = filled(alone())
    broker.produce(BIG)
    looks = []
    usage = broker.disk.usage
    broker.disk.usage = lambda folder: looks.append(folder) or usage(folder)
    broker.passes(10 * CHECK_EVERY_MS)
    assert 9 <= len(looks) <= 10
    broker.disk.capacity = None
    broker.passes(10 * CHECK_EVERY_MS)
    assert len(looks) <= 11


def test_a_folder_that_is_full_again_is_looked_at_a_second_later():
    broker = filled(alone())
    broker.produce(BIG)
    broker.disk.capacity = None
    broker.passes(5 * CHECK_EVERY_MS)
    assert kinds(broker) == ["folder.full", "folder.room"]
    filled(broker)
    broker.produce(BIG)
    looks = []
    broker.disk.usage = lambda folder: looks.append(folder) or (0, 0)
    broker.passes(CHECK_EVERY_MS - 1)
    assert looks == []
    broker.passes(CHECK_EVERY_MS // 10)
    assert looks == ["/data"]


def test_an_idempotent_producer_that_sends_again_succeeds_once():
    broker = alone()
    assert broker.produced(broker.produce(records=idempotent(0))) == (0, 1)
    filled(broker)
    for _ in range(3):
        assert broker.produced(broker.produce(records=idempotent(1))) == REFUSED
    broker.disk.capacity = None
    broker.passes(2 * CHECK_EVERY_MS)
    assert broker.produced(broker.produce(records=idempotent(1))) == (0, 2)
    assert broker.produced(broker.produce(records=idempotent(1))) == (0, 2)
    assert broker.partition().log.log_end_offset == 3


@pytest.mark.parametrize("operation", ["write", "create"])
def test_a_segment_that_cannot_be_rolled_is_rolled_later(operation):
    broker = alone(log_segment_bytes=1 << 20)
    log = broker.partition().log
    while log.segments.active.size < 800_000:
        broker.produce(HUGE)
    before = log.log_end_offset
    broker.disk.faults.append(Fault(operation, reason="ENOSPC"))
    assert broker.produced(broker.produce(HUGE)) == REFUSED
    assert len(log.segments) == 1
    broker.disk.faults.clear()
    broker.passes(2 * CHECK_EVERY_MS)
    assert broker.produced(broker.produce(HUGE)) == (0, before)
    assert len(log.segments) == 2
    log.check_invariants()


def test_a_leader_elected_on_a_full_disk_serves_and_appends_nothing_without_its_epoch():
    broker = filled(alone(), room=0)
    broker.produce(BIG)
    assert broker.lead(isr=(0,), replicas=(0,), epoch=1, partition_epoch=1)
    partition = broker.partition()
    assert partition.epoch == 1
    assert partition.read(0, 1_000, 1, at_least_one=True) is not None
    assert broker.disk.read(f"{partition.log.folder}/leader-epoch-checkpoint") == b"0\n1\n0 0\n"
    broker.disk.capacity = None
    broker.passes(2 * CHECK_EVERY_MS)
    assert broker.produced(broker.produce("m")) == (0, 1)
    assert broker.disk.read(f"{partition.log.folder}/leader-epoch-checkpoint") == b"0\n2\n0 0\n1 1\n"


def test_checkpoints_that_found_no_room_are_written_once_there_is():
    broker = filled(alone(), room=0)
    broker.give("disk_full", "/data", "ENOSPC")
    broker.disk.capacity = None
    broker.passes(2 * CHECK_EVERY_MS)
    assert b"t 0 " in broker.disk.read("/data/replication-offset-checkpoint")


def test_the_other_folder_is_not_concerned():
    broker = OneBroker(min_insync_replicas=1, folders=("/a", "/b"))
    broker.lead(isr=(0,), replicas=(0,))
    broker.lead(isr=(0,), replicas=(0,), index=1)
    assert {broker.partition(0).log.folder, broker.partition(1).log.folder} == {"/a/t-0", "/b/t-1"}
    broker.disk.faults.append(Fault("write", "/a/", "ENOSPC"))
    assert broker.produced(broker.produce("m")) == REFUSED
    assert broker.produced(broker.produce("m", index=1)) == (0, 0)
    broker.lead(isr=(0,), replicas=(0,), index=2)
    broker.lead(isr=(0,), replicas=(0,), index=3)
    assert broker.partition(3).log.folder == "/b/t-3", "new replicas go where there is room"


def test_a_replica_that_found_no_room_is_created_when_there_is_some():
    broker = filled(alone(), room=0)
    answer = broker.answers[broker.lead(isr=(0,), replicas=(0,), index=1)]
    assert answer.topics[0].partition_errors[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.partition(1) is None
    assert not broker.disk.exists("/data/t-1")
    broker.disk.capacity = None
    broker.passes(2 * CHECK_EVERY_MS)
    (told,) = broker.session.apply([Children(tree.LOG_DIR_EVENTS)]).values
    assert len(told) == 1, "the controller tells the roles again"
    broker.lead(isr=(0,), replicas=(0,), index=1)
    assert broker.partition(1) is not None


# Followers.


def fetches(broker):
    return [request for _, (_, request) in broker.asked if isinstance(request, FetchRequest)]


def following():
    broker = OneBroker()
    broker.follow()
    broker.give("connected", broker.dialled, "REPLICATION", "broker-1", "")
    return broker


def answer(broker, records):
    connection, (header, request) = broker.asked[-1]
    assert isinstance(request, FetchRequest), request
    data = PartitionData(partition_index=0, high_watermark=0, log_start_offset=0, records=records)
    topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
    response = FetchResponse(session_id=9, responses=[topic])
    parts = codec.encode_response(header.api_key, header.api_version, header.correlation_id, response)
    broker.give("receive", connection, [memoryview(bytearray(b"".join(parts)[4:]))])


def from_leader(offset, text):
    data = bytearray(values(text))
    stamp(data, 0, offset, 0)
    return bytes(data)


def test_a_follower_without_room_stops_fetching_and_catches_up_later():
    broker = following()
    answer(broker, from_leader(0, "m"))
    assert broker.partition().log.log_end_offset == 1
    filled(broker)
    answer(broker, from_leader(1, BIG))
    assert broker.partition().log.log_end_offset == 1
    assert kinds(broker) == ["folder.full"]
    asked = len(fetches(broker))
    broker.passes(5_000)
    assert len(fetches(broker)) == asked, "it asks for nothing that it cannot hold"
    broker.disk.capacity = None
    broker.passes(2 * CHECK_EVERY_MS)
    (partition,) = fetches(broker)[-1].topics[0].partitions
    assert partition.fetch_offset == 1
    answer(broker, from_leader(1, BIG))
    assert broker.partition().log.log_end_offset == 2
    content = broker.disk.read("/data/t-0/00000000000000000000.log")
    assert [one.base_offset for one in batches(content)] == [0, 1]


def test_what_a_full_disk_let_in_of_an_answer_is_flushed_before_it_is_reported():
    broker = OneBroker(log_segment_bytes=1 << 20, log_flush_interval_messages=1)
    broker.follow()
    broker.give("connected", broker.dialled, "REPLICATION", "broker-1", "")
    broker.disk.faults.append(Fault("create", "03.log", "ENOSPC"))
    answer(broker, b"".join(from_leader(offset, HUGE) for offset in range(5)))
    broker.disk.faults.clear()
    broker.passes(2 * CHECK_EVERY_MS)
    partition = broker.partition()
    assert (partition.log.log_end_offset, partition.durable_end) == (3, 0)
    asked = len(fetches(broker))
    broker.synced()
    assert partition.durable_end == 3
    assert [one.partitions[0].fetch_offset for one in fetches(broker)[asked].topics] == [3]


def test_a_replica_is_deleted_where_its_folder_has_no_room_for_another_name(monkeypatch):
    broker = alone()
    folder = broker.partition().log.folder

    rename = broker.disk.rename

    def refuse(source, target):
        if source == folder:
            raise DiskFull("/data", f"ENOSPC: {target}")
        rename(source, target)

    monkeypatch.setattr(broker.disk, "rename", refuse)
    (partition,) = broker.delete().partition_errors
    assert partition.error_code == 0
    assert broker.partition() is None
    assert [path for path in broker.disk.names if path.startswith(f"{folder}/")] == []
