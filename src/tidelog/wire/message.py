"""The vocabulary in which `wire.messages` declares Kafka's messages: one class for all versions of a message.

A field is written as `name: type = kind(versions, default=…, nullable=…, tag=…)`. Versions are Kafka's notation ("0+",
"2-7", "9"); left out they mean every version of the message. `nullable` gives the versions in which null may be sent,
`tag` makes the field a tagged one, in all its versions. The classes that come out are plain: slots, keyword
construction, a default for every field, equality and a repr; they have no methods, codecs are compiled from
`__fields__` by `wire.codec`. `__key__` is the key of the API, the type of the record, or -1; `__versions__` and
`__flexible__` are None but for `data`: the ranges of requests and responses stand in the table of `wire.messages`.

They are not dataclasses of the standard library because some 300 of those would cost a broker a quarter of a second at
every start; here `__init__` is compiled when a class is first used.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, dataclass_transform

from tidelog.effects import FileSlice
from tidelog.model import NO_ID
from tidelog.ports import Buffer

NEWEST = 32767

Records = Buffer | FileSlice | Sequence[Buffer | FileSlice] | None
"""What a `records` field holds: decoding gives a memoryview into the frame, encoding accepts any of these."""

T = TypeVar("T")


class Versions(NamedTuple):
    """A closed range of versions."""

    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high


ALL = Versions(0, NEWEST)
NEVER = Versions(1, 0)


def versions_of(text: str | None) -> Versions:
    """Kafka's notation as a range; None is the empty one."""
    if text is None:
        return NEVER
    low, dash, high = text.removesuffix("+").partition("-")
    if dash:
        return Versions(int(low), int(high))
    return Versions(int(low), NEWEST if text.endswith("+") else int(low))


class Field:
    """One field's declaration. `element` is the kind or the class of an array's elements, or a struct's class."""

    __slots__ = ("default", "element", "kind", "name", "nullable", "tag", "versions")

    def __init__(  # called some 1,500 times at import, where names cost
        self, kind: "Kind", versions: str, default: Any, nullable: str | None, tag: int | None, element: Any
    ) -> None:
        self.name = ""
        self.kind = kind
        self.versions = versions
        self.default = default
        self.nullable = nullable
        self.tag = tag
        self.element = element


class Kind:
    """A wire type, called to declare a field of it. `code` is that of `struct`, empty where the size is not fixed."""

    __slots__ = ("code", "default", "name")

    def __init__(self, name: str, code: str, default: Any) -> None:
        self.name = name
        self.code = code
        self.default = default

    def __call__(
        self, versions: str = "0+", *, default: Any = ..., nullable: str | None = None, tag: int | None = None
    ) -> Any:
        return Field(self, versions, self.default if default is ... else default, nullable, tag, None)

    def __repr__(self) -> str:
        return self.name


boolean = Kind("boolean", "?", default=False)
int8 = Kind("int8", "b", default=0)
int16 = Kind("int16", "h", default=0)
uint16 = Kind("uint16", "H", default=0)
int32 = Kind("int32", "i", default=0)
uint32 = Kind("uint32", "I", default=0)
int64 = Kind("int64", "q", default=0)
float64 = Kind("float64", "d", default=0.0)
uuid = Kind("uuid", "16s", default=NO_ID)
string = Kind("string", "", default="")
binary = Kind("binary", "", default=b"")
records = Kind("records", "", default=None)
_ARRAY = Kind("array", "", default=list)
_STRUCT = Kind("struct", "", default=None)


def array(
    of: Kind | type[Any],
    versions: str = "0+",
    *,
    default: Any = list,
    nullable: str | None = None,
    tag: int | None = None,
) -> Any:
    """A list of a fixed-size or string kind, or of structs. Its default is an empty list, or None where so given."""
    return Field(_ARRAY, versions, default, nullable, tag, of)


def struct(
    of: type[Any], versions: str = "0+", *, default: Any = ..., nullable: str | None = None, tag: int | None = None
) -> Any:
    """A nested structure. Its default is one of all defaults, or None where so given."""
    return Field(_STRUCT, versions, of if default is ... else default, nullable, tag, of)


@dataclass_transform(kw_only_default=True)
def message(cls: type[T]) -> type[T]:
    """A structure inside other messages."""
    return _build(cls, -1, None, None)


@dataclass_transform(kw_only_default=True)
def api(key: int) -> Callable[[type[T]], type[T]]:
    """The request or the response of an API."""
    return lambda cls: _build(cls, key, None, None)


@dataclass_transform(kw_only_default=True)
def data(versions: str, *, flexible: str | None = None, record: int = -1) -> Callable[[type[T]], type[T]]:
    """A message that stands alone after its version, as in the records of internal topics. `record` is the type of
    record that a key announces in place of a version."""
    return lambda cls: _build(cls, record, versions, flexible)


def fields(message_or_class: Any) -> tuple[Field, ...]:
    """The declarations of a message's fields, in order."""
    found: tuple[Field, ...] = message_or_class.__fields__
    return found


def key_of(message_or_class: Any) -> int:
    """The key of a request's or a response's API; of a key in an internal topic, the type of its record."""
    found: int = message_or_class.__key__
    return found


def replace(message: T, **changes: Any) -> T:
    """A shallow copy with some fields changed."""
    values = {field.name: getattr(message, field.name) for field in fields(message)}
    return type(message)(**(values | changes))


def _build(cls: type[T], key: int, versions: str | None, flexible: str | None) -> type[T]:
    names = tuple(cls.__annotations__)
    declared = tuple(cls.__dict__[name] for name in names)
    for name, field in zip(names, declared, strict=True):
        field.name = name
    body = {name: value for name, value in cls.__dict__.items() if name not in names and name not in _NOT_COPIED}
    body.update(
        __slots__=names,
        __fields__=declared,
        __key__=key,
        __versions__=versions,
        __flexible__=flexible,
        __init__=_first_init,
        __eq__=_equal,
        __hash__=None,
        __repr__=_text,
    )
    built: type[T] = type(cls.__name__, cls.__bases__, body)
    return built


_NOT_COPIED = frozenset({"__dict__", "__weakref__"})


def _first_init(self: Any, *arguments: Any, **named: Any) -> None:
    """The `__init__` of every class until its first construction compiles the real one."""
    cls = type(self)
    cls.__init__ = _compile_init(cls.__fields__)
    cls.__init__(self, *arguments, **named)


def _compile_init(declared: tuple[Field, ...]) -> Any:
    scope: dict[str, Any] = {}
    parameters = ["self"]
    lines = []
    for field in declared:
        name, default = field.name, f"_{field.name}"
        scope[default] = field.default
        parameters.append(f"{name}={default}")
        fresh = f"{default}() if {name} is {default} else {name}" if callable(field.default) else name
        lines.append(f" self.{name} = {fresh}")
    source = f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines or [" pass"])
    exec(source, scope)  # noqa: S102 - the source is made of the declarations in this package only
    return scope["__init__"]


def _equal(self: Any, other: Any) -> Any:
    if type(self) is not type(other):
        return NotImplemented
    return all(getattr(self, field.name) == getattr(other, field.name) for field in self.__fields__)


def _text(self: Any) -> str:
    shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.__fields__)
    return f"{type(self).__name__}({shown})"
