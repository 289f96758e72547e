"""The commands of `tidelog explain`."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.acls import Operation, Principal
from tidelog.cli.options import CommandFailed, cluster_options, flag

if TYPE_CHECKING:
    from tidelog.explain.core.evidence import Evidence
    from tidelog.explain.core.finding import Finding, Subject
    from tidelog.model import TopicPartition
    from tidelog.shell.transport import Admin

EXIT_PROBLEMS, EXIT_UNANSWERED = 2, 3
EXIT_HELP = "Exit status: 0 no problems, 1 usage, 2 problems found, 3 brokers could not be asked."

SETUP_MS = 3_000
"""How long a connection to a broker may take: less than its request, so that another one can be asked."""

as_json = flag("json", "Print JSON.")


def diagnosis_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of the cluster, `--watch-ms`, `--patience-ms` and `--json`."""
    watch_ms = click.option(
        "--watch-ms",
        type=click.IntRange(0),
        default=1000,
        show_default=True,
        help="Sampling time for rates, in milliseconds.",
    )
    patience_ms = click.option(
        "--patience-ms",
        type=click.IntRange(0),
        default=15_000,
        show_default=True,
        help="Time without a commit before a group is reported, in milliseconds.",
    )
    return cluster_options(watch_ms(patience_ms(as_json(command))))


class Unanswered(CommandFailed):
    """The brokers could not be asked."""

    exit_code = EXIT_UNANSWERED


@click.group(epilog=EXIT_HELP)
def explain() -> None:
    """Diagnose the cluster and suggest commands that fix it."""


def _parse_partition(text: str) -> "TopicPartition":
    from tidelog.model import TopicPartition

    found = re.fullmatch(r"(.+)-(\d+)", text)
    if found is None:
        raise CommandFailed(f"{text!r} is not a partition; expected TOPIC-NUMBER, such as flights-0.")
    return TopicPartition(found[1], int(found[2]))


def _finish(given: dict[str, Any], subject: "Subject", evidence: "Evidence") -> int:
    """Print the diagnosis; the exit status."""
    from tidelog.explain.core.diagnosis import diagnose

    found = diagnose(evidence, subject)
    _print_findings(given, str(subject), found, evidence.unanswered)
    if any(finding.is_problem for finding in found):
        return EXIT_PROBLEMS
    return EXIT_UNANSWERED if evidence.unanswered else 0


def _print_findings(
    given: dict[str, Any], about: str, findings: "Iterable[Finding]", unanswered: Sequence[str] = ()
) -> None:
    from tidelog.cli.explain.printing import print_findings
    from tidelog.explain.core.commands import command_line

    complete = command_line(given["bootstrap_server"], given["command_config"])
    print_findings(list(findings), about, complete, as_json=given["json"], unanswered=unanswered)


def _gathered(given: dict[str, Any], topic: str | None = None, *, groups: bool = False) -> "Evidence":
    """The evidence about the cluster, with the partitions of one topic or of all."""
    from tidelog.explain.io import PATIENCE_MS, cluster_evidence

    with _connected(given) as admin:
        return cluster_evidence(
            admin,
            (lambda _: True) if topic is None else (lambda each: each == topic),
            topics=None if topic is None else [topic],
            watch_ms=given["watch_ms"],
            patience_ms=min(PATIENCE_MS, given["patience_ms"]),
            group_patience_ms=given["patience_ms"] if groups else None,
        )


@contextmanager
def _connected(given: dict[str, Any]) -> "Iterator[Admin]":
    """An admin client; Unanswered if no broker is reachable or answers."""
    from tidelog.cli.admin_requests import check_reachable, connect, describe_error
    from tidelog.errors import ApiError

    try:
        check_reachable(given["bootstrap_server"])
    except CommandFailed as failed:
        raise Unanswered(failed.message) from None
    try:
        with connect(given["bootstrap_server"], given["command_config"], setup_ms=SETUP_MS) as admin:
            yield admin
    except ApiError as error:
        raise Unanswered(describe_error(error.code, error.message)) from None


@explain.command()
@click.argument("name")
@diagnosis_options
def topic(name: str, **given: Any) -> int:
    """Diagnose a topic, its partitions and deletion."""
    from tidelog.explain.core.finding import Subject

    return _finish(given, Subject("topic", name), _gathered(given, name))


@explain.command()
@click.argument("name")
@diagnosis_options
def partition(name: str, **given: Any) -> int:
    """Diagnose the partition TOPIC-NUMBER."""
    from tidelog.explain.core.finding import Subject

    wanted = _parse_partition(name)
    evidence = _gathered(given, wanted.topic)
    if evidence.partitions and wanted not in evidence.partitions:
        raise CommandFailed(f"Topic {wanted.topic} has no partition {wanted.partition}.")
    return _finish(given, Subject("partition", str(wanted)), evidence)


@explain.command()
@click.argument("number", type=int)
@diagnosis_options
def broker(number: int, **given: Any) -> int:
    """Diagnose a broker, its disks and what it leads."""
    from tidelog.explain.core.finding import Subject

    evidence = _gathered(given)
    if number not in evidence.brokers:
        known = ", ".join(map(str, sorted(evidence.brokers)))
        raise CommandFailed(f"Broker {number} does not exist; the brokers of the cluster are {known}.")
    return _finish(given, Subject("broker", str(number)), evidence)


@explain.command()
@diagnosis_options
def cluster(**given: Any) -> int:
    """Diagnose the whole cluster."""
    from tidelog.explain.core.finding import CLUSTER

    return _finish(given, CLUSTER, _gathered(given, groups=True))


@explain.command()
@click.argument("name")
@diagnosis_options
def group(name: str, **given: Any) -> int:
    """Diagnose a consumer group that makes no progress."""
    from tidelog.explain.core.finding import Subject
    from tidelog.explain.io import group_evidence

    with _connected(given) as admin:
        evidence = group_evidence(admin, name, watch_ms=given["watch_ms"], patience_ms=given["patience_ms"])
    subject = Subject("group", name)
    if name not in evidence.groups and name not in evidence.silent_groups:
        raise CommandFailed(f"Group {name} not found (GROUP_ID_NOT_FOUND).")
    return _finish(given, subject, evidence)


@explain.command()
@click.argument("name")
@cluster_options
@as_json
def timeline(name: str, **given: Any) -> None:
    """Print the history of partition TOPIC-NUMBER.

    Shows elections, ISR changes, high watermarks and truncations, from the event logs of all brokers.
    """
    import json

    from tidelog.cli.admin_requests import connect
    from tidelog.cli.explain.partition_timeline import event_lines, partition_events

    wanted = _parse_partition(name)
    with connect(given["bootstrap_server"], given["command_config"]) as admin:
        events, dropped = partition_events(admin, str(wanted))
    if given["json"]:
        click.echo(json.dumps([event._asdict() for event in events], indent=2))
        return
    for broker_id, count in dropped.items():
        if count:
            click.echo(f"Broker {broker_id} has dropped its oldest {count} events.", err=True)
    if not events:
        raise CommandFailed(
            f"No broker has events of {wanted}. Brokers keep events in memory, so a restart clears them."
        )
    for line in event_lines(events):
        click.echo(line)


@explain.command()
@click.option("--principal", type=Principal(), required=True, help="Principal, such as User:alice.")
@click.option("--host", default="*", help="Address of its client (default: one that no ACL names).")
@click.option("--topic", multiple=True, help="Topic. Repeatable, as are all resources.")
@click.option("--group", multiple=True, help="Consumer group.")
@click.option("--transactional-id", multiple=True, help="Transactional ID.")
@flag("cluster", "The cluster.")
@click.option(
    "--operation", type=Operation(), multiple=True, help="Operation, such as Read (default: all). Repeatable."
)
@cluster_options
@as_json
def access(**given: Any) -> None:
    """Show what a principal may do, and which ACL decides."""
    from tidelog.cli.acl_actions import described
    from tidelog.cli.admin_requests import connect
    from tidelog.cli.explain.access_rules import access_findings, questions

    asked = questions(given)
    with connect(given["bootstrap_server"], given["command_config"]) as admin:
        bindings = described(admin)
    _print_findings(given, "access", access_findings(bindings, asked, given["operation"]))
