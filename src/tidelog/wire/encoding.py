"""Compiles the encoder of one message in one version: a straight-line function that appends to a bytearray.

    compiled(x, w, parts) -> w

`x` is the message, `w` the bytearray being filled. Records that are a slice of a file, or too long to be worth a copy,
are not copied: the bytearray so far and the records become entries of `parts`, and a new bytearray goes on. Fields that
the version does not have are left out. A value that cannot be encoded is a fault of the caller: struct.error,
AttributeError or TypeError. An encoder in steps is a generator of the same lines that yields after each `STEP` entries
of arrays.
"""

from collections.abc import Callable, Sequence
from struct import Struct, pack
from typing import Any

from tidelog.effects import FileSlice, Part
from tidelog.wire.message import Field, Kind, Records, fields, string
from tidelog.wire.primitives import uvarint
from tidelog.wire.source import STEP, Source

COPIED_BELOW = 8192
"""Records of fewer bytes are copied beside their neighbours: one more part would cost more than the copy."""

_INT32 = Struct(">i")
_BYTES = (bytes, bytearray, memoryview)
_PIECE = (FileSlice, *_BYTES)
_ZERO = ("x", "")
"""A pad byte of `struct`: the count of tagged fields where there are none."""


def compile_encoder(cls: type[Any], version: int, *, flexible: bool, in_steps: bool = False) -> Callable[..., Any]:
    source = _Encoder("x, w, parts", version, flexible=flexible)
    source.in_steps = in_steps
    source.scope.update(varint=uvarint, pack=pack, put_records=put_records)
    if in_steps:
        source.line("step = 0")
    source.structure("x", cls)
    source.flush()
    source.line("return w")
    if in_steps:
        source.line("yield")  # never reached where nothing repeats, and a generator all the same
    return source.function()


def put_records(records: Records, w: bytearray, parts: list[Part], flexible: bool) -> bytearray:
    """Append a length and the records to `w`, or to `parts`; answers the bytearray that goes on."""
    if records is None:
        w += b"\x00" if flexible else b"\xff\xff\xff\xff"
        return w
    pieces: Sequence[Part] = (records,) if isinstance(records, _PIECE) else records
    size = part_size(pieces[0]) if len(pieces) == 1 else sum(map(part_size, pieces))
    w += uvarint(size + 1) if flexible else _INT32.pack(size)
    for piece in pieces:
        if isinstance(piece, _BYTES) and len(piece) < COPIED_BELOW:
            w += piece
        elif part_size(piece):
            parts.append(w)
            parts.append(piece)
            w = bytearray()
    return w


def part_size(part: Part) -> int:
    """Bytes that a part will be on the wire."""
    return part.length if isinstance(part, FileSlice) else len(part)


class _Encoder(Source):
    in_steps = False

    def fixed(self, code: str, value: str) -> None:
        self.run.append((code, value))

    def flush(self) -> None:
        """Write the fixed-size fields that have gathered."""
        if self.run:
            is_zero = self.run == [_ZERO]
            self.line("w.append(0)" if is_zero else f"w += {self.packed(self.run)}")
            self.run = []

    def packed(self, run: list[tuple[str, str]]) -> str:
        codes = "".join(code for code, _ in run)
        return f"{self.packer(codes, 'pack')}({', '.join(value for code, value in run if code != 'x')})"

    def varint(self, value: str) -> None:
        """Write an unsigned varint, together with the run in the common case that it is one byte."""
        run, self.run = self.run, []
        with self.block(f"if {value} < 128:"):
            self.line(f"w += {self.packed([*run, ('B', value)])}" if run else f"w.append({value})")
        with self.block("else:"):
            if run:
                self.line(f"w += {self.packed(run)}")
            self.line(f"w += varint({value})")

    def structure(self, name: str, cls: type[Any]) -> None:
        plain, tagged = self.fields(cls)
        for field in plain:
            self.field(f"{name}.{field.name}", field)
        if self.flexible:
            self.tagged_fields(name, tagged)

    def field(self, value: str, field: Field) -> None:
        nullable = self.is_nullable(field)
        if field.kind.code:
            self.fixed(field.kind.code, value)
        elif field.kind.name == "array":
            self.array(value, field.element, nullable=nullable)
        elif field.kind.name == "struct":
            self.nested(value, field, nullable=nullable)
        elif field.kind.name == "records":
            self.flush()
            self.line(f"w = put_records({value}, w, parts, {self.flexible})")
        else:
            self.text(value, field.kind, nullable=nullable)

    def nested(self, value: str, field: Field, *, nullable: bool) -> None:
        name = self.fresh("x")
        self.line(f"{name} = {value}")
        if not nullable:
            self.structure(name, field.element)
            return
        self.flush()
        with self.block(f"if {name} is None:"):
            self.line(f"w.append({255 if field.tag is None else 0})")  # a tagged one counts its presence
        with self.block("else:"):
            self.fixed("B", "1")
            self.structure(name, field.element)
            self.flush()

    def sized(self, value: str, null: str, encoded: str, *, nullable: bool, code: str) -> str:
        """Write the length of a value; answers the variable that holds what follows it."""
        name, size = self.fresh("v"), self.fresh("l")
        more = " + 1" if self.flexible else ""
        if nullable:
            self.line(f"{name} = {value}")
            with self.block(f"if {name} is None:"):
                self.line(f"{name} = {null}; {size} = {0 if self.flexible else -1}")
            with self.block("else:"):
                if encoded:
                    self.line(f"{name} = {name}{encoded}")
                self.line(f"{size} = len({name}){more}")
        else:
            self.line(f"{name} = {value}{encoded}")
            self.line(f"{size} = len({name}){more}")
        if self.flexible:
            self.varint(size)
        else:
            self.fixed(code, size)
        return name

    def text(self, value: str, kind: Kind, *, nullable: bool) -> None:
        is_text = kind is string
        encoded = ".encode()" if is_text else ""
        name = self.sized(value, "b''", encoded, nullable=nullable, code="h" if is_text else "i")
        self.flush()
        self.line(f"w += {name}")

    def array(self, value: str, element: Any, *, nullable: bool) -> None:
        name = self.sized(value, "()", "", nullable=nullable, code="i")
        self.flush()
        if isinstance(element, Kind) and element.code:
            self.fixed_elements(name, element)
            return
        item = self.fresh("x")
        with self.block(f"for {item} in {name}:"):
            if isinstance(element, Kind):
                self.text(item, element, nullable=False)
            else:
                self.structure(item, element)
            self.flush()
            self.line("pass")
            if self.in_steps:
                self.line("step += 1")
                self.line(f"if not step % {STEP}: yield")

    def fixed_elements(self, name: str, element: Kind) -> None:
        if len(element.code) > 1:
            self.line(f"w += b''.join({name})")
        else:
            self.line(f'if {name}: w += pack(f">{{len({name})}}{element.code}", *{name})')

    def tagged_fields(self, name: str, tagged: list[Field]) -> None:
        """Write the tagged fields whose values are not their defaults."""
        conditions = [self.differs(f"{name}.{field.name}", field) for field in tagged]
        if not tagged:
            self.run.append(_ZERO)
            return
        self.flush()
        with self.block(f"if {' or '.join(conditions)}:"):
            outer, count = self.fresh("w"), self.fresh("c")
            self.line(f"{outer} = w; {count} = 0; {outer}t = bytearray()")
            for field, condition in zip(tagged, conditions, strict=True):
                with self.block(f"if {condition}:"):
                    self.line(f"w = bytearray(); {count} += 1")
                    self.field(f"{name}.{field.name}", field)
                    self.flush()
                    tag, size = self.constant(uvarint(field.tag or 0), "t"), f"{count}s"
                    self.line(f"{size} = len(w); {outer}t += {tag}")
                    self.line(f"if {size} < 128: {outer}t.append({size})")
                    self.line(f"else: {outer}t += varint({size})")
                    self.line(f"{outer}t += w")
            self.line(f"w = {outer}; w.append({count}); w += {outer}t")
        with self.block("else:"):
            self.line("w.append(0)")

    def differs(self, value: str, field: Field) -> str:
        """An expression that is true where the value is not the default."""
        if field.default is None:
            return f"{value} is not None"
        if field.default is list:
            return f"{value} is None or {value}" if self.is_nullable(field) else f"{value}"
        if isinstance(field.default, type):
            inner = " or ".join(self.differs(f"{value}.{each.name}", each) for each in fields(field.default))
            return f"({value} is None or {inner})" if self.is_nullable(field) else f"({inner})"
        return f"{value} != {field.default!r}"
