"""Writing Python source line by line: what the compilers of encoders and decoders share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any

from tidelog.wire.message import Field, Kind, fields, string, versions_of

STEP = 256
"""Entries of arrays between two yields of a decoder or encoder in steps: less than a millisecond of work."""


class Source:
    """The source of one function, with the constants that it refers to. Fields of fixed size gather in `run`, and
    become one call of a `struct` when something else follows."""

    def __init__(self, signature: str, version: int, *, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.scope: dict[str, Any] = {}
        self.run: list[tuple[str, str]] = []
        self._lines = [f"def compiled({signature}):"]
        self._indent = 1
        self._names = 0

    def line(self, text: str) -> None:
        self._lines.append("  " * self._indent + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.line(opening)
        self._indent += 1
        yield
        self._indent -= 1

    def fresh(self, stem: str) -> str:
        """A new local name."""
        self._names += 1
        return f"{stem}{self._names}"

    def constant(self, value: Any, stem: str) -> str:
        """A name for the value in the function's globals; the same value gets the same name."""
        for name, known in self.scope.items():
            if known is value:
                return name
        name = self.fresh(stem)
        self.scope[name] = value
        return name

    def packer(self, codes: str, method: str) -> str:
        """A name for the bound method of the `struct` of these codes."""
        name = method + "".join(code if code.isalnum() else "O" for code in codes)
        self.scope.setdefault(name, getattr(Struct(">" + codes), method))
        return name

    def function(self) -> Callable[..., Any]:
        exec("\n".join(self._lines), self.scope)  # noqa: S102 - made of the declarations in this package only
        compiled: Callable[..., Any] = self.scope["compiled"]
        return compiled

    def fields(self, cls: type[Any]) -> tuple[list[Field], list[Field]]:
        """The fields that the version has: the plain ones in order, the tagged ones by tag."""
        present = [field for field in fields(cls) if self.version in versions_of(field.versions)]
        tagged = sorted((field for field in present if field.tag is not None), key=lambda field: field.tag or 0)
        return [field for field in present if field.tag is None], tagged

    def is_nullable(self, field: Field) -> bool:
        return self.version in versions_of(field.nullable)

    def minimal_size(self, cls: type[Any]) -> int:
        """The fewest bytes that a structure can take."""
        plain, _ = self.fields(cls)
        return max(1, sum(self._minimal_field(field) for field in plain) + self.flexible)

    def _minimal_field(self, field: Field) -> int:
        if field.kind.code:
            return size_of(field.kind)
        if field.kind.name == "struct":
            return 1 if self.is_nullable(field) else self.minimal_size(field.element)
        return 1 if self.flexible else 2 if field.kind is string else 4


def size_of(kind: Kind) -> int:
    """Bytes of a kind of fixed size."""
    return Struct(">" + kind.code).size
