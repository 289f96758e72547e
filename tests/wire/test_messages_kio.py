"""Every API and version against kio, which is generated from Kafka's own schemas.

Random kio message → kio's bytes → our message, equal field by field under Kafka's names → our bytes, equal. Random
message of ours → our bytes → kio's message → kio's bytes, equal. Headers are part of both.
"""

import io
from dataclasses import fields as kio_fields
from dataclasses import is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import get_args, get_origin
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.k_raft_version_record.v0 import KRaftVersionRecord
from kio.schema.leader_change_message.v0 import LeaderChangeMessage as LeaderChangeV0
from kio.schema.leader_change_message.v1 import LeaderChangeMessage as LeaderChangeV1
from kio.schema.snapshot_footer_record.v0 import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0 import SnapshotHeaderRecord
from kio.schema.voters_record.v0 import VotersRecord
from kio.serial import entity_reader, entity_writer

from tidelog.model import NO_ID
from tidelog.wire import codec
from tidelog.wire.message import Kind, fields, versions_of
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.messages.cluster import metadata_log

BETWEEN_BROKERS = {4, 5, 6, 7}
KEYS = sorted(key for key in SCHEMAS if key not in BETWEEN_BROKERS and key < 10_000)
FEW = settings(
    max_examples=5,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MOMENT = 253_402_300_799_999


def integers(bits):
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


texts = st.text(max_size=6) | st.just("longer than the one byte of a short length " * 4)
blobs = st.binary(max_size=6) | st.just(bytes(200))
moments = st.integers(0, LAST_MOMENT)
codes = st.sampled_from([code.value for code in KioErrorCode])

KIO_VALUES = {
    "bool": st.booleans(),
    "int8": integers(8),
    "int16": integers(16),
    "uint16": st.integers(0, 65535),
    "int32": integers(32),
    "int64": integers(64),
    "float64": st.floats(allow_nan=False),
    "string": texts,
    "bytes": blobs,
    "records": blobs,
    "uuid": st.uuids() | st.none(),
    "error_code": st.sampled_from(list(KioErrorCode)),
    "timedelta_i32": integers(32).map(lambda ms: timedelta(milliseconds=ms)),
    "timedelta_i64": integers(48).map(lambda ms: timedelta(milliseconds=ms)),
    "datetime_i64": moments.map(lambda ms: EPOCH + timedelta(milliseconds=ms)),
}


@cache
def kio_messages(cls):
    return st.builds(cls, **{field.name: kio_field(field) for field in kio_fields(cls)})


def kio_field(field):
    optional = type(None) in get_args(field.type)
    declared = next(arg for arg in get_args(field.type) if arg is not type(None)) if optional else field.type
    if get_origin(declared) is tuple:
        values = st.lists(kio_value(get_args(declared)[0], field), max_size=3).map(tuple)
    else:
        values = kio_value(declared, field)
    return values | st.none() if optional else values


def kio_value(declared, field):
    return kio_messages(declared) if is_dataclass(declared) else KIO_VALUES[field.metadata["kafka_type"]]


VALUES = KIO_VALUES | {
    "boolean": st.booleans(),
    "binary": blobs,
    "uint32": st.integers(0, (1 << 32) - 1),
    "uuid": st.binary(min_size=16, max_size=16) | st.just(NO_ID),
}


OWN_TAGS = 10_000
DURATIONS = {"session_lifetime_ms", "max_lifetime_ms", "renew_period_ms", "expiry_time_period_ms"}
MOMENTS = {
    "log_append_time_ms",
    "transaction_start_time_ms",
    "issue_timestamp_ms",
    "expiry_timestamp_ms",
    "max_timestamp_ms",
}
"""Fields of 64 bits that kio reads as times: it refuses some numbers."""


@cache
def messages(cls, version):
    """Random messages of ours; fields that the version does not have keep their defaults, as do Tidelog's own, which
    Kafka skips and kio refuses."""
    had = [field for field in fields(cls) if version in versions_of(field.versions) and (field.tag or 0) < OWN_TAGS]
    return st.builds(cls, **{field.name: values(field, version) for field in had})


def values(field, version):
    if field.kind.name == "array":
        found = st.lists(one(field.element, version), max_size=3)
    elif field.kind.name == "struct":
        found = one(field.element, version)
    elif field.name.endswith("error_code"):
        found = codes
    elif field.name in DURATIONS:
        found = integers(48)
    elif field.name in MOMENTS:
        found = moments
    else:
        found = one(field.kind, version)
    nullable = version in versions_of(field.nullable)
    return found | st.none() if nullable else found


def one(element, version):
    return VALUES[element.name] if isinstance(element, Kind) else messages(element, version)


def kio_bytes(*entities):
    out = io.BytesIO()
    for entity in entities:
        entity_writer(type(entity))(out, entity)
    return out.getvalue()


def plain(value):
    """A value of kio's as ours."""
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, datetime):
        return (value - EPOCH) // timedelta(milliseconds=1)
    return value


def assert_same(theirs, ours):
    for field in kio_fields(theirs):
        name = field.name if hasattr(ours, field.name) else f"{field.name}_ms"
        expected, found = getattr(theirs, field.name), getattr(ours, name)
        kind = field.metadata.get("kafka_type")
        if expected is None and kind in {"uuid", "datetime_i64"}:
            expected = NO_ID if kind == "uuid" else -1
        assert_same_value(expected, found)


def assert_same_value(expected, found):
    if isinstance(expected, tuple):
        assert len(expected) == len(found)
        for left, right in zip(expected, found, strict=True):
            assert_same_value(NO_ID if left is None else left, right)
    elif is_dataclass(expected):
        assert_same(expected, found)
    else:
        assert plain(expected) == found


def versions(key):
    return range(SCHEMAS[key].min_version, SCHEMAS[key].max_version + 1)


@pytest.mark.parametrize("key", KEYS)
def test_requests_from_kio(key):
    for version in versions(key):
        check_request_from_kio(key, version, load_request_schema(key, version))


def check_request_from_kio(key, version, cls):
    @FEW
    @given(request=kio_messages(cls), correlation_id=integers(32), client_id=st.none() | texts)
    def check(request, correlation_id, client_id):
        start = cls.__header_schema__(
            request_api_key=key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
        )
        frame = kio_bytes(start, request)
        header, ours = codec.decode_request(memoryview(frame))
        assert header == (key, version, correlation_id, client_id)
        assert_same(request, ours)
        assert b"".join(codec.encode_request(key, version, correlation_id, client_id, ours))[4:] == frame

    check()


@pytest.mark.parametrize("key", KEYS)
def test_responses_from_kio(key):
    for version in versions(key):
        check_response_from_kio(key, version, load_response_schema(key, version))


def check_response_from_kio(key, version, cls):
    @FEW
    @given(response=kio_messages(cls), correlation_id=integers(32))
    def check(response, correlation_id):
        frame = kio_bytes(cls.__header_schema__(correlation_id=correlation_id), response)
        found, ours = codec.decode_response(key, version, memoryview(frame))
        assert found == correlation_id
        assert_same(response, ours)
        sent = b"".join(codec.encode_response(key, version, correlation_id, ours))
        assert sent == len(frame).to_bytes(4, "big") + frame

    check()


@pytest.mark.parametrize("key", KEYS)
def test_ours_through_kio(key):
    schema = SCHEMAS[key]
    for version in versions(key):
        check_ours_through_kio(schema.request, version, load_request_schema(key, version))
        check_ours_through_kio(schema.response, version, load_response_schema(key, version))


def check_ours_through_kio(cls, version, theirs):
    @FEW
    @given(message=messages(cls, version))
    def check(message):
        sent = codec.encode(message, version)
        entity, size = entity_reader(theirs)(sent, 0)
        assert size == len(sent)
        assert kio_bytes(entity) == sent
        assert codec.decode(cls, version, sent) == message

    check()


@pytest.mark.parametrize(
    ("cls", "theirs"),
    [
        (metadata_log.LeaderChangeMessage, (LeaderChangeV0, LeaderChangeV1)),
        (metadata_log.SnapshotHeaderRecord, (SnapshotHeaderRecord,)),
        (metadata_log.SnapshotFooterRecord, (SnapshotFooterRecord,)),
        (metadata_log.KRaftVersionRecord, (KRaftVersionRecord,)),
        (metadata_log.VotersRecord, (VotersRecord,)),
    ],
)
def test_control_records_of_the_quorum_through_kio(cls, theirs):
    for version, their in enumerate(theirs):
        check_ours_through_kio(cls, version, their)
