"""Whatever a connection sends, `Repeated` says what the decoder says, or nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.wire.codec import decode_request, encode_request
from tidelog.wire.messages.records.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.messages.topics.metadata import MetadataRequest
from tidelog.wire.repeated import LONGEST_BYTES, MOST, Repeated

PRODUCE, METADATA = 0, 3
VERSIONS = range(3, 14)
BATCH = b"b" * 90


def frame(records=BATCH, version=9, correlation_id=1, client="me", topic="flights", partition=3, **fields):
    data = PartitionProduceData(index=partition, records=records)
    named = {"topic_id": bytes(range(16))} if version >= 13 else {"name": topic}
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(**named, partition_data=[data])], **fields)
    return whole(encode_request(PRODUCE, version, correlation_id, client, request))


def whole(parts):
    return memoryview(bytearray(b"".join(map(bytes, parts))))[4:]


def taught(*frames):
    repeated = Repeated()
    for each in frames:
        repeated.learn(each, *decode_request(each))
    return repeated


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [1, 90, 126, 127, 128, 5000])
def test_another_batch_is_read_as_the_decoder_reads_it(version, size):
    repeated = taught(frame(version=version))
    again = frame(b"c" * size, version, correlation_id=2)
    header, request = repeated.read(again)
    assert (header, request) == decode_request(again)
    request.topic_data[0].partition_data[0].records[0] = ord("w")
    assert again.tobytes().count(b"w") == 1


def test_other_partitions_are_learned_beside_it():
    repeated = taught(*(frame(partition=partition) for partition in range(5)))
    for partition in range(5):
        found = repeated.read(frame(b"new" * 30, partition=partition))
        assert found[1].topic_data[0].partition_data[0].index == partition
    assert repeated.read(frame(partition=5)) is None


def test_a_transaction_is_never_taken_as_known():
    """It may be held back while the coordinator is asked, and must not change meanwhile."""
    transactional = frame(transactional_id="t")
    assert taught(transactional).read(transactional) is None


def test_neither_are_several_batches_nor_none_nor_other_requests():
    two = [PartitionProduceData(index=index, records=BATCH) for index in range(2)]
    several = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="flights", partition_data=two)])
    empty = frame(None)
    metadata = whole(encode_request(METADATA, 9, 1, "me", MetadataRequest()))
    for each in (whole(encode_request(PRODUCE, 9, 1, "me", several)), empty, frame(b""), metadata):
        assert taught(each).read(each) is None


def test_a_long_frame_keeps_no_memory():
    long = frame(b"l" * LONGEST_BYTES)
    assert taught(long).read(long) is None
    assert taught(frame()).read(long) is None


def test_bytes_that_the_encoder_would_not_write_are_not_learned():
    behind = memoryview(bytearray(bytes(frame()) + b"more"))
    tagged = memoryview(bytearray(bytes(frame())[:-1] + b"\x01\x09\x01x"))
    for odd in (behind, tagged):
        assert decode_request(odd)
        assert taught(odd).read(odd) is None


def test_what_is_learned_of_one_connection_is_bounded():
    repeated = taught(*(frame(partition=partition) for partition in range(2 * MOST)))
    assert repeated.read(frame(partition=MOST - 1)) is not None
    assert repeated.read(frame(partition=MOST)) is None


@given(
    known=st.sampled_from(VERSIONS),
    sent=st.sampled_from(VERSIONS),
    records=st.binary(min_size=1, max_size=300),
    client=st.sampled_from([None, "me", "us"]),
    topic=st.sampled_from(["flights", "planes", "f"]),
    change=st.none() | st.tuples(st.integers(0, 200), st.integers(0, 255)),
    cut=st.integers(0, 8) | st.just(0),
)
def test_whatever_comes_it_agrees_with_the_decoder_or_says_nothing(known, sent, records, client, topic, change, cut):
    repeated = taught(frame(version=known), frame(version=known, topic="planes", partition=1))
    data = frame(records, sent, client=client, topic=topic)
    if change is not None:
        data[change[0] % len(data)] = change[1]
    data = data[: len(data) - cut]
    found = repeated.read(data)
    if found is not None:
        assert found == decode_request(data)
