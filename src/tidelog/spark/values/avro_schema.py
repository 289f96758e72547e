"""Avro schemas as kinds that `avro_columns` decodes, with the Arrow type of each.

Unions and logical types become what they are in Spark's own Avro source: a union with null is a nullable column, one of
several types a struct with a field for each. A schema must not contain itself.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

MAX_DECIMAL_DIGITS = 38
MAX_DECIMAL_BYTES = 16
PRIMITIVES: Mapping[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
LOGICAL: Mapping[tuple[str, str], tuple[pa.DataType, int, int]] = {
    ("int", "date"): (pa.date32(), 1, 1),
    ("long", "timestamp-millis"): (pa.timestamp("us", "UTC"), 1000, 1),
    ("long", "timestamp-micros"): (pa.timestamp("us", "UTC"), 1, 1),
    ("long", "timestamp-nanos"): (pa.timestamp("us", "UTC"), 1, 1000),
    ("long", "local-timestamp-millis"): (pa.timestamp("us"), 1000, 1),
    ("long", "local-timestamp-micros"): (pa.timestamp("us"), 1, 1),
    ("long", "local-timestamp-nanos"): (pa.timestamp("us"), 1, 1000),
}
"""The Arrow type, and the factor and divisor of the number. Other logical types are as their type without it."""


class UnsupportedSchema(ValueError):
    """A schema that is invalid, or that has no columns; the message says why."""


@dataclass(frozen=True)
class Primitive:
    name: str
    arrow: pa.DataType
    factor: int = 1
    divisor: int = 1


@dataclass(frozen=True)
class Fixed:
    size: int

    @property
    def arrow(self) -> pa.DataType:
        return pa.binary()


@dataclass(frozen=True)
class Decimal:
    """Bytes of any length, or, with a size, of this one."""

    arrow: pa.DataType
    size: int | None


@dataclass(frozen=True)
class Enum:
    symbols: tuple[str, ...]

    @property
    def arrow(self) -> pa.DataType:
        return pa.string()


@dataclass(frozen=True)
class List:
    items: "Kind"

    @property
    def arrow(self) -> pa.DataType:
        return pa.list_(self.items.arrow)


@dataclass(frozen=True)
class Map:
    values: "Kind"

    @property
    def arrow(self) -> pa.DataType:
        return pa.map_(pa.string(), self.values.arrow)


@dataclass(frozen=True)
class Record:
    fields: tuple[tuple[str, "Kind"], ...]

    @property
    def arrow(self) -> pa.DataType:
        return pa.struct([(name, kind.arrow) for name, kind in self.fields])


@dataclass(frozen=True)
class Union:
    options: tuple["Kind", ...]

    @property
    def members(self) -> list[tuple[int, "Kind"]]:
        """The options that are not null, with their numbers."""
        return [(number, kind) for number, kind in enumerate(self.options) if kind.arrow != pa.null()]

    @property
    def arrow(self) -> pa.DataType:
        kinds = [kind.arrow for _, kind in self.members]
        if len(kinds) <= 1:
            return kinds[0] if kinds else pa.null()
        return pa.struct([(f"member{number}", kind) for number, kind in enumerate(kinds)])


Kind = Primitive | Fixed | Decimal | Enum | List | Map | Record | Union


def parse(schema: str, references: Iterable[str] = ()) -> Record:
    """The columns of a schema: the fields of a record, else one column `value`. `references` are the schemas that it
    uses, each after those that it uses itself. UnsupportedSchema if it has no columns."""
    names: dict[str, Kind | None] = {}
    try:
        for each in references:
            _parsed(json.loads(each), "", names)
        found = _parsed(json.loads(schema), "", names)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnsupportedSchema(f"Avro schema {schema[:200]!r} is not supported: {error}") from None
    return found if isinstance(found, Record) else Record((("value", found),))


def _parsed(schema: Any, space: str, names: dict[str, Kind | None]) -> Kind:
    if isinstance(schema, list):
        return Union(tuple(_parsed(each, space, names) for each in schema))
    if isinstance(schema, str):
        return _named(schema, space, names)
    kind, logical = schema["type"], schema.get("logicalType", "")
    if not isinstance(kind, str):
        return _parsed(kind, space, names)
    if kind == "array":
        return List(_parsed(schema["items"], space, names))
    if kind == "map":
        return Map(_parsed(schema["values"], space, names))
    if kind in ("record", "error", "enum", "fixed"):
        return _definition(schema, kind, space, names)
    if kind == "bytes" and logical == "decimal":
        return _decimal(schema, None) or Primitive(kind, PRIMITIVES[kind])
    if (kind, logical) in LOGICAL:
        return Primitive(kind, *LOGICAL[kind, logical])
    return _named(kind, space, names)


def _named(name: str, space: str, names: dict[str, Kind | None]) -> Kind:
    if name in PRIMITIVES:
        return Primitive(name, PRIMITIVES[name])
    full = name if "." in name or not space or f"{space}.{name}" not in names else f"{space}.{name}"
    if full not in names:
        raise UnsupportedSchema(f"there is no type {name!r}")
    found = names[full]
    if found is None:
        raise UnsupportedSchema(f"type {name!r} contains itself")
    return found


def _definition(schema: Mapping[str, Any], kind: str, space: str, names: dict[str, Kind | None]) -> Kind:
    name = schema["name"]
    own, _, _ = name.rpartition(".") if "." in name else (schema.get("namespace") or space, "", "")
    full = name if "." in name or not own else f"{own}.{name}"
    names[full] = None
    found: Kind
    if kind == "enum":
        found = Enum(tuple(schema["symbols"]))
    elif kind == "fixed":
        size = int(schema["size"])
        found = (_decimal(schema, size) if schema.get("logicalType") == "decimal" else None) or Fixed(size)
    else:
        fields = tuple((field["name"], _parsed(field["type"], own, names)) for field in schema["fields"])
        if not fields:
            raise UnsupportedSchema(f"record {name!r} has no fields")
        found = Record(fields)
    names[full] = found
    return found


def _decimal(schema: Mapping[str, Any], size: int | None) -> Decimal | None:
    """None if Arrow's decimal cannot hold it; then it stays bytes."""
    precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
    if not (0 < precision <= MAX_DECIMAL_DIGITS and 0 <= scale <= precision and (size or 0) <= MAX_DECIMAL_BYTES):
        return None
    return Decimal(pa.decimal128(precision, scale), size)
