"""The families of anomalies, one module each, and the anomaly that they yield."""

from typing import NamedTuple

from tidelog.check.history.operation import Header, Value


class Anomaly(NamedTuple):
    """`sentence` describes the anomaly; `lines` are the lines of the file that prove it."""

    kind: str
    sentence: str
    lines: tuple[int, ...]
    key: int | None = None
    offset: int | None = None
    values: tuple[Value, ...] = ()

    def text(self, header: Header) -> str:
        """The sentence with the partition and the evidence."""
        where = "" if self.key is None else f"{header.name(self.key)}: "
        lines = ", ".join(map(str, self.lines))
        return f"{where}{self.sentence} (line{'s' if len(self.lines) > 1 else ''} {lines})"
