"""Frames, headers, records and limits of the codec; the messages themselves have their oracles elsewhere."""

import pytest

from tidelog.effects import FileSlice
from tidelog.errors import ProtocolViolation
from tidelog.model import NO_ID
from tidelog.wire import codec
from tidelog.wire.encoding import COPIED_BELOW
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.messages.cluster.features import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.groups.group_records import OffsetCommitKey, OffsetCommitValue
from tidelog.wire.messages.records.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tidelog.wire.messages.records.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.source import STEP

FETCH, PRODUCE, METADATA, API_VERSIONS = 1, 0, 3, 18


def frame(parts):
    """The one frame that the parts make, without its length."""
    whole = b"".join(parts)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    return whole[4:]


def produce(records, version=9):
    data = PartitionProduceData(index=3, records=records)
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="flights", partition_data=[data])])
    return codec.encode_request(PRODUCE, version, 7, "me", request)


def fetched(records):
    data = PartitionData(partition_index=3, high_watermark=9, records=records)
    return FetchResponse(responses=[FetchableTopicResponse(topic="flights", partitions=[data])])


def test_a_request_and_its_header_come_back():
    header, request = codec.decode_request(frame(produce(b"batch")))
    assert header == codec.RequestHeader(api_key=PRODUCE, api_version=9, correlation_id=7, client_id="me")
    assert request.acks == -1
    assert request.topic_data[0].name == "flights"
    assert bytes(request.topic_data[0].partition_data[0].records) == b"batch"


@pytest.mark.parametrize("size", [10, 100_000])
def test_decoded_records_are_a_view_that_can_be_written(size):
    sent = bytearray(frame(produce(b"r" * size)))
    _, request = codec.decode_request(memoryview(sent))
    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert len(records) == size
    records[0] = ord("w")
    assert sent.count(b"w") == 1


def test_text_decoded_from_a_long_frame_is_a_copy():
    sent = bytearray(frame(produce(b"r" * 100_000)))
    _, request = codec.decode_request(memoryview(sent))
    sent[:60] = bytes(60)
    assert request.topic_data[0].name == "flights"


def test_a_slice_of_a_file_stays_a_part_of_its_own():
    piece = FileSlice(file=None, position=100, length=5000)
    parts = codec.encode_response(FETCH, 12, 7, fetched(piece))
    assert parts[1] is piece
    size = len(parts[0]) + 5000 + len(parts[2])
    assert int.from_bytes(parts[0][:4], "big") == size - 4
    in_place_of_the_file = b"".join([parts[0], bytes(5000), parts[2]])
    correlation_id, response = codec.decode_response(FETCH, 12, memoryview(in_place_of_the_file)[4:])
    assert correlation_id == 7
    assert bytes(response.responses[0].partitions[0].records) == bytes(5000)


def test_records_may_come_in_pieces():
    piece = FileSlice(file=None, position=0, length=COPIED_BELOW)
    long = memoryview(bytes(COPIED_BELOW))
    parts = codec.encode_response(FETCH, 4, 7, fetched([b"ab", piece, long, b"cd"]))
    assert [type(part) for part in parts] == [bytearray, FileSlice, bytearray, memoryview, bytearray]
    assert parts[0].endswith((2 * COPIED_BELOW + 4).to_bytes(4, "big") + b"ab")
    assert parts[2] == b""
    assert parts[4] == b"cd"


def test_an_empty_slice_of_a_file_is_no_part():
    """A world that sends zero bytes of a file might take it for the end."""
    parts = codec.encode_response(FETCH, 12, 7, fetched(FileSlice(file=None, position=0, length=0)))
    assert [type(part) for part in parts] == [bytearray]
    assert codec.decode_response(FETCH, 12, frame(parts))[1].responses[0].partitions[0].records == b""


def test_long_records_are_not_copied_and_short_ones_are():
    long, short = bytes(COPIED_BELOW), bytes(COPIED_BELOW - 1)
    assert any(part is long for part in produce(long))
    assert len(produce(short)) == 1


@pytest.mark.parametrize("version", [4, 12])
def test_records_may_be_null(version):
    sent = frame(codec.encode_response(FETCH, version, 7, fetched(None)))
    _, response = codec.decode_response(FETCH, version, sent)
    assert response.responses[0].partitions[0].records is None


def test_a_field_that_the_version_lacks_is_left_out():
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="a", topic_id=b"i" * 16)], allow_auto_topic_creation=False
    )
    _, decoded = codec.decode_request(frame(codec.encode_request(METADATA, 1, 7, None, request)))
    assert decoded == MetadataRequest(topics=[MetadataRequestTopic(name="a", topic_id=NO_ID)])


def test_an_answer_to_api_versions_never_has_a_tagged_header():
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=1, min_version=4, max_version=18)])
    sent = frame(codec.encode_response(API_VERSIONS, 3, 7, response))
    assert sent[:6] == b"\x00\x00\x00\x07\x00\x00"
    assert codec.decode_response(API_VERSIONS, 3, sent) == (7, response)


@pytest.mark.parametrize("version", [5, 99, -1])
def test_api_versions_in_an_unknown_version_comes_as_an_empty_request(version):
    sent = b"\x00\x12" + version.to_bytes(2, "big", signed=True) + b"\x00\x00\x00\x07\x00\x02me\x00whatever"
    header, request = codec.decode_request(sent)
    assert header == (API_VERSIONS, version, 7, "me")
    assert request == ApiVersionsRequest()


@pytest.mark.parametrize(("key", "version"), [(999, 0), (-1, 0), (PRODUCE, 2), (PRODUCE, 14), (FETCH, -1)])
def test_an_unknown_api_or_version_is_a_violation(key, version):
    start = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
    sent = start + b"\x00\x00\x00\x07\xff\xff\x00" + bytes(50)
    with pytest.raises(ProtocolViolation, match=f"version {version} of API {key}"):
        codec.decode_request(sent)
    assert codec.decode_header(sent) == (key, version, 7, None)


def test_bytes_after_the_message_are_ignored():
    sent = frame(produce(b"batch"))
    assert codec.decode_request(sent + b"more")[1] == codec.decode_request(sent)[1]


def test_unknown_tagged_fields_are_skipped():
    plain = frame(codec.encode_request(API_VERSIONS, 3, 7, "me", ApiVersionsRequest(client_software_name="x")))
    assert plain.endswith(b"\x00")
    tagged = plain[:-1] + b"\x02" + b"\x07\x03abc" + b"\x88\x01\x00"
    assert codec.decode_request(tagged) == codec.decode_request(plain)


def test_text_that_is_not_utf8_is_replaced_as_in_kafka():
    sent = frame(produce(b"batch")).replace(b"flights", b"fl\xffghts")
    assert codec.decode_request(sent)[1].topic_data[0].name == "fl�ghts"


def test_a_message_alone():
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=6)
    assert codec.encode(value, 3) == b"\0\0\0\0\0\0\0\5\xff\xff\xff\xff\0\1m\0\0\0\0\0\0\0\6"
    assert codec.decode(OffsetCommitValue, 3, codec.encode(value, 3)) == value
    with pytest.raises(ProtocolViolation, match="version 5"):
        codec.decode(OffsetCommitValue, 5, b"")


def test_a_value_of_a_wrong_type_is_the_callers_fault():
    with pytest.raises(AttributeError):
        codec.encode(OffsetCommitKey(group=None), 0)


def test_defaults_survive_every_api_in_every_version():
    for key, schema in SCHEMAS.items():
        for version in range(schema.min_version, schema.max_version + 1):
            request, response = schema.request(), schema.response()
            sent = frame(codec.encode_request(key, version, 7, None, request))
            assert codec.decode_request(sent) == ((key, version, 7, None), request)
            sent = frame(codec.encode_response(key, version, 7, response))
            assert codec.decode_response(key, version, sent) == (7, response)


def run(steps):
    """(how often it paused, what it returned)."""
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return pauses, done.value
        pauses += 1


@pytest.mark.parametrize(("key", "version"), [(3, 12), (8, 2), (9, 9), (0, 9), (18, 3), (18, 99)])
def test_a_request_in_steps_is_the_same(key, version):
    built = SCHEMAS[key].request()
    sent = frame(codec.encode_request(key, min(version, SCHEMAS[key].max_version), 7, "me", built))
    sent = sent[:2] + version.to_bytes(2) + sent[4:]
    _, (header, request, entries) = run(codec.request_in_steps(memoryview(sent), 10))
    assert (header, request) == codec.decode_request(sent)
    assert entries == 0


def test_decoding_and_encoding_in_steps_pause_and_count_the_entries_of_all_lists():
    topics = [MetadataRequestTopic(name=f"t{number}") for number in range(1000)]
    request = MetadataRequest(topics=topics)
    sent = frame(codec.encode_request(METADATA, 12, 7, "me", request))
    pauses, (_, decoded, entries) = run(codec.request_in_steps(memoryview(sent), 1000))
    assert (pauses, decoded, entries) == (1000 // STEP, request, 1000)
    with pytest.raises(ProtocolViolation, match="more than 999 entries"):
        run(codec.request_in_steps(memoryview(sent), 999))
    data = [PartitionData(partition_index=number) for number in range(1000)]
    response = FetchResponse(responses=[FetchableTopicResponse(topic="flights", partitions=data)])
    pauses, parts = run(codec.response_in_steps(FETCH, 12, 7, response))
    assert parts == codec.encode_response(FETCH, 12, 7, response)
    assert pauses == 1001 // STEP


def test_records_are_views_in_steps_too():
    sent = bytearray(frame(produce(b"r" * 100_000)))
    _, (_, request, entries) = run(codec.request_in_steps(memoryview(sent), 2))
    request.topic_data[0].partition_data[0].records[0] = ord("w")
    assert (sent.count(b"w"), entries) == (1, 2)
