"""Protobuf's wire format as columns, compared with Google's parser, message by message."""

import random
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelog.spark.values.avro_columns import padded
from tidelog.spark.values.proto_columns import decode
from tidelog.spark.values.proto_schema import Schema, UnsupportedSchema

SCALARS = {
    **dict.fromkeys(["int32", "sint32", "sfixed32"], st.integers(-(2**31), 2**31 - 1)),
    **dict.fromkeys(["int64", "sint64", "sfixed64"], st.integers(-(2**63), 2**63 - 1)),
    **dict.fromkeys(["uint32", "fixed32"], st.integers(0, 2**32 - 1)),
    **dict.fromkeys(["uint64", "fixed64"], st.integers(0, 2**64 - 1)),
    "double": st.floats(allow_nan=False),
    "float": st.floats(width=32, allow_nan=False),
    "bool": st.booleans(),
    "string": st.text(max_size=40),
    "bytes": st.binary(max_size=200),
}
NAMES = list(SCALARS)
TEXT = f"""
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "money.proto";
enum Color {{ RED = 0; BLUE = 1; AZURE = 300; }}
message Order {{
{"".join(f"  {name} {name}_ = {number};" for number, name in enumerate(NAMES, 1))}
{"".join(f"  repeated {name} {name}s = {number};" for number, name in enumerate(NAMES, 21))}
{"".join(f"  optional {name} {name}_or_null = {number};" for number, name in enumerate(NAMES, 41))}
{"".join(f"  repeated {name} {name}_single = {number} [packed = false];" for number, name in enumerate(NAMES[:12], 61))}
  message Item {{ string name = 1; repeated Item2 parts = 2; money.Money price = 3; }}
  message Item2 {{ sint32 number = 1; map<string, Color> colors = 2; }}
  message Nothing {{}}
  Item item = 80;
  repeated Item items = 81;
  map<int32, Item> by_number = 82;
  map<string, bytes> by_name = 83;
  Color color = 84;
  repeated Color colors = 85;
  google.protobuf.Timestamp at = 86;
  repeated google.protobuf.Timestamp times = 87;
  oneof choice {{ int32 left = 88; Item middle = 89; string right = 90; }}
  Nothing nothing = 91;
}}
"""
MONEY = 'syntax = "proto3"; package money; message Money { int64 units = 1; optional string currency = 2; }'
OLD_TEXT = """
syntax = "proto2";
enum Kind { ONE = 1; TWO = 2; }
message Old { required int32 id = 1; optional Kind kind = 2 [default = TWO]; repeated Kind kinds = 3 [packed = true]; }
"""
SCHEMA, OLD = Schema(TEXT, [("money.proto", MONEY)]), Schema(OLD_TEXT)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SLOW = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def class_of(schema, name):
    return GetMessageClass(schema._pool.FindMessageTypeByName(name))


ORDER = class_of(SCHEMA, "shop.Order")


def messages(descriptor, depth=3):
    """Messages as dictionaries that their class takes."""
    fields = {each.name: values(each, depth) for each in descriptor.fields if depth or each.message_type is None}
    return st.fixed_dictionaries({}, optional=fields)


def values(field, depth):
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = field.message_type.fields
        return st.dictionaries(single(key, depth), single(value, depth), max_size=3)
    one = single(field, depth)
    return st.lists(one, max_size=5) if field.is_repeated else one


def single(field, depth):
    if field.enum_type is not None:
        return st.sampled_from([0, 1, 300, 7, -1])
    if field.message_type is None:
        names = {getattr(field, f"TYPE_{name.upper()}"): name for name in SCALARS}
        return SCALARS[names[field.type]]
    if field.message_type.name == "Timestamp":
        return st.fixed_dictionaries({"seconds": st.integers(-(10**10), 10**10), "nanos": st.integers(0, 999_999_999)})
    return messages(field.message_type, depth - 1)


def wanted(message):
    """The row of a message, as Google's runtime has it."""
    found = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None and not field.message_type.fields:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            inner = field.message_type.fields_by_name["value"]
            found[field.name] = {key: plain(inner, value[key]) for key in value}
        elif field.is_repeated:
            found[field.name] = [plain(field, each) for each in value]
        else:
            is_there = not field.has_presence or message.HasField(field.name)
            found[field.name] = plain(field, value) if is_there else None
    return found


def plain(field, value):
    if field.enum_type is not None:
        name = field.enum_type.values_by_number.get(value)
        return name.name if name is not None else str(value)
    if field.message_type is None:
        return value
    if field.message_type.name == "Timestamp":
        return EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    return wanted(value)


def rows_of(message, records):
    """What the decoder makes of them, with other bytes in between, and maps as dictionaries."""
    data, starts = b"", []
    for record in records:
        data += b"\xff\xff"
        starts.append(len(data))
        data += record
    starts = np.array(starts, np.int64)
    found, bad = decode(message, padded(data), starts, starts + [len(record) for record in records])
    found.validate(full=True)
    return [unlisted(message.arrow, row) for row in found.to_pylist()], bad.tolist()


def unlisted(kind, value):
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: unlisted(field.type, value[field.name]) for field in kind}
    if pa.types.is_map(kind):
        return {key: unlisted(kind.item_type, item) for key, item in value}
    if pa.types.is_list(kind):
        return [unlisted(kind.value_type, item) for item in value]
    return int(value) if pa.types.is_decimal(kind) else value


@SLOW
@given(st.lists(messages(ORDER.DESCRIPTOR), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_columns_are_what_googles_parser_finds(given, chance):
    kind = SCHEMA.message("shop.Order")
    whole = [ORDER(**each) for each in given]
    pieces = [each.SerializeToString() for each in whole]
    # Two messages behind each other are one, merged; of a oneof, the last one set counts.
    merged = [b"".join(chance.sample(pieces, len(pieces))) for _ in range(2)]
    records = [*pieces, *merged, b""]
    rows, bad = rows_of(kind, records)
    assert bad == [False] * len(records)
    assert rows == [wanted(ORDER.FromString(record)) for record in records]


def test_what_googles_parser_refuses_is_malformed():
    """Bytes are changed, cut and moved at random; a field of a wrong wire type and groups are skipped by both. Without
    maps: Google's parser in C, and not that in Java, leaves out an entry with an unknown field."""
    kind, chance = SCHEMA.message("shop.Order"), random.Random(5)
    item = {"name": "n", "parts": [{"number": 3}], "price": {"units": 4, "currency": "EUR"}}
    good = ORDER(
        int32s=[1, 300, -1],
        string_="ü",
        item=item,
        items=[item] * 2,
        doubles=[1.5, 2],
        uint64_single=[2**64 - 1],
        colors=[1, 300],
        middle=item,
        fixed32_=7,
    ).SerializeToString()
    records = [good + b"\xfb\x07\x08\x01\xfb\x07\xfc\x07\xfc\x07", good + b"\xfb\x07", good + b"\xfc\x07", b"\x00\x01"]
    for _ in range(1000):
        record = bytearray(good)
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(len(record))
            record[place:] = (
                chance.choice(
                    [
                        record[place + 1 :],
                        bytes([chance.randrange(256)]) + record[place + 1 :],
                        b"",
                        record[place // 2 :],
                    ]
                )
                or b"\x08"
            )
        records.append(bytes(record))
    rows, bad = rows_of(kind, records)
    refused, unread = 0, 0
    for record, row, is_bad in zip(records, rows, bad, strict=True):
        try:
            told = wanted(ORDER.FromString(record))
        except DecodeError:
            refused += 1
            unread += not is_bad  # a malformed field that a later one replaces is not looked at
            continue
        assert not is_bad, record.hex()
        assert row == told or told != told, record.hex()  # noqa: PLR0124  nan
    assert 200 < refused < 950
    assert unread < refused / 50


def test_a_closed_enum_ignores_other_numbers_and_defaults_are_absent():
    kind = OLD.message("Old")
    records = [b"\x08\x05\x10\x01\x10\x07", b"\x08\x05\x1a\x03\x01\x07\x02\x18\x02", b"\x08\x05"]
    rows, bad = rows_of(kind, records)
    assert rows == [
        {"id": 5, "kind": "ONE", "kinds": []},
        {"id": 5, "kind": None, "kinds": ["ONE", "TWO", "TWO"]},
        {"id": 5, "kind": None, "kinds": []},
    ]
    assert bad == [False] * 3
    assert rows_of(kind, []) == ([], [])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('syntax = "proto3"; message A { B b = 1; }', '"B" is not defined'),
        ('syntax = "proto3"; message A { A a = 1; }', "message A contains itself"),
        ('syntax = "proto3"; message A { message N {} N n = 1; }', "message A has no fields"),
        ('syntax = "proto2"; message A { optional group G = 1 { optional int32 x = 1; } }', "A.g is a group"),
        ("no schema", "is invalid"),
    ],
)
def test_what_has_no_columns_is_refused(text, told):
    with pytest.raises(UnsupportedSchema, match=told):
        Schema(text).message("A")


def test_a_reference_stays_in_its_folder():
    with pytest.raises(UnsupportedSchema, match="must not be named"):
        Schema(MONEY, [("../../money.proto", MONEY)])
