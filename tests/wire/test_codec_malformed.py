"""Whatever bytes come, decoding ends in a message or in a ProtocolViolation, and never believes a length or a count
that the bytes left cannot hold.

Random messages of every API are cut at every byte, have bytes changed, and lengths put in place that are too long,
negative or huge. Memory is watched: a frame of a hundred bytes must not make megabytes.
"""

import random
import tracemalloc

import pytest

from tidelog.errors import ProtocolViolation
from tidelog.wire import codec
from tidelog.wire.message import Kind, fields, versions_of
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.messages.records.fetch import FetchRequest, FetchResponse
from tidelog.wire.messages.records.produce import ProduceRequest
from tidelog.wire.messages.topics.metadata import MetadataRequest
from tidelog.wire.primitives import MAX_ARRAY, uvarint

HUGE = b"\xff\xff\xff\xff\x7f"
SAMPLES = {
    "boolean": True,
    "uuid": b"0123456789abcdef",
    "string": "text",
    "binary": b"bytes",
    "records": b"records",
    "float64": 0.5,
}


def full(cls, version):
    """A message with something in every field that the version has."""
    made = cls()
    for field in fields(cls):
        if version in versions_of(field.versions):
            if field.kind.name == "array":
                setattr(made, field.name, [sample(field.element, version)] * 2)
            else:
                setattr(made, field.name, sample(field.element or field.kind, version))
    return made


def sample(element, version):
    return SAMPLES.get(element.name, 7) if isinstance(element, Kind) else full(element, version)


def every_message():
    for schema in SCHEMAS.values():
        for version in {schema.min_version, schema.max_version}:
            for cls in (schema.request, schema.response):
                yield cls, version, codec.encode(full(cls, version), version)


def decode(cls, version, sent):
    """Whether the bytes were a message."""
    try:
        codec.decode(cls, version, sent)
    except ProtocolViolation:
        return False
    return True


def test_a_message_cut_anywhere_is_a_violation():
    for cls, version, sent in every_message():
        assert decode(cls, version, sent)
        for size in range(len(sent)):
            assert not decode(cls, version, sent[:size]), (cls, version, size)


def test_a_long_frame_cut_anywhere_is_a_violation():
    """These are decoded in place and not from a copy."""
    for cls, version in [(ProduceRequest, 3), (ProduceRequest, 13), (FetchResponse, 4), (FetchResponse, 18)]:
        message = full(cls, version)
        topic = (message.topic_data if cls is ProduceRequest else message.responses)[0]
        (topic.partition_data if cls is ProduceRequest else topic.partitions)[0].records = bytes(5000)
        sent = codec.encode(message, version)
        assert decode(cls, version, sent)
        for size in range(len(sent)):
            assert not decode(cls, version, sent[:size]), (cls, version, size)


def test_any_byte_changed_gives_a_message_or_a_violation():
    rng = random.Random(5)
    for cls, version, sent in every_message():
        for _ in range(30 if sent else 0):
            changed = bytearray(sent)
            changed[rng.randrange(len(sent))] = rng.randrange(256)
            decode(cls, version, changed)


def test_random_bytes_give_a_message_or_a_violation():
    rng = random.Random(6)
    for key, schema in SCHEMAS.items():
        for version in range(schema.min_version, schema.max_version + 1):
            for size in (1, 20, 200, 6000):
                body = rng.randbytes(size)
                decode(schema.request, version, body)
                start = key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4)
                try:
                    codec.decode_request(start + body)
                    codec.decode_response(key, version, body)
                except ProtocolViolation:
                    pass


@pytest.mark.parametrize("count", [2, MAX_ARRAY, MAX_ARRAY + 1, 2**31 - 1])
@pytest.mark.parametrize("version", [1, 9])
def test_a_count_beyond_the_bytes_left_is_refused_before_anything_is_made(count, version):
    start = uvarint(count + 1) if version == 9 else count.to_bytes(4, "big")
    tracemalloc.start()
    with pytest.raises(ProtocolViolation, match=r"MetadataRequest\.topics"):
        codec.decode(MetadataRequest, version, start)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_an_array_longer_than_the_limit_is_refused_even_where_its_bytes_are_there():
    entries = MAX_ARRAY + 1
    sent = entries.to_bytes(4, "big") + bytes(2 * entries)
    with pytest.raises(ProtocolViolation, match=r"MetadataRequest\.topics"):
        codec.decode(MetadataRequest, 1, sent)


def test_null_where_none_may_be_is_a_violation():
    with pytest.raises(ProtocolViolation, match=r"MetadataRequest\.topics"):
        codec.decode(MetadataRequest, 0, b"\xff\xff\xff\xff")
    assert codec.decode(MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None
    with pytest.raises(ProtocolViolation, match=r"FetchRequest\.topics"):
        codec.decode(FetchRequest, 12, bytes(25) + b"\x00" + bytes(9))


def test_a_negative_length_is_null_and_never_a_position():
    start = b"\x00\x00\x00\x01"
    for length in (-1, -2, -32768):
        assert not decode(MetadataRequest, 1, start + length.to_bytes(2, "big", signed=True) + bytes(20))


@pytest.mark.parametrize(
    "tags",
    [
        HUGE,  # a count of four thousand million
        b"\x91\x4e" + b"\x07\x00" * 10_001,  # too many, all of them there
        b"\x05\x07\x00\x08\x00",  # five announced, two there
        b"\x01\x07\xff\x7f",  # longer than the frame
        b"\x01\x07" + HUGE,
        b"\x01\x00\x7f",  # a known field longer than the frame
        b"\x01\x00\x01\x05abcd",  # a known field longer than its size
        b"\x01\x00\x04\x02a\x00\x00",  # and shorter
        b"\x80\x80\x80\x80\x80\x01",  # a number of six bytes
    ],
)
def test_tagged_fields_that_cannot_be(tags):
    plain = codec.encode(FetchRequest(), 12)
    assert plain.endswith(b"\x00")
    assert not decode(FetchRequest, 12, plain[:-1] + tags)
    metadata = codec.encode(MetadataRequest(), 9)
    assert not decode(MetadataRequest, 9, metadata[:-1] + tags) or tags.startswith(b"\x01\x00")


@pytest.mark.parametrize("cut", range(10))
def test_a_header_cut_short_is_a_violation(cut):
    sent = b"\x00\x03\x00\x09\x00\x00\x00\x07\x00\x05short"
    for frame in (sent[:cut], sent[:-1], sent):
        with pytest.raises(ProtocolViolation):
            codec.decode_header(frame)
        with pytest.raises(ProtocolViolation):
            codec.decode_request(frame)
