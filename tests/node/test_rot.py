"""A bit that turned in an old segment: found when read, reported, repaired from another replica, never served."""

import json

import pytest

from tests.log.support import flush
from tests.node.one_broker import TOPIC_ID, OneBroker
from tidelog.errors import ErrorCode
from tidelog.node.upkeep.integrity import RETRY_MS, TRUST_MS
from tidelog.sim.faults import Fault
from tidelog.wire import codec
from tidelog.wire.messages.cluster.brokers import BrokerReportRequest
from tidelog.wire.messages.records.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tidelog.wire.record_format import outline
from tidelog.wire.records import Record, batches, build, payload_of, rebuild, records

PATH = "/data/t-0/00000000000000000000.log"
STORAGE, CORRUPT = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.CORRUPT_MESSAGE


def leader(replicas=(0, 1, 2), **more):
    """A leader with three committed batches in a segment that is rolled; what its file holds."""
    broker = OneBroker(min_insync_replicas=1)
    broker.lead(isr=(0,), replicas=replicas, **more)
    for text in ("a", "b", "c"):
        broker.produce(text)
    broker.partition().log.roll(broker.now)
    assert broker.partition().high_watermark == 3
    return broker, broker.disk.read(PATH)


def turn(broker, position):
    broker.disk.inode(PATH).cached[position] ^= 0x10


def consume(broker, offset=0, max_wait_ms=500):
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return broker.send(FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, session_epoch=-1,
                                    topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[wanted])]))  # fmt: skip


def consumed(broker, number):
    data = broker.answers[number].responses[0].partitions[0]
    return data.error_code, bytes(data.records or b"")


def repairs(broker):
    """The requests to others for what is missing here, with their connections."""
    return [(connection, header, request) for connection, (header, request) in broker.asked
            if isinstance(request, FetchRequest) and request.replica_state.replica_id == -1]  # fmt: skip


def dial(broker):
    """Whoever the broker wants to reach is there."""
    broker.give("connected", broker.dialled, "REPLICATION", "", "")


def answer(broker, records, code=0):
    connection, header, _ = repairs(broker)[-1]
    data = PartitionData(partition_index=0, error_code=code, high_watermark=3, records=records)
    response = FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])])
    parts = codec.encode_response(header.api_key, header.api_version, header.correlation_id, response)
    broker.give("receive", connection, [memoryview(bytearray(b"".join(parts)[4:]))])


def reported(broker):
    return json.loads(broker.ask(BrokerReportRequest(), version=0).facts)["damaged"]


def kinds(broker):
    return [event.kind for event in broker.events if event.kind.startswith("log.")]


def test_what_was_found_sound_is_trusted_for_a_while():
    broker, good = leader()
    assert consumed(broker, consume(broker)) == (0, good)
    turn(broker, 64)
    assert consumed(broker, consume(broker))[0] == 0
    broker.passes(TRUST_MS)
    number = consume(broker)
    broker.passes(1_000)
    assert consumed(broker, number)[0] == STORAGE


def test_what_was_written_is_trusted_for_a_while():
    broker = OneBroker(min_insync_replicas=1)
    broker.lead(isr=(0,), replicas=(0, 1, 2))
    broker.produce("a")
    turn(broker, 64)
    assert consumed(broker, consume(broker))[0] == 0, "it is in memory, and nobody looks"
    broker.passes(2 * TRUST_MS)
    broker.produce("b")
    assert consumed(broker, consume(broker, 1))[0] == 0
    assert not broker.examinations
    assert kinds(broker) == []
    number = consume(broker)
    broker.passes(1_000)
    assert consumed(broker, number)[0] == STORAGE


@pytest.mark.parametrize("position", [3, 9, 13, 16, 24, 64])
def test_rot_is_mended_from_another_replica_and_no_wrong_byte_is_read(position):
    broker, good = leader()
    second = len(good) // 3
    turn(broker, second + position)
    asked = consume(broker)
    if asked in broker.answers:
        assert good.startswith(consumed(broker, asked)[1])
    assert kinds(broker) == ["log.rot"]
    assert consumed(broker, consume(broker, 1)) == (STORAGE, b"")
    dial(broker)
    ((_, _, request),) = repairs(broker)
    assert request.topics[0].partitions[0].fetch_offset == 1
    answer(broker, good[second:])
    assert broker.disk.read(PATH) == good
    assert kinds(broker) == ["log.rot", "log.repaired"]
    assert consumed(broker, consume(broker, 1))[1] in (good[second:], good)


def test_followers_do_not_get_it_either():
    broker, good = leader()
    turn(broker, 64)
    assert bytes(broker.fetch_as(1, 0).records) == b"", "it is examined first"
    assert broker.fetch_as(1, 0).error_code == STORAGE
    dial(broker)
    answer(broker, good)
    assert bytes(broker.fetch_as(1, 0).records) == good


def test_one_replica_after_the_other_is_asked_and_in_the_end_it_is_said_that_nobody_has_it():
    broker, good = leader()
    turn(broker, 64)
    consume(broker)
    dial(broker)
    answer(broker, b"", code=ErrorCode.OFFSET_OUT_OF_RANGE)
    dial(broker)
    assert len(repairs(broker)) == 2
    rotten = broker.disk.read(PATH)
    answer(broker, rotten[: len(good) // 3])
    assert kinds(broker) == ["log.rot", "log.unrepairable"]
    assert consumed(broker, consume(broker)) == (CORRUPT, b"")
    why = "the batch at offset 0: the checksum does not hold; no replica could replace it"
    assert reported(broker) == {"t-0": why}
    assert consumed(broker, consume(broker, 1)) == (0, good[len(good) // 3 :]), "what follows is read"
    assert broker.partition().log.log_end_offset == 3
    broker.passes(RETRY_MS + 1)
    assert consumed(broker, consume(broker)) == (STORAGE, b"")
    answer(broker, good)
    assert consumed(broker, consume(broker)) == (0, good)
    assert reported(broker) == {}


def test_what_could_not_be_written_is_asked_for_again():
    broker, good = leader()
    turn(broker, 64)
    consume(broker)
    dial(broker)
    broker.disk.faults.append(Fault("write", reason="ENOSPC"))
    answer(broker, good)
    broker.disk.faults.clear()
    assert consumed(broker, consume(broker)) == (STORAGE, b"")
    broker.passes(RETRY_MS + 1)
    number = consume(broker)
    broker.passes(1_000)
    assert consumed(broker, number) == (STORAGE, b"")
    answer(broker, good)
    assert consumed(broker, consume(broker)) == (0, good)


def test_without_another_replica_it_is_reported_at_once():
    broker, _ = leader(replicas=(0,))
    turn(broker, 64)
    assert consumed(broker, consume(broker)) == (CORRUPT, b"")
    assert kinds(broker) == ["log.rot", "log.unrepairable"]
    assert broker.partition().log.log_end_offset == 3
    integrity = broker.node.broker.integrity
    assert len(integrity.repairs) == 1
    broker.partition().log.truncate_fully_and_start_at(3)
    broker.passes(2 * TRUST_MS)
    assert not integrity.repairs, "a fault is forgotten with its segment"


def test_what_no_checksum_contradicts_is_believed_where_nobody_knows_better():
    broker, good = leader(replicas=(0,), epoch=2)
    turn(broker, 15)  # the leader epoch of the first batch
    number = consume(broker)
    broker.passes(1_000)
    number = consume(broker)
    code, data = consumed(broker, number)
    assert code == 0
    assert len(list(batches(data))) == 3
    assert data != good
    assert broker.stopped is None


def test_what_was_cut_off_meanwhile_is_not_mended():
    broker, good = leader()
    turn(broker, 64)
    consume(broker)
    dial(broker)
    broker.partition().truncate_to(0)
    answer(broker, good)
    assert broker.partition().log.log_end_offset == 0
    assert "log.repaired" not in kinds(broker)
    assert not broker.node.broker.integrity.repairs


@pytest.mark.parametrize("kept", [0, 1])
def test_a_batch_that_the_other_replicas_compacted_is_refetched_by_the_next_compaction(kept):
    """Nothing fits into its place: neither the batch that another replica shortened, nor none."""
    compaction = {
        "log_cleanup_policy": "compact",
        "log_cleaner_backoff_ms": 100,
        "log_cleaner_min_cleanable_ratio": "1.0",
    }
    broker = OneBroker(min_insync_replicas=1, **compaction)
    broker.lead(isr=(0, 1, 2))
    pairs = [[(b"k", b"1"), (b"l", b"1")], [(b"k", b"2"), (b"m", b"2")], [(b"k", b"3"), (b"l", b"3")]]
    for some in pairs:
        broker.produce(records=build([Record(0, broker.now.wall, key, value) for key, value in some]), acks=1)
    for follower in (1, 2):
        broker.fetch_as(follower, 6)
    assert broker.partition().high_watermark == 6
    broker.partition().log.roll(broker.now)
    flush(broker.partition().log)
    good = broker.disk.read(PATH)
    _, second, third = batches(good)
    turn(broker, second.position + 64)
    broker.passes(2 * TRUST_MS)
    consume(broker, 2)
    dial(broker)
    payload = payload_of(good, second)
    (places,) = outline(payload, 2, 2)
    shorter = rebuild(second, payload[places.bounds[1] :], 1, second.max_timestamp) if kept else b""
    answer(broker, shorter + good[third.position :])
    assert kinds(broker)[-1] == "log.refetched"
    assert consumed(broker, consume(broker, 2)) == (STORAGE, b""), "until it is written"
    for _ in range(100):
        broker.passes(10)
        while broker.syncs:
            broker.synced()
    assert kinds(broker)[-1] == "log.compacted"
    number = consume(broker, 0)
    broker.passes(1_000)
    found = consumed(broker, number)
    assert found[0] == 0
    read = [(record.key, record.value) for data in batches(found[1]) for record in records(found[1], data)]
    assert read == [(b"m", b"2")] * kept + pairs[2]
    assert reported(broker) == {}
