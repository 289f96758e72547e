"""Formatters of `tidelog consume`: records as lines, with the names and properties of Kafka's formatters."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidelog.cli.options import check_known, is_true, usage_error

PARTS = ("timestamp", "partition", "offset", "epoch", "headers", "key", "value")
"""The parts of a line, in order."""

PROPERTIES = (
    *(f"print.{part}" for part in PARTS),
    "key.separator",
    "line.separator",
    "headers.separator",
    "null.literal",
)

RecordToLine = Callable[[Any], bytes]
"""Formats a record; b"" if nothing is printed for it."""

DEFAULT = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
NOTHING = "org.apache.kafka.tools.consumer.NoOpMessageFormatter"
OFFSETS = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
GROUPS = "org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter"
TRANSACTIONS = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
OLDER_NAMES = {
    "kafka.tools.DefaultMessageFormatter": DEFAULT,
    "kafka.tools.NoOpMessageFormatter": NOTHING,
    "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter": OFFSETS,
    "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter": GROUPS,
    "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter": TRANSACTIONS,
}


@dataclass(frozen=True, slots=True)
class LineFormat:
    """Prints `parts`, a selection of `PARTS`, with the separator between them and the line end after the last."""

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
    """The format with these properties."""
    check_known(given, PROPERTIES, "--formatter-property")
    default = LineFormat()
    return LineFormat(
        parts=tuple(part for part in PARTS if is_true(given, f"print.{part}", default=part == "value")),
        separator=given["key.separator"].encode() if "key.separator" in given else default.separator,
        line_end=given["line.separator"].encode() if "line.separator" in given else default.line_end,
        headers_separator=given["headers.separator"].encode() if "headers.separator" in given else b",",
        null=given["null.literal"].encode() if "null.literal" in given else default.null,
    )


def formatter(name: str, properties: Mapping[str, str]) -> RecordToLine:
    """The formatter with this class name, full or without its package; UsageError if it is unknown."""
    wanted = OLDER_NAMES.get(name.strip(), name.strip())
    named = {each.rpartition(".")[2]: each for each in (DEFAULT, NOTHING, OFFSETS, GROUPS, TRANSACTIONS)}
    wanted = named.get(wanted, wanted)
    if wanted == DEFAULT:
        return line_format(properties).line
    check_known(properties, (), "--formatter-property of this formatter")
    if wanted == NOTHING:
        return lambda _record: b""
    if wanted not in named.values():
        raise usage_error(
            f"--formatter: {name!r} is unknown; expected one of {', '.join([*named.values(), *OLDER_NAMES])}."
        )
    return _json_lines(wanted)


def _json_lines(name: str) -> RecordToLine:
    from tidelog.cli import internal_records as internal

    formats, only = {
        OFFSETS: (internal.GROUP_TOPIC, internal.COMMITTED_OFFSETS),
        GROUPS: (internal.GROUP_TOPIC, internal.GROUP_METADATA),
        TRANSACTIONS: (internal.TRANSACTION_TOPIC, internal.TRANSACTIONS),
    }[name]

    def line(record: Any) -> bytes:
        if record.key is None:
            return b""
        found = internal.record_as_json(formats, record.key, record.value, only)
        return b"" if found is None else json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"

    return line
