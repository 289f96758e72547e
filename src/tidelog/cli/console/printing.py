"""Records to lines, by the properties of Kafka's DefaultMessageFormatter."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidelog.cli.console.options import check_known, is_true

PRINTED = ("timestamp", "partition", "offset", "epoch", "headers", "key", "value")
"""The parts of a line, in their order."""

PROPERTIES = (
    *(f"print.{part}" for part in PRINTED),
    "key.separator",
    "line.separator",
    "headers.separator",
    "null.literal",
)


@dataclass(frozen=True, slots=True)
class LineFormat:
    """`parts` of `PRINTED`, each followed by the separator, the last one by the end of the line."""

    parts: tuple[str, ...] = ("value",)
    separator: bytes = b"\t"
    line_end: bytes = b"\n"
    headers_separator: bytes = b","
    null: bytes = b"null"

    def line(self, record: Any) -> bytes:
        return self.separator.join(self._cells(record)) + self.line_end

    def _cells(self, record: Any) -> Iterator[bytes]:
        for part in self.parts:
            yield getattr(self, f"_{part}")(record)

    def _timestamp(self, record: Any) -> bytes:
        return f"{record.timestamp_type}:{record.timestamp}".encode() if record.timestamp >= 0 else b"NO_TIMESTAMP"

    def _partition(self, record: Any) -> bytes:
        return b"Partition:%d" % record.partition

    def _offset(self, record: Any) -> bytes:
        return b"Offset:%d" % record.offset

    def _epoch(self, record: Any) -> bytes:
        return b"Epoch:%d" % record.leader_epoch if record.leader_epoch >= 0 else b"Epoch:NOT_PRESENT"

    def _headers(self, record: Any) -> bytes:
        pairs = [name.encode() + b":" + self._or_null(value) for name, value in record.headers]
        return self.headers_separator.join(pairs) if pairs else b"NO_HEADERS"

    def _key(self, record: Any) -> bytes:
        return self._or_null(record.key)

    def _value(self, record: Any) -> bytes:
        return self._or_null(record.value)

    def _or_null(self, content: bytes | None) -> bytes:
        return self.null if content is None else bytes(content)


def line_format(given: Mapping[str, str]) -> LineFormat:
    """The format that the properties describe."""
    check_known(given, PROPERTIES, "--formatter-property")
    default = LineFormat()
    return LineFormat(
        parts=tuple(part for part in PRINTED if is_true(given, f"print.{part}", default=part == "value")),
        separator=given["key.separator"].encode() if "key.separator" in given else default.separator,
        line_end=given["line.separator"].encode() if "line.separator" in given else default.line_end,
        headers_separator=given["headers.separator"].encode() if "headers.separator" in given else b",",
        null=given["null.literal"].encode() if "null.literal" in given else default.null,
    )
