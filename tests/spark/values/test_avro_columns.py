"""Avro's encoding as columns, compared with fastavro, record by record."""

import io
import json
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.spark.values.avro_columns import decode, padded
from tidelog.spark.values.avro_schema import UnsupportedSchema, parse

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROS = st.integers(-(10**15), 10**15).map(lambda value: EPOCH + timedelta(microseconds=value))
SIMPLE = {
    "null": ("null", st.none()),
    "boolean": ("boolean", st.booleans()),
    "int": ("int", st.integers(-(2**31), 2**31 - 1)),
    "long": ("long", st.integers(-(2**63), 2**63 - 1)),
    "float": ("float", st.floats(width=32, allow_nan=False)),
    "double": ("double", st.floats(allow_nan=False)),
    "bytes": ("bytes", st.binary(max_size=200)),
    "string": ("string", st.text(max_size=80)),
    "date": ({"type": "int", "logicalType": "date"}, st.dates()),
    "micros": ({"type": "long", "logicalType": "timestamp-micros"}, MICROS),
    "millis": (
        {"type": "long", "logicalType": "timestamp-millis"},
        MICROS.map(lambda value: value.replace(microsecond=value.microsecond // 1000 * 1000)),
    ),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
        st.integers(-(10**20) + 1, 10**20 - 1).map(lambda value: Decimal(value).scaleb(-3)),
    ),
    "unknown": ({"type": "long", "logicalType": "no-such"}, st.integers(0, 9)),
}


@st.composite
def typed(draw, depth=2, names=None):
    """A schema, and a strategy of its values."""
    names = names if names is not None else iter(range(1000))
    kinds = [*SIMPLE, "enum", "fixed"] + (["array", "map", "record", "union"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    if kind in SIMPLE:
        return SIMPLE[kind]
    if kind == "enum":
        return {"type": "enum", "name": f"E{next(names)}", "symbols": ["A", "B", "C"]}, st.sampled_from("ABC")
    if kind == "fixed":
        return {"type": "fixed", "name": f"F{next(names)}", "size": 5}, st.binary(min_size=5, max_size=5)
    inner, values = draw(typed(depth - 1, names))
    if kind == "array":
        return {"type": "array", "items": _sized(inner)}, st.lists(
            values if inner != "null" else st.just(0), max_size=4
        )
    if kind == "map":
        return {"type": "map", "values": inner}, st.dictionaries(st.text(max_size=5), values, max_size=3)
    if kind == "union":
        if inner == "null" or isinstance(inner, list):
            return ["null", "string"], st.none() | st.text(max_size=5)
        options = draw(st.permutations(["null", inner]))
        return options, st.none() | values
    fields = [("f0", (inner, values)), *((f"f{number}", draw(typed(depth - 1, names))) for number in (1, 2))]
    schema = {"type": "record", "name": f"R{next(names)}", "fields": [{"name": n, "type": t} for n, (t, _) in fields]}
    return schema, st.fixed_dictionaries({name: strategy for name, (_, strategy) in fields})


def _sized(inner):
    """Items of arrays take at least a byte."""
    return "int" if inner == "null" else inner


def encoded(schema, values):
    found = []
    for value in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, value)
        found.append(out.getvalue())
    return found


def decoded(schema, values, references=()):
    """The rows that our decoder finds, None for a malformed one."""
    lengths = np.array([len(each) for each in values], np.int64)
    stops = 3 + np.cumsum(lengths)
    rows, bad = decode(parse(json.dumps(schema), references), padded(b"xyz" + b"".join(values)), stops - lengths, stops)
    rows.validate(full=True)
    return [None if wrong else row for row, wrong in zip(rows.to_pylist(maps_as_pydicts="lossy"), bad, strict=True)]


@given(st.data())
def test_any_values_of_any_schema_are_what_fastavro_reads(data):
    fields = {f"c{number}": data.draw(typed()) for number in range(2)}
    for number, (schema, _) in enumerate(fields.values()):  # names are unique in a schema
        fields[f"c{number}"] = (_renamed(schema, number), fields[f"c{number}"][1])
    schema = {"type": "record", "name": "Row", "fields": [{"name": n, "type": t} for n, (t, _) in fields.items()]}
    rows = data.draw(st.lists(st.fixed_dictionaries({name: each for name, (_, each) in fields.items()}), max_size=12))
    ready = fastavro.parse_schema(json.loads(json.dumps(schema)))
    values = encoded(ready, rows)
    wanted = [fastavro.schemaless_reader(io.BytesIO(each), ready, None) for each in values]
    assert decoded(schema, values) == wanted
    if values:  # and what is cut off or damaged is found, or read as fastavro reads it, and no other row changes
        chosen = data.draw(st.integers(0, len(values) - 1))
        cut = values[chosen][: data.draw(st.integers(0, len(values[chosen])))]
        got = decoded(schema, [*values[:chosen], cut, *values[chosen + 1 :]])
        assert got[:chosen] + got[chosen + 1 :] == wanted[:chosen] + wanted[chosen + 1 :]
        assert got[chosen] == (wanted[chosen] if cut == values[chosen] else None)


def _renamed(schema, number):
    text = json.dumps(schema)
    for letter in "EFR":
        text = text.replace(f'"name": "{letter}', f'"name": "{letter}{"abc"[number]}')
    return json.loads(text)


@pytest.mark.filterwarnings("ignore:Encountered key")  # a map with a key twice is valid
def test_random_bytes_fail_alone():
    chance = random.Random(7)
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "many", "type": {"type": "map", "values": ["null", "double"]}},
            {"name": "level", "type": {"type": "enum", "name": "L", "symbols": ["LOW", "HIGH"]}},
            {"name": "sum", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}},
        ],
    }
    row = {"id": 5, "tags": ["a", "b"], "many": {"x": 1.5, "y": None}, "level": "HIGH", "sum": Decimal("12.30")}
    ready = fastavro.parse_schema(json.loads(json.dumps(schema)))
    (good,) = encoded(ready, [row])
    values = [good if number % 3 else chance.randbytes(chance.randrange(40)) for number in range(3000)]
    got = decoded(schema, values)
    assert [each for number, each in enumerate(got) if number % 3] == [row] * 2000
    assert sum(each is None for each in got) > 900
    for number, each in enumerate(got):
        if number % 3 == 0 and each is not None:
            source = io.BytesIO(values[number])
            assert fastavro.schemaless_reader(source, ready, None) == each
            assert not source.read()


def test_blocks_of_arrays_may_have_their_size_in_bytes():
    sized = bytes([3, 4, 2, 4, 0])  # a block of -2 items in 2 bytes, then the end
    assert decoded({"type": "array", "items": "int"}, [sized, bytes([2, 2, 2, 4, 0])]) == [
        {"value": [1, 2]},
        {"value": [1, 2]},
    ]


def test_a_union_of_several_types_is_a_struct_as_in_spark():
    schema = {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["int", "null", "string"]}]}
    ready = fastavro.parse_schema(json.loads(json.dumps(schema)))
    assert decoded(schema, encoded(ready, [{"u": 1}, {"u": None}, {"u": "x"}])) == [
        {"u": {"member0": 1, "member1": None}},
        {"u": None},
        {"u": {"member0": None, "member1": "x"}},
    ]


def test_names_are_resolved_in_their_namespace_and_in_references():
    money = {"type": "fixed", "name": "Money", "namespace": "a.b", "size": 2}
    order = {
        "type": "record",
        "name": "a.b.Order",
        "fields": [{"name": "x", "type": "Money"}, {"name": "y", "type": "a.b.Money"}],
    }
    assert decoded(order, [b"1234"], [json.dumps(money)]) == [{"x": b"12", "y": b"34"}]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("{", "is not supported"),
        ('{"type":"nothing"}', "there is no type 'nothing'"),
        ('{"type":"record","name":"T","fields":[{"name":"t","type":["null","T"]}]}', "contains itself"),
        ('{"type":"record","name":"T","fields":[]}', "has no fields"),
    ],
)
def test_a_schema_without_columns_is_refused(schema, why):
    with pytest.raises(UnsupportedSchema, match=why):
        parse(schema)


def test_types_are_those_of_arrow():
    assert parse(
        '{"type":"record","name":"R","fields":[{"name":"d","type":{"type":"int","logicalType":"date"}}]}'
    ).arrow == (pa.struct([("d", pa.date32())]))
    assert decoded({"type": "int", "logicalType": "date"}, [bytes([2])]) == [{"value": date(1970, 1, 2)}]
