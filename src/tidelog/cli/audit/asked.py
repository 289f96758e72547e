"""What `tidelog audit` is given besides a cluster: log folders, and a history of what was acknowledged."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.options import Refused

if TYPE_CHECKING:
    from tidelog.audit.core.acknowledged import Acknowledged
    from tidelog.audit.io.folders import LogFolder
    from tidelog.audit.io.plan import Plan
    from tidelog.model import TopicPartition

HISTORIES = "--history is for the history.jsonl of `tidelog check`, `tidelog chaos` or `tidelog lab run --logs`."


def acknowledged(history: Path | None) -> "Mapping[TopicPartition, Sequence[Acknowledged]]":
    if history is None:
        return {}
    from tidelog.check.history.text import NotAHistory, parse
    from tidelog.check.replicas import acknowledged_records

    try:
        with history.open(encoding="utf-8") as lines:
            return acknowledged_records(parse(lines))
    except (NotAHistory, UnicodeDecodeError) as reason:
        raise Refused(f"{history}: {reason}. {HISTORIES}") from None


def check_history(
    history: Path | None, wanted: "Iterable[TopicPartition]", found: "set[TopicPartition]", topics: Sequence[str]
) -> None:
    """A history of another cluster would find nothing lost."""
    lacking = sorted(str(name) for name in {*wanted} - found if not topics or name.topic in topics)
    if wanted and not {*wanted} & found:
        there = ", ".join(sorted(map(str, wanted))[:5])
        raise Refused(f"{history}: of its partitions ({there}) none is audited. Is it of another cluster? {HISTORIES}")
    if lacking:
        click.echo(f"audit: of the history's partitions {', '.join(lacking)} are not there to be audited", err=True)


def folders_at(given: Sequence[Path]) -> "list[LogFolder]":
    from tidelog.audit.io.folders import find

    try:
        return find(given)
    except FileNotFoundError as reason:
        raise Refused(f"{reason} Name what log.dirs of a broker names, or a folder that holds such.") from None
    except OSError as reason:
        raise Refused(str(reason)) from None


def planned(
    given: "Sequence[LogFolder]", compacted: Sequence[str], asked: Mapping[str, Any], topics: Sequence[str]
) -> "Plan":
    from tidelog.audit.io.plan import of_folders

    there = {name.topic for folder in given for name in folder.replicas}
    for topic in (*topics, *compacted):
        if topic not in there:
            told = ", ".join(sorted(there)) or "no topic"
            raise Refused(f"No replica of topic {topic} is in these folders; they hold {told}.")
    return of_folders(given, topics=topics, compacted=compacted, **asked)
