"""`tidelog consume`: reads records and prints them as lines."""

import re
import sys
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.console.record_formatters import DEFAULT, RecordToLine, formatter
from tidelog.cli.long_running import sigterm_as_interrupt
from tidelog.cli.options import (
    CommandFailed,
    Pair,
    ParamType,
    at_most_one,
    broker_options,
    client_options,
    flag,
    usage_error,
)

if TYPE_CHECKING:
    from tidelog.shell.transport import Consumer

POLL_S = 1.0
TOPIC_WAIT_S = 60.0
MIN_TOPIC_WAIT_S = 5.0
"""The time to wait for the topic to appear, and its minimum if --timeout-ms is shorter."""
MAX_POLL_RECORDS = 500
EARLIEST, LATEST = -2, -1
EXIT_INTERRUPTED = 130


class StartOffset(ParamType):
    """A number, or `earliest` or `latest`."""

    name = "offset"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        named = {"earliest": EARLIEST, "latest": LATEST}
        if isinstance(value, int):
            return value
        if value in named:
            return named[value]
        if not str(value).isdigit():
            self.fail(f"{value!r} is not valid; expected an offset of 0 or more, earliest or latest.", param, ctx)
        return int(value)


@click.command()
@broker_options
@click.option("--topic", help="Topic to read.")
@click.option("--include", help="Regular expression for topic names; reads all topics that match.")
@click.option("--group", help="Consumer group to join; offsets are committed.")
@click.option("--partition", type=click.IntRange(0), help="Partition to read, without a group (default: all).")
@click.option("--offset", type=StartOffset(), help="Start offset in the partition: a number, earliest or latest.")
@flag("from-beginning", "Start at the first record if the group has no committed offset.")
@click.option("--max-messages", type=click.IntRange(1), help="Stop after this many records.")
@click.option("--timeout-ms", type=click.IntRange(0), help="Stop after this many ms without a record.")
@click.option(
    "--isolation-level",
    type=click.Choice(("read_uncommitted", "read_committed")),
    help="Isolation level (default: read_uncommitted).",
)
@click.option("--key-separator", help="Separator between key and value; prints both.")
@flag("headers", "Print headers before key and value.")
@click.option(
    "--formatter",
    default=DEFAULT,
    metavar="CLASS",
    help="Kafka's formatter class; for internal topics OffsetsMessageFormatter, …",
)
@click.option("--formatter-property", "--property", "formatter_properties", type=Pair(strip=False), multiple=True,
              help="Property of the formatter: print.key, print.offset, key.separator, …")  # fmt: skip
@click.option("--command-property", "--consumer-property", "command_properties", type=Pair(), multiple=True,
              help="Consumer option; repeatable.")  # fmt: skip
@click.option("--command-config", "--consumer.config", "command_config", type=click.Path(exists=True, dir_okay=False),
              help="Properties file with consumer options.")  # fmt: skip
def consume(**given: Any) -> None:
    """Print records as lines until interrupted, with the flags of kafka-console-consumer.

    Without --group, all partitions are read from their end, and no offsets are committed.
    """
    _check_options(given)
    to_line = formatter(given["formatter"], _formatter_properties(given))
    flags = {
        "auto.offset.reset": "earliest" if given["from_beginning"] else None,
        "isolation.level": given["isolation_level"],
    }
    options = client_options(given["command_config"], given["command_properties"], flags)
    group = given["group"] or options.pop("group.id", None)
    from tidelog.cli.admin_requests import check_reachable
    from tidelog.cli.console.wait_notice import WaitNotice, clock_ms
    from tidelog.client.options import ConsumerOptions
    from tidelog.client.properties import keywords
    from tidelog.shell.transport import Consumer

    found = keywords(ConsumerOptions, {"client.id": "tidelog-consume", **options})
    del found["group_id"]  # passed to the consumer separately
    check_reachable(given["bootstrap_server"])
    with Consumer(given["bootstrap_server"], group, **found) as consumer:
        consumer.on_wait = WaitNotice(consumer.waits, clock_ms)
        _select_partitions(consumer, group, given)
        _print_records(consumer, to_line, given["max_messages"], given["timeout_ms"])


def _check_options(given: dict[str, Any]) -> None:
    if at_most_one(given, ("topic", "include")) is None:
        raise usage_error("--topic or --include is required.")
    at_most_one(given, ("partition", "group"))
    at_most_one(given, ("partition", "include"))
    at_most_one(given, ("offset", "from-beginning"))
    if given["offset"] is not None and given["partition"] is None:
        raise usage_error("--offset requires --partition.")
    if given["include"] is not None:
        try:
            re.compile(given["include"])
        except re.error as error:
            raise usage_error(f"--include: {given['include']!r} is not a valid regular expression: {error}.") from None


def _formatter_properties(given: dict[str, Any]) -> dict[str, str]:
    found = {"print.headers": "true"} if given["headers"] else {}
    if given["key_separator"] is not None:
        found |= {"print.key": "true", "key.separator": given["key_separator"]}
    return found | dict(given["formatter_properties"])


def _select_partitions(consumer: "Consumer", group: str | None, given: dict[str, Any]) -> None:
    """Subscribe the consumer, or assign partitions to it and seek to the start offset."""
    if group is not None:
        consumer.subscribe(given["include"] if given["topic"] is None else [given["topic"]])
        return
    topics = [given["topic"]] if given["topic"] is not None else _matching(given)
    wait_s = TOPIC_WAIT_S if given["timeout_ms"] is None else max(MIN_TOPIC_WAIT_S, given["timeout_ms"] / 1000)
    partitions = [partition for topic in topics for partition in consumer.partitions_of(topic, wait_s)]
    if given["partition"] is not None:
        partitions = [each for each in partitions if each.partition == given["partition"]]
        if not partitions:
            raise CommandFailed(f"Topic {given['topic']} has no partition {given['partition']}.")
    consumer.assign(partitions)
    offset = given["offset"]
    if given["from_beginning"] or offset == EARLIEST:
        consumer.seek_to_beginning(partitions)
    elif offset is None or offset == LATEST:
        consumer.seek_to_end(partitions)
    else:
        consumer.seek(partitions[0], offset)


def _matching(given: dict[str, Any]) -> list[str]:
    from tidelog.cli.admin_requests import connect, topic_names

    with connect(given["bootstrap_server"]) as admin:
        found = [name for name in sorted(topic_names(admin)) if re.fullmatch(given["include"], name)]
    if not found:
        raise CommandFailed(f"No topic matches {given['include']!r}.")
    return found


def _print_records(
    consumer: "Consumer", to_line: RecordToLine, max_messages: int | None, timeout_ms: int | None
) -> None:
    """Print records until --max-messages, --timeout-ms or an interrupt; then print how many there were."""
    count = 0
    interrupted = False
    wait_s = POLL_S if timeout_ms is None else timeout_ms / 1000
    try:
        with sigterm_as_interrupt():
            while max_messages is None or count < max_messages:
                left = MAX_POLL_RECORDS if max_messages is None else min(MAX_POLL_RECORDS, max_messages - count)
                records = consumer.poll(wait_s, left)
                if not records and timeout_ms is not None:
                    break
                sys.stdout.buffer.write(b"".join(map(to_line, records)))
                sys.stdout.buffer.flush()
                count += len(records)
    except KeyboardInterrupt:
        interrupted = True
    click.echo(f"Processed a total of {count} messages", err=True)
    if interrupted:
        click.get_current_context().exit(EXIT_INTERRUPTED)
