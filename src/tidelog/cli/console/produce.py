"""`tidelog produce`: parses lines of standard input, by the properties of Kafka's LineMessageReader, and sends them."""

import os
import select
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tidelog.cli.options import (
    CommandFailed,
    Pair,
    broker_options,
    check_known,
    client_options,
    flag,
    is_true,
    usage_error,
)

if TYPE_CHECKING:
    from tidelog.client.results import Delivery
    from tidelog.shell.transport import Producer

CHUNK_BYTES = 1 << 16
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = ("0", "1", "-1", "all")

READER_PROPERTIES = (
    "parse.key",
    "key.separator",
    "parse.headers",
    "headers.delimiter",
    "headers.separator",
    "headers.key.separator",
    "null.marker",
    "ignore.error",
)


@click.command()
@broker_options
@click.option("--topic", required=True, help="Topic to send to.")
@click.option("--partition", type=click.IntRange(0), help="Partition to send to (default: chosen by the producer).")
@click.option("--key-separator", help="Separator of key and value in a line.")
@flag("headers", "Lines begin with headers, as h1:v1,h2:v2 and a tab.")
@click.option(
    "--acks", "--request-required-acks", type=click.Choice(ACKS), help="Required acknowledgements: all, 1 or 0."
)
@click.option(
    "--compression",
    "--compression-codec",
    type=click.Choice(CODECS),
    is_flag=False,
    flag_value="gzip",
    help="Compression codec.",
)
@click.option(
    "--linger-ms",
    "--timeout",
    "linger_ms",
    type=click.IntRange(0),
    help="Time to wait for more records in a batch, in ms.",
)
@click.option("--batch-size", type=click.IntRange(1), help="Maximum size of a batch, in bytes.")
@flag("sync", "Wait for each acknowledgement before sending the next record.")
@click.option("--reader-property", "--property", "reader_properties", type=Pair(strip=False), multiple=True,
              help="Property of the line reader: parse.key, key.separator, parse.headers, null.marker, …")  # fmt: skip
@click.option("--command-property", "--producer-property", "command_properties", type=Pair(), multiple=True,
              help="Producer option; repeatable.")  # fmt: skip
@click.option("--command-config", "--producer.config", "command_config", type=click.Path(exists=True, dir_okay=False),
              help="Properties file with producer options.")  # fmt: skip
def produce(**given: Any) -> None:
    """Send lines of standard input as records, with the flags of kafka-console-producer.

    The exit code is 1 if a record was not acknowledged.
    """
    reader = line_reader(_reader_properties(given))
    flags = {
        "acks": given["acks"],
        "compression.type": given["compression"],
        "linger.ms": given["linger_ms"],
        "batch.size": given["batch_size"],
    }
    options = client_options(given["command_config"], given["command_properties"], flags)
    from tidelog.cli.admin_requests import check_reachable
    from tidelog.cli.console.wait_notice import WaitNotice, clock_ms
    from tidelog.client.options import ProducerOptions
    from tidelog.client.properties import keywords
    from tidelog.shell.transport import Producer

    found = keywords(ProducerOptions, {"client.id": "tidelog-produce", **options})
    check_reachable(given["bootstrap_server"])
    with Producer(given["bootstrap_server"], **found) as producer:
        producer.on_wait = WaitNotice(producer.waits, clock_ms)
        failed = send_lines(producer, reader, given["topic"], given["partition"], sync=given["sync"])
    click.get_current_context().exit(1 if failed else 0)


def _reader_properties(given: dict[str, Any]) -> dict[str, str]:
    found = {"parse.headers": "true"} if given["headers"] else {}
    if given["key_separator"] is not None:
        found |= {"parse.key": "true", "key.separator": given["key_separator"]}
    return found | dict(given["reader_properties"])


def send_lines(producer: "Producer", reader: "LineReader", topic: str, partition: int | None, *, sync: bool) -> int:
    """Send every line, and return how many records failed.

    When the input pauses, the producer is flushed, so that a typed line is acknowledged before the next prompt.
    """
    failed = 0
    number = 0
    for lines, is_pause in chunks_of_lines():
        for line in lines:
            number += 1
            record = reader.parse(line, number)
            producer.send(topic, record.value, key=record.key, headers=record.headers, partition=partition)
            if sync:
                failed += _report_failures(producer.flush())
        failed += _report_failures(producer.flush() if is_pause else producer.deliveries())
    return failed + _report_failures(producer.flush())


def _report_failures(deliveries: "Iterable[Delivery]") -> int:
    """Print the failed records, a line for each partition and error; returns how many failed."""
    failed: dict[tuple[str, str], list[int]] = {}
    for delivery in deliveries:
        if not delivery.is_acknowledged:
            from tidelog.cli.admin_requests import describe_error

            where = f"{delivery.topic}-{delivery.partition}" if delivery.partition >= 0 else delivery.topic
            failed.setdefault((where, describe_error(delivery.error, delivery.message)), []).append(delivery.ticket)
    for (where, why), numbers in failed.items():
        click.echo(f"{_record_numbers(numbers)} for {where}: {why}", err=True)
    return sum(map(len, failed.values()))


def _record_numbers(numbers: list[int]) -> str:
    """Numbers of input lines as `Record 4` or `Records 4-6, 9`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    listed = ", ".join("-".join(map(str, run)) for run in runs)
    return f"Record{'s' if len(numbers) > 1 else ''} {listed}"


def chunks_of_lines() -> Iterator[tuple[list[bytes], bool]]:
    """Yield lines of standard input as they arrive, and whether the input pauses; the last may have no newline."""
    source = sys.stdin.fileno()
    is_terminal = sys.stdin.isatty()
    rest = b""
    while True:
        if is_terminal:
            click.echo(">", nl=False)
        chunk = os.read(source, CHUNK_BYTES)
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        yield [line.removesuffix(b"\r") for line in lines], not select.select([source], [], [], 0)[0]
    if rest:
        yield [rest], True


class ParsedLine(NamedTuple):
    """The record of one line; None means null."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


@dataclass(frozen=True, slots=True)
class LineReader:
    """Parses `headers<delimiter>key<separator>value`; headers and key only if their parsing is enabled."""

    parse_key: bool = False
    key_separator: bytes = b"\t"
    parse_headers: bool = False
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    null_marker: bytes | None = None
    ignore_error: bool = False

    def parse(self, line: bytes, number: int) -> ParsedLine:
        """Parse a line; CommandFailed if a separator is missing, unless errors are ignored: then that part is null."""
        headers, rest = self._split(self.parse_headers, line, self.headers_delimiter, "headers delimiter", number)
        key, value = self._split(self.parse_key, rest, self.key_separator, "key separator", number)
        pairs = self._pairs(headers, number) if self._or_null(headers) is not None else ()
        return ParsedLine(self._or_null(value), self._or_null(key), pairs)

    def _split(
        self, is_expected: bool, line: bytes, separator: bytes, name: str, number: int
    ) -> tuple[bytes | None, bytes]:
        if not is_expected:
            return None, line
        first, found, rest = line.partition(separator)
        if found:
            return first, rest
        if self.ignore_error:
            return None, line
        raise CommandFailed(f"No {name} found on line number {number}: {line.decode(errors='replace')!r}.")

    def _or_null(self, part: bytes | None) -> bytes | None:
        return None if part == self.null_marker else part

    def _pairs(self, headers: bytes | None, number: int) -> list[tuple[str, bytes | None]]:
        pairs: list[tuple[str, bytes | None]] = []
        for pair in (headers or b"").split(self.headers_separator):
            name, found, value = pair.partition(self.headers_key_separator)
            if not found and not self.ignore_error:
                shown = pair.decode(errors="replace")
                raise CommandFailed(f"No header key separator found in pair {shown!r} on line number {number}.")
            pairs.append((name.decode(errors="replace"), self._or_null(value) if found else None))
        return pairs


def line_reader(given: Mapping[str, str]) -> LineReader:
    """The reader with these properties; UsageError if they conflict."""
    check_known(given, READER_PROPERTIES, "--reader-property")
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
            raise usage_error(f"{name} must not be empty.")
        if separator == reader.null_marker:
            raise usage_error(f"null.marker and {name} must differ.")
        if separator in seen and name != "key.separator":
            raise usage_error(f"{seen[separator]} and {name} must differ.")
        seen.setdefault(separator, name)
