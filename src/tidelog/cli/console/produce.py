"""`tidelog produce`: the lines of standard input as records."""

import os
import select
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.console.options import client_options
from tidelog.cli.console.reading import line_reader
from tidelog.cli.options import Pair, broker_options, flag

if TYPE_CHECKING:
    from tidelog.cli.console.reading import LineReader
    from tidelog.client.results import Delivery
    from tidelog.shell.transport import Producer

CHUNK_BYTES = 1 << 16
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = ("0", "1", "-1", "all")


@click.command()
@broker_options
@click.option("--topic", required=True, help="The topic to send to.")
@click.option("--partition", type=click.IntRange(0), help="The partition; the producer's choice if left out.")
@click.option("--key-separator", help="EventLogger are KEY<separator>VALUE.")
@flag("headers", "EventLogger begin with headers, as h1:v1,h2:v2 and a tab.")
@click.option("--acks", "--request-required-acks", type=click.Choice(ACKS), help="Who must have a record: all, 1 or 0.")
@click.option(
    "--compression", "--compression-codec", type=click.Choice(CODECS), is_flag=False, flag_value="gzip", help="Codec."
)
@click.option("--linger-ms", "--timeout", "linger_ms", type=click.IntRange(0), help="How long a batch may gather.")
@click.option("--batch-size", type=click.IntRange(1), help="How many bytes a batch gathers.")
@flag("sync", "Wait for each record before the next is sent.")
@click.option("--reader-property", "--property", "reader_properties", type=Pair(strip=False), multiple=True,
              help="How lines are read: parse.key, key.separator, parse.headers, null.marker, …")  # fmt: skip
@click.option("--command-property", "--producer-property", "command_properties", type=Pair(), multiple=True,
              help="An option of the producer.")  # fmt: skip
@click.option("--command-config", "--producer.config", "command_config", type=click.Path(exists=True, dir_okay=False),
              help="A properties file with options of the producer.")  # fmt: skip
def produce(**given: Any) -> None:
    """Send the lines of standard input as records, with the flags of kafka-console-producer.

    The exit code is 1 where a record was not acknowledged.
    """
    reader = line_reader(_reader_properties(given))
    flags = {
        "acks": given["acks"],
        "compression.type": given["compression"],
        "linger.ms": given["linger_ms"],
        "batch.size": given["batch_size"],
    }
    options = client_options(given["command_config"], given["command_properties"], flags)
    from tidelog.cli.cluster import check_reachable, keywords
    from tidelog.client.options import ProducerOptions
    from tidelog.shell.transport import Producer

    found = keywords(ProducerOptions, {"client.id": "tidelog-produce", **options})
    check_reachable(given["bootstrap_server"])
    with Producer(given["bootstrap_server"], **found) as producer:
        failed = send_lines(producer, reader, given["topic"], given["partition"], sync=given["sync"])
    click.get_current_context().exit(1 if failed else 0)


def _reader_properties(given: dict[str, Any]) -> dict[str, str]:
    found = {"parse.headers": "true"} if given["headers"] else {}
    if given["key_separator"] is not None:
        found |= {"parse.key": "true", "key.separator": given["key_separator"]}
    return found | dict(given["reader_properties"])


def send_lines(producer: "Producer", reader: "LineReader", topic: str, partition: int | None, *, sync: bool) -> int:
    """Send every line; how many records failed. Whenever the input pauses, what was sent is waited for."""
    failed = 0
    number = 0
    for lines, is_pause in chunks_of_lines():
        for line in lines:
            number += 1
            record = reader.parse(line, number)
            producer.send(topic, record.value, key=record.key, headers=record.headers, partition=partition)
            if sync:
                failed += _report(producer.flush())
        failed += _report(producer.flush() if is_pause else producer.deliveries())
    return failed + _report(producer.flush())


def _report(deliveries: "Iterable[Delivery]") -> int:
    """Say which records failed, a line for each partition and reason; how many."""
    failed: dict[tuple[str, str], list[int]] = {}
    for delivery in deliveries:
        if not delivery.is_acknowledged:
            from tidelog.cli.cluster import reason

            where = f"{delivery.topic}-{delivery.partition}" if delivery.partition >= 0 else delivery.topic
            failed.setdefault((where, reason(delivery.error, delivery.message)), []).append(delivery.ticket)
    for (where, why), numbers in failed.items():
        click.echo(f"{_named(numbers)} for {where}: {why}", err=True)
    return sum(map(len, failed.values()))


def _named(numbers: list[int]) -> str:
    """`Record 4`, or `Records 4-6, 9`: the lines of the input that were not taken."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    listed = ", ".join("-".join(map(str, run)) for run in runs)
    return f"Record{'s' if len(numbers) > 1 else ''} {listed}"


def chunks_of_lines() -> Iterator[tuple[list[bytes], bool]]:
    """The lines of standard input as they come, and whether nothing more is there yet. The last may lack its end."""
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
