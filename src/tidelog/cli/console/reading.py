"""EventLogger to records, by the properties of Kafka's LineMessageReader."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.cli.console.options import check_known, is_true
from tidelog.cli.options import Refused, usage

PROPERTIES = (
    "parse.key",
    "key.separator",
    "parse.headers",
    "headers.delimiter",
    "headers.separator",
    "headers.key.separator",
    "null.marker",
    "ignore.error",
)


class Parsed(NamedTuple):
    """One line's record; None is null."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


@dataclass(frozen=True, slots=True)
class LineReader:
    """`headers<delimiter>key<separator>value`, each part only where it is asked for."""

    parse_key: bool = False
    key_separator: bytes = b"\t"
    parse_headers: bool = False
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    null_marker: bytes | None = None
    ignore_error: bool = False

    def parse(self, line: bytes, number: int) -> Parsed:
        """Refused where a separator is missing, unless errors are ignored: then the part is missing too."""
        headers, rest = self._split(self.parse_headers, line, self.headers_delimiter, "headers delimiter", number)
        key, value = self._split(self.parse_key, rest, self.key_separator, "key separator", number)
        pairs = self._pairs(headers, number) if self._or_null(headers) is not None else ()
        return Parsed(self._or_null(value), self._or_null(key), pairs)

    def _split(self, wanted: bool, line: bytes, separator: bytes, name: str, number: int) -> tuple[bytes | None, bytes]:
        if not wanted:
            return None, line
        first, found, rest = line.partition(separator)
        if found:
            return first, rest
        if self.ignore_error:
            return None, line
        raise Refused(f"No {name} found on line number {number}: {line.decode(errors='replace')!r}.")

    def _or_null(self, part: bytes | None) -> bytes | None:
        return None if part == self.null_marker else part

    def _pairs(self, headers: bytes | None, number: int) -> list[tuple[str, bytes | None]]:
        pairs: list[tuple[str, bytes | None]] = []
        for pair in (headers or b"").split(self.headers_separator):
            name, found, value = pair.partition(self.headers_key_separator)
            if not found and not self.ignore_error:
                shown = pair.decode(errors="replace")
                raise Refused(f"No header key separator found in pair {shown!r} on line number {number}.")
            pairs.append((name.decode(errors="replace"), self._or_null(value) if found else None))
        return pairs


def line_reader(given: Mapping[str, str]) -> LineReader:
    """The reader that the properties describe; UsageError where they contradict each other."""
    check_known(given, PROPERTIES, "--reader-property")
    reader = LineReader(
        parse_key=is_true(given, "parse.key"),
        parse_headers=is_true(given, "parse.headers"),
        ignore_error=is_true(given, "ignore.error"),
        null_marker=given["null.marker"].encode() if "null.marker" in given else None,
        **{
            name.replace(".", "_"): given[name].encode()
            for name in ("key.separator", "headers.delimiter", "headers.separator", "headers.key.separator")
            if name in given
        },
    )
    _check_different(reader)
    return reader


def _check_different(reader: LineReader) -> None:
    separators = {
        "headers.delimiter": reader.headers_delimiter,
        "headers.separator": reader.headers_separator,
        "headers.key.separator": reader.headers_key_separator,
    }
    seen: dict[bytes, str] = {}
    for name, separator in [*separators.items(), ("key.separator", reader.key_separator)]:
        if not separator:
            raise usage(f"{name} may not be empty.")
        if separator == reader.null_marker:
            raise usage(f"null.marker and {name} may not be equal.")
        if separator in seen and name != "key.separator":
            raise usage(f"{seen[separator]} and {name} may not be equal.")
        seen.setdefault(separator, name)
