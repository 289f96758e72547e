"""`tidelog offsets`, with the flags of kafka-get-offsets: prints `topic:partition:offset` for each partition."""

import re
from collections.abc import Callable
from typing import Any

import click

from tidelog.cli.options import CommandFailed, ParamType, cluster_options, flag, is_given, usage_error

TIMES = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
Matches = Callable[[str, int], bool]
_PATTERN = re.compile(r"(?P<topic>[^:]*)(?P<colon>:(?P<low>[0-9]*)(?P<dash>-(?P<high>[0-9]*))?)?")


class OffsetTime(ParamType):
    """A timestamp in milliseconds, or a name or number of `TIMES`."""

    name = "timestamp or name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if str(value) in TIMES:
            return TIMES[str(value)]
        try:
            timestamp = int(value)
        except ValueError:
            timestamp = min(TIMES.values()) - 1
        if timestamp < min(TIMES.values()):
            names = ", ".join(f"{name} ({number})" for name, number in TIMES.items())
            self.fail(f"{value!r} is not valid; expected a timestamp in milliseconds or one of {names}.", param, ctx)
        return timestamp


@click.command()
@cluster_options
@click.option("--topic", help="Regular expression for topic names (default: all topics).")
@click.option("--partitions", help="Partition numbers, e.g. 0,1,2 (default: all partitions).")
@click.option("--topic-partitions", help="Comma-separated patterns: name, name:0, name:2-, :0, name:0-3 (3 excluded).")
@click.option(
    "--time",
    "timestamp",
    type=OffsetTime(),
    default="latest",
    show_default=True,
    help="Time of the offset: a timestamp in milliseconds, or a name.",
)
@flag("exclude-internal-topics", "Exclude internal topics.")
def offsets(**given: Any) -> None:
    """Print partition offsets: first, last, or by timestamp, with the flags of kafka-get-offsets."""
    matches = _matcher(given)
    from tidelog.cli.admin_requests import connect, describe_error, list_offsets, metadata
    from tidelog.model import TopicPartition

    with connect(given["bootstrap_server"], given["command_config"]) as admin:
        wanted = {
            TopicPartition(topic.name or "", partition.partition_index): given["timestamp"]
            for topic in metadata(admin).topics
            if not (topic.is_internal and given["exclude_internal_topics"])
            for partition in topic.partitions
            if matches(topic.name or "", partition.partition_index)
        }
        if not wanted:
            raise CommandFailed("No partition matches the given filters.")
        found = list_offsets(admin, wanted)
    failed = False
    for name in sorted(found):
        listed = found[name]
        if listed.error:
            click.echo(f"Skipping {name}: {describe_error(listed.error)}", err=True)
            failed = True
        elif listed.offset >= 0:
            click.echo(f"{name.topic}:{name.partition}:{listed.offset}")
    if failed and all(listed.error for listed in found.values()):
        click.get_current_context().exit(1)


def _matcher(given: dict[str, Any]) -> Matches:
    if given["topic_partitions"] is not None:
        if is_given(given["topic"]) or is_given(given["partitions"]):
            raise usage_error("--topic-partitions cannot be used with --topic or --partitions.")
        patterns = [_parse_pattern(text.strip()) for text in given["topic_partitions"].split(",")]
        return lambda topic, partition: any(pattern(topic, partition) for pattern in patterns)
    pattern = _compile(given["topic"]) if given["topic"] else None
    wanted = _parse_partitions(given["partitions"]) if given["partitions"] else None

    def matches(topic: str, partition: int) -> bool:
        return (pattern is None or pattern.fullmatch(topic) is not None) and (wanted is None or partition in wanted)

    return matches


def _parse_partitions(text: str) -> set[int]:
    try:
        return {int(number) for number in text.split(",")}
    except ValueError:
        raise usage_error(f"--partitions: {text!r} is not a list of partition numbers; expected 0,1,2.") from None


def _compile(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise usage_error(f"{text!r} is not a valid regular expression: {error}.") from None


def _parse_pattern(text: str) -> Matches:
    """A function that matches one pattern of --topic-partitions; the end of a range is exclusive."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise usage_error(
            f"--topic-partitions: {text!r} is not a valid pattern; expected TOPIC:PARTITION or TOPIC:FROM-TO."
        )
    topic = _compile(match["topic"] or ".*")
    low = int(match["low"] or 0)
    high = None
    if match["dash"] and match["high"]:
        high = int(match["high"])
    elif match["low"] and not match["dash"]:
        high = low + 1

    def matches(name: str, partition: int) -> bool:
        return topic.fullmatch(name) is not None and partition >= low and (high is None or partition < high)

    return matches
