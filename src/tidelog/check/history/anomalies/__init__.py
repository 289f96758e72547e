"""The families of anomalies, one module each, and what each of them yields."""

from typing import NamedTuple

from tidelog.check.history.operation import Header, Value


class Anomaly(NamedTuple):
    """`sentence` says what is wrong; `lines` are those of the file that prove it."""

    kind: str
    sentence: str
    lines: tuple[int, ...]
    key: int | None = None
    offset: int | None = None
    values: tuple[Value, ...] = ()

    def text(self, header: Header) -> str:
        """One sentence with the place and the evidence."""
        place = "" if self.key is None else f"{header.name(self.key)}: "
        lines = ", ".join(map(str, self.lines))
        return f"{place}{self.sentence} (line{'s' if len(self.lines) > 1 else ''} {lines})"
