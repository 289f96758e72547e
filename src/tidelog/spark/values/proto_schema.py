"""Schemas of Protocol Buffers as kinds that `proto_columns` decodes, with the Arrow type of each.

protoc reads the text, Google's runtime resolves names and features; both know every edition. Unsigned numbers have the
next larger type, so that none becomes negative; a Timestamp is a timestamp. A message must not contain itself.
"""

import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import pyarrow as pa

SCHEMA = "schema.proto"
"""What protoc calls the schema itself; its references have names of their own."""
COMPILED_WITHIN_S = 60
UNSIGNED_64 = pa.decimal128(20, 0)
SCALARS: Mapping[str, pa.DataType] = {
    "double": pa.float64(),
    "float": pa.float32(),
    "int64": pa.int64(),
    "uint64": UNSIGNED_64,
    "int32": pa.int32(),
    "fixed64": UNSIGNED_64,
    "fixed32": pa.int64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "uint32": pa.int64(),
    "sfixed32": pa.int32(),
    "sfixed64": pa.int64(),
    "sint32": pa.int32(),
    "sint64": pa.int64(),
}
TIMESTAMP = "google.protobuf.Timestamp"


class UnsupportedSchema(ValueError):
    """A schema that is invalid, or that has no columns; the message says why."""


@dataclass(frozen=True)
class Scalar:
    name: str

    @property
    def arrow(self) -> pa.DataType:
        return SCALARS[self.name]


@dataclass(frozen=True)
class Enum:
    """Names by number; of a closed one, other numbers count as absent."""

    names: tuple[tuple[int, str], ...]
    default: str
    is_closed: bool

    @property
    def arrow(self) -> pa.DataType:
        return pa.string()


@dataclass(frozen=True)
class Timestamp:
    @property
    def arrow(self) -> pa.DataType:
        return pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Field:
    """`has_presence`: an absent one is null, not the default of its type. `choice` is the name of its oneof, or ""."""

    name: str
    number: int
    kind: "Kind"
    shape: Literal["one", "many", "map"] = "one"
    has_presence: bool = False
    choice: str = ""

    @property
    def arrow(self) -> pa.DataType:
        if self.shape == "one":
            return self.kind.arrow
        if self.shape == "many":
            return pa.list_(self.kind.arrow)
        assert isinstance(self.kind, Message)
        key, value = self.kind.fields
        return pa.map_(key.arrow, value.arrow)


@dataclass(frozen=True)
class Message:
    name: str
    fields: tuple[Field, ...]

    @property
    def arrow(self) -> pa.DataType:
        return pa.struct([(field.name, field.arrow) for field in self.fields])


Kind = Scalar | Enum | Timestamp | Message
Place = tuple[int, ...]
"""The place of a message in a file: its number, then that of each message inside."""


class Schema:
    """The messages of a file. `references` are the files that it imports, by name. UnsupportedSchema if protoc refuses
    it."""

    def __init__(self, text: str, references: Iterable[tuple[str, str]] = ()) -> None:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.descriptor_pool import DescriptorPool

        self._pool = DescriptorPool()
        files = FileDescriptorSet.FromString(_compiled(text, references)).file
        for file in files:
            self._pool.Add(file)
        self._file = files[-1]

    def names(self) -> dict[Place, str]:
        """The full names of all messages."""
        found: dict[Place, str] = {}

        def collect(messages: Sequence[Any], space: str, path: Place) -> None:
            for number, each in enumerate(messages):
                name = f"{space}.{each.name}" if space else each.name
                if not each.options.map_entry:
                    found[(*path, number)] = name
                collect(each.nested_type, name, (*path, number))

        collect(self._file.message_type, self._file.package, ())
        return found

    def message(self, name: str) -> Message:
        """UnsupportedSchema if it has no columns."""
        found = _message(self._pool.FindMessageTypeByName(name), ())
        if not found.fields:
            raise UnsupportedSchema(f"message {name} has no fields")
        return found


def _compiled(text: str, references: Iterable[tuple[str, str]]) -> bytes:
    """A FileDescriptorSet, in which each file is behind those that it imports."""
    with TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for name, each in (*references, (SCHEMA, text)):
            file = (root / name).resolve()
            if root not in file.parents:
                raise UnsupportedSchema(f"a reference must not be named {name!r}")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(each, encoding="utf-8")
        output = root / "descriptors"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{root}", f"-I{_known_types()}", "--include_imports"]
        done = subprocess.run(  # noqa: S603  no shell; the schema is a file
            [*command, f"--descriptor_set_out={output}", SCHEMA],
            capture_output=True,
            text=True,
            timeout=COMPILED_WITHIN_S,
            check=False,
        )
        if done.returncode:
            found = (line for line in done.stderr.splitlines() if ".proto:" in line and "warning:" not in line)
            reason = next(found, done.stderr.strip() or "protoc failed")
            raise UnsupportedSchema(f"Protobuf schema {text[:200]!r} is invalid: {reason.removeprefix(f'{root}/')}")
        return output.read_bytes()


def _known_types() -> Path:
    """Google's own .proto files, such as google/protobuf/timestamp.proto."""
    found = find_spec("grpc_tools")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "_proto"


def _message(descriptor: Any, outer: tuple[str, ...]) -> Message:
    name = descriptor.full_name
    if name in outer:
        raise UnsupportedSchema(f"message {name} contains itself")
    fields = (_field(each, (*outer, name)) for each in descriptor.fields)
    return Message(name, tuple(field for field in fields if not _is_empty(field.kind)))


def _is_empty(kind: Kind) -> bool:
    """Messages without fields are no columns: tables cannot hold a struct of nothing."""
    return isinstance(kind, Message) and (not kind.fields)


def _field(field: Any, outer: tuple[str, ...]) -> Field:
    kind = _kind(field, outer)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        assert isinstance(kind, Message)
        if len(kind.fields) < 2:  # the values are empty messages
            kind = Message(kind.name, ())
        entry = Message(kind.name, tuple(Field(each.name, each.number, each.kind) for each in kind.fields))
        return Field(field.name, field.number, entry, "map")
    if field.is_repeated:
        return Field(field.name, field.number, kind, "many")
    choice = field.containing_oneof.name if field.containing_oneof is not None else ""
    return Field(field.name, field.number, kind, "one", has_presence=field.has_presence, choice=choice)


def _kind(field: Any, outer: tuple[str, ...]) -> Kind:
    if field.type == field.TYPE_GROUP:
        raise UnsupportedSchema(f"field {field.full_name} is a group")
    if field.enum_type is not None:
        names: dict[int, str] = {}
        for value in field.enum_type.values:
            names.setdefault(value.number, value.name)
        default = field.enum_type.values[0].name
        return Enum(tuple(sorted(names.items())), default, field.enum_type.is_closed)
    if field.message_type is not None:
        return Timestamp() if field.message_type.full_name == TIMESTAMP else _message(field.message_type, outer)
    names_by_type = {getattr(field, f"TYPE_{name.upper()}"): name for name in SCALARS}
    return Scalar(names_by_type[field.type])
