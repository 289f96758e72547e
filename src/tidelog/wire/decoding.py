"""Compiles the decoder of one message in one version: a straight-line function over a position in a buffer.

    compiled(b, m, p, n) -> (message, position)

`b` is what is read (bytes, or the frame's memoryview where copying it would cost), `m` the frame itself, of which
`records` are slices, `n` their length. Every length and count is held against the bytes that are left before anything
is made of it. What the checks let through may still run off the end: IndexError and struct.error, which `wire.codec`
turns into a violation like the rest.

A decoder in steps is a generator of the same lines that counts the entries of all arrays: it yields after each `STEP`
of them, refuses more than `limit`, and returns their number behind the position:

    compiled(b, m, p, n, limit) -> (message, position, entries)
"""

from collections.abc import Callable
from struct import unpack_from
from typing import Any

from tidelog.wire.message import Field, Kind, fields, string
from tidelog.wire.primitives import (
    MAX_ARRAY,
    MAX_TAGGED_FIELDS,
    check_tagged_fields,
    read_uvarint,
    refuse,
    refuse_entries,
    skip_tagged_fields,
)
from tidelog.wire.source import STEP, Source, size_of


def compile_decoder(
    cls: type[Any], version: int, *, flexible: bool, view: bool, in_steps: bool = False
) -> Callable[..., Any]:
    """`view` says that `b` will be a memoryview and not bytes."""
    source = _Decoder("b, m, p, n, limit" if in_steps else "b, m, p, n", version, flexible=flexible)
    source.view = view
    source.in_steps = in_steps
    source.scope.update(
        new=object.__new__,
        varint=read_uvarint,
        refuse=refuse,
        too_many=refuse_entries,
        skip=skip_tagged_fields,
        check_tags=check_tagged_fields,
        unpack=unpack_from,
    )
    if in_steps:
        source.line("entries = 0; step = 0")
    message = source.structure(cls)
    if not in_steps:
        source.line(f"return {message}, p")
        return source.function()
    source.line(f"return {message}, p, entries")
    source.line("yield")  # never reached where nothing repeats, and a generator all the same
    return source.function()


class _Decoder(Source):
    view = False
    in_steps = False

    def fixed(self, code: str, name: str) -> None:
        self.run.append((code, name))

    def flush(self) -> None:
        """Read the fixed-size fields that have gathered."""
        if not self.run:
            return
        codes = "".join(code for code, _ in self.run)
        names = [name for _, name in self.run]
        self.run = []
        if codes == "B":
            self.line(f"{names[0]} = b[p]")
            self.line("p += 1")
            return
        unpack = self.packer(codes, "unpack_from")
        self.line(f"{', '.join(names)}, = {unpack}(b, p)")
        self.line(f"p += {self.scope[unpack].__self__.size}")

    def structure(self, cls: type[Any]) -> str:
        """Read a structure; answers the name of its variable."""
        plain, tagged = self.fields(cls)
        values = {field.name: self.field(field, cls) for field in plain}
        if self.flexible:
            values |= self.tagged_fields(tagged, cls)
        self.flush()
        return self.build(cls, values)

    def build(self, cls: type[Any], values: dict[str, str]) -> str:
        made = self.fresh("o")
        self.line(f"{made} = new({self.constant(cls, cls.__name__)})")
        for field in fields(cls):
            self.line(f"{made}.{field.name} = {values.get(field.name) or self.default(field)}")
        return made

    def default(self, field: Field) -> str:
        """An expression for the default; structs are built in place, because a constructor costs more."""
        value = field.default
        if value is list:
            return "[]"
        if isinstance(value, type):
            return self.build(value, {})
        return repr(value)

    def field(self, field: Field, cls: type[Any]) -> str:
        """Read one field's value; answers its variable, which is set when the run was flushed."""
        name = self.fresh("v")
        where = repr(f"{cls.__name__}.{field.name}")
        nullable = self.is_nullable(field)
        if field.kind.code:
            self.fixed(field.kind.code, name)
        elif field.kind.name == "array":
            self.array(name, field.element, where, nullable=nullable)
        elif field.kind.name == "struct":
            return self.nested(name, field, nullable=nullable)
        else:
            self.text(name, field.kind, where, nullable=nullable)
        return name

    def nested(self, name: str, field: Field, *, nullable: bool) -> str:
        if not nullable:
            return self.structure(field.element)
        mark = self.fresh("k")
        self.fixed("b", mark)
        self.flush()
        null = f"{mark} < 0" if field.tag is None else f"not {mark}"  # a tagged one counts its presence
        with self.block(f"if {null}:"):
            self.line(f"{name} = None")
        with self.block("else:"):
            self.line(f"{name} = {self.structure(field.element)}")
        return name

    def length(self, kind_is_string: bool) -> str:
        """Read a length or a count; answers its variable: -1 (or below) is null."""
        size = self.fresh("l")
        self.fixed("B" if self.flexible else "h" if kind_is_string else "i", size)
        self.flush()
        if self.flexible:
            with self.block(f"if {size} > 127:"):
                self.line(f"{size}, p = varint(b, p - 1)")
            self.line(f"{size} -= 1")
        return size

    def text(self, name: str, kind: Kind, where: str, *, nullable: bool) -> None:
        """Read a string, bytes or records."""
        size = self.length(kind is string)
        if nullable:
            with self.block(f"if {size} < 0:"):
                self.line(f"{name} = None")
            with self.block("else:"):
                self.slice(name, kind, size, where)
        else:
            self.line(f"if {size} < 0: refuse({where})")
            self.slice(name, kind, size, where)

    def slice(self, name: str, kind: Kind, size: str, where: str) -> None:
        self.line(f"q = p + {size}")
        self.line(f"if q > n: refuse({where})")
        if kind.name == "records":
            value = "m[p:q]"
        elif kind is not string:
            value = "bytes(b[p:q])" if self.view else "b[p:q]"
        elif self.view:
            value = 'str(b[p:q], "utf-8", "replace")'
        else:
            value = 'b[p:q].decode("utf-8", "replace")'
        self.line(f"{name} = {value}")
        self.line("p = q")

    def array(self, name: str, element: Any, where: str, *, nullable: bool) -> None:
        count = self.length(kind_is_string=False)
        if nullable:
            with self.block(f"if {count} < 0:"):
                self.line(f"{name} = None")
            with self.block("else:"):
                self.elements(name, element, count, where)
        else:
            self.elements(name, element, count, where)

    def elements(self, name: str, element: Any, count: str, where: str) -> None:
        if isinstance(element, Kind):
            minimal = size_of(element) if element.code else 1 if self.flexible else 2
        else:
            minimal = self.minimal_size(element)
        self.line(f"if not 0 <= {count} * {minimal} <= n - p or {count} > {MAX_ARRAY}: refuse({where})")
        if self.in_steps:
            self.line(f"entries += {count}")
            self.line("if entries > limit: too_many(limit)")
        if isinstance(element, Kind) and element.code:
            self.fixed_elements(name, element, count)
            return
        self.line(f"{name} = []")
        with self.block(f"if {count}:"):
            add = self.fresh("a")
            self.line(f"{add} = {name}.append")
            with self.block(f"for _ in range({count}):"):
                self.line(f"{add}({self.element(element, where)})")
                if self.in_steps:
                    self.line("step += 1")
                    self.line(f"if not step % {STEP}: yield")

    def element(self, element: Any, where: str) -> str:
        """Read one element that is not of a fixed size; answers its variable."""
        if not isinstance(element, Kind):
            return self.structure(element)
        item = self.fresh("v")
        self.text(item, element, where, nullable=False)
        return item

    def fixed_elements(self, name: str, element: Kind, count: str) -> None:
        codes = f'">" + "{element.code}" * {count}' if len(element.code) > 1 else f'f">{{{count}}}{element.code}"'
        self.line(f"{name} = list(unpack({codes}, b, p)) if {count} else []")
        self.line(f"p += {count} * {size_of(element)}")

    def tagged_fields(self, tagged: list[Field], cls: type[Any]) -> dict[str, str]:
        """Read the tagged fields at the end of a structure; answers the variables of those that are known."""
        count = self.fresh("t")
        self.fixed("B", count)
        self.flush()
        if not tagged:
            self.line(f"if {count}: p = skip(b, p - 1, n)")
            return {}
        values = {field.name: self.fresh("v") for field in tagged}
        for field in tagged:
            self.line(f"{values[field.name]} = {self.default(field)}")
        with self.block(f"if {count}:"):
            with self.block(f"if {count} > 127:"):
                self.line(f"{count}, p = varint(b, p - 1)")
            self.line(f"if {count} > {MAX_TAGGED_FIELDS} or {count} * 2 > n - p: check_tags({count}, n - p)")
            with self.block(f"for _ in range({count}):"):
                self.tagged_field(tagged, cls, values)
        return values

    def varint(self, name: str) -> None:
        """Read an unsigned varint, which nearly always is one byte."""
        self.line(f"{name} = b[p]")
        self.line("p += 1")
        self.line(f"if {name} > 127: {name}, p = varint(b, p - 1)")

    def tagged_field(self, tagged: list[Field], cls: type[Any], values: dict[str, str]) -> None:
        tag, end = self.fresh("g"), self.fresh("e")
        self.varint(tag)
        self.varint(end)
        self.line(f"{end} += p")
        self.line(f"if {end} > n: refuse('tagged field of {cls.__name__}')")
        for field in tagged:
            with self.block(f"{'if' if field is tagged[0] else 'elif'} {tag} == {field.tag}:"):
                value = self.field(field, cls)
                self.flush()
                self.line(f"{values[field.name]} = {value}")
        with self.block("else:"):
            self.line(f"p = {end}")
        self.line(f"if p != {end}: refuse('tagged field of {cls.__name__}')")
