"""Values as Confluent's serializers write them. The registry is confluent-kafka's own mock, in this process."""

import json

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tidelog.spark.values import registry
from tidelog.spark.values.avro_schema import parse
from tidelog.spark.values.registered import Unfit, columns, fitted
from tidelog.spark.values.registry import RegistryAccess

VALUE = SerializationContext("orders", MessageField.VALUE)


def record(*fields, name="Order"):
    return json.dumps({"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]})


OLD = record(("id", "int"), ("note", ["null", "string"]))
NEW = record(("id", "long"), ("note", "string"), ("amount", "double"), ("old", "boolean"))


@pytest.fixture
def mock(monkeypatch):
    """The client is the mock that confluent-kafka has for its users' tests."""
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    monkeypatch.setattr(registry, "_new_client", lambda _: client)
    monkeypatch.setattr(registry, "_kept_client", lambda _: client)
    registry.written.cache_clear()
    yield client
    registry.written.cache_clear()


def written(client, schema, rows):
    write = AvroSerializer(client, schema)
    return [write(row, VALUE) for row in rows]


def found(values, wanted):
    access = RegistryAccess.of("mock://", {})
    rows, bad = columns(
        pa.array(values, pa.binary()), wanted, lambda number: registry.written(access, registry.AVRO, number)
    )
    rows.validate(full=True)
    return rows.to_pylist(), bad.tolist()


def test_values_of_several_schemas_are_rows_of_one_table(mock):
    old = written(mock, OLD, [{"id": 1, "note": None}, {"id": 2, "note": "two"}])
    new = written(mock, NEW, [{"id": 2**40, "note": "three", "amount": 0.5, "old": True}])
    wanted = pa.struct([("id", pa.int64()), ("note", pa.string()), ("amount", pa.float64())])
    rows, bad = found([old[0], new[0], None, old[1]], wanted)
    assert rows == [
        {"id": 1, "note": None, "amount": None},
        {"id": 2**40, "note": "three", "amount": 0.5},
        None,
        {"id": 2, "note": "two", "amount": None},
    ]
    assert bad == [False] * 4
    assert parse(registry.latest(RegistryAccess("mock://"), "orders-value").text) == parse(NEW)
    assert registry.latest(RegistryAccess("mock://"), "nothing-value") is None


def test_what_is_not_a_value_of_the_registry_is_malformed(mock):
    (good,) = written(mock, OLD, [{"id": 1, "note": "x"}])
    odd = [b"", b"\0", b"\0\0\0", b"{}", b"\0\0\0\0\x99abc", good[:-1], good + b"x", b"\1" + good[1:]]
    rows, bad = found([good, *odd, good], pa.struct([("id", pa.int32())]))
    assert rows == [{"id": 1}, *[None] * len(odd), {"id": 1}]
    assert bad == [False, *[True] * len(odd), False]
    assert found([], pa.struct([("id", pa.int32())])) == ([], [])
    assert found(odd, pa.struct([("id", pa.int32())]))[1] == [True] * len(odd)


def test_a_schema_that_does_not_fit_makes_its_values_malformed(mock):
    values = [
        *written(mock, OLD, [{"id": 1, "note": "x"}]),
        *written(mock, NEW, [{"id": 2, "note": "y", "amount": 1.0, "old": False}]),
    ]
    rows, bad = found(values, pa.struct([("id", pa.int32())]))  # a long may be too large for an int
    assert (rows, bad) == ([{"id": 1}, None], [False, True])


def test_a_slice_and_references_are_decoded(mock):
    mock.register_schema("money", Schema(record(("sum", "long"), name="Money"), "AVRO"))
    using = record(("id", "int"), ("price", ["null", "Money"]), ("all", {"type": "array", "items": "Money"}))
    number = mock.register_schema("uses", Schema(using, "AVRO", [SchemaReference("Money", "money", 1)]))
    frame = b"\0" + number.to_bytes(4, "big")
    values = pa.array([b"before", frame + bytes([4, 2, 6, 4, 2, 8, 0]), b"behind"], pa.binary()).slice(1, 1)
    access = RegistryAccess.of("mock://", {})
    kind = registry.written(access, registry.AVRO, number)
    rows, bad = columns(values, kind.record.arrow, lambda _: kind)
    assert rows.to_pylist() == [{"id": 2, "price": {"sum": 3}, "all": [{"sum": 1}, {"sum": 4}]}]
    assert not bad.any()
    wider = pa.struct(
        [
            ("price", pa.struct([("sum", pa.float64()), ("currency", pa.string())])),
            ("all", pa.list_(pa.struct([("sum", pa.int64())]))),
        ]
    )
    rows, _ = columns(values, wider, lambda _: kind)
    assert rows.to_pylist() == [{"price": {"sum": 3.0, "currency": None}, "all": [{"sum": 1}, {"sum": 4}]}]


def test_values_of_protobuf_are_rows_by_the_message_that_each_names(mock):
    """Messages have places in their file: the first one, one behind it, one inside another one."""
    money = 'syntax = "proto3"; package money; message Money { int64 units = 1; }'
    mock.register_schema("money", Schema(money, "PROTOBUF"))
    text = """
    syntax = "proto3"; package shop; import "money.proto";
    message Other { int64 id = 1; }
    message Order { int32 id = 1; money.Money price = 2; map<string, int32> counts = 3; message Line { int32 id = 1; } }
    """
    number = mock.register_schema("shop", Schema(text, "PROTOBUF", [SchemaReference("money.proto", "money", 1)]))
    wider = mock.register_schema(
        "wide", Schema('syntax = "proto3"; package shop; message Order { int64 id = 7; }', "PROTOBUF")
    )
    frame, later = b"\0" + number.to_bytes(4, "big"), b"\0" + wider.to_bytes(4, "big")
    order = b"\x08\x05\x12\x02\x08\x09\x1a\x05\x0a\x01a\x10\x01"
    values = [
        frame + b"\x02\x02" + order,  # one place: 1
        frame + b"\0" + b"\x08\x05",  # the first message: another one
        frame + b"\x04\x02\x02" + b"\x08\x05",  # two places: inside the order, behind the entries of its map
        later + b"\0" + b"\x38\x06",
        later + b"\x02\0" + b"\x38\x07",
        *(frame + each for each in (b"", b"\x02", b"\x03", b"\x02\x02\x0f", b"\xff" * 12)),
    ]
    wanted = pa.struct(
        [
            ("id", pa.int64()),
            ("price", pa.struct([("units", pa.float64())])),
            ("counts", pa.map_(pa.string(), pa.int64())),
        ]
    )

    def found(message):
        access = RegistryAccess.of("mock://", {})
        decoded = columns(
            pa.array(values, pa.binary()),
            wanted,
            lambda schema: registry.written(access, registry.PROTOBUF, schema, message),
        )
        decoded[0].validate(full=True)
        return decoded[0].to_pylist(), decoded[1].tolist()

    rows, bad = found("shop.Order")
    assert rows[0] == {"id": 5, "price": {"units": 9.0}, "counts": [("a", 1)]}
    assert rows[3:5] == [{"id": 6, "price": None, "counts": None}, {"id": 7, "price": None, "counts": None}]
    assert bad == [False, True, True, False, False, *[True] * 5]
    assert found("shop.Order.Line")[0][2] == {"id": 5, "price": None, "counts": None}
    assert found("shop.Nothing")[1] == [True] * len(values)


def test_only_promotions_of_avro_change_a_type():
    assert fitted(pa.array([1, None], pa.int32()), pa.float64()).to_pylist() == [1.0, None]
    assert fitted(pa.array([b"x"]), pa.string()).to_pylist() == ["x"]
    for array, wanted in [(["7"], pa.int64()), ([1.5], pa.int64()), ([b"\xff"], pa.string()), ([2**40], pa.int32())]:
        with pytest.raises(Unfit):
            fitted(pa.array(array), wanted)
    assert np.isclose(fitted(pa.array([2**60], pa.int64()), pa.float32()).to_pylist()[0], 2.0**60)
