"""The commands of `tidelog explain`."""

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.acls import Operation, Principal
from tidelog.cli.options import CommandFailed, cluster_options, flag

if TYPE_CHECKING:
    from tidelog.cli.explain.evidence import Evidence
    from tidelog.cli.explain.finding import CommandLine, Finding
    from tidelog.model import TopicPartition

as_json = flag("json", "Print JSON.")
watch_ms = click.option(
    "--watch-ms",
    type=click.IntRange(0),
    default=1000,
    show_default=True,
    help="Time to watch sizes and offsets for rates, in milliseconds.",
)


@click.group()
def explain() -> None:
    """Diagnose the cluster and suggest commands that fix it."""


def _parse_partition(text: str) -> "TopicPartition":
    from tidelog.model import TopicPartition

    found = re.fullmatch(r"(.+)-(\d+)", text)
    if found is None:
        raise CommandFailed(f"{text!r} is not a partition; expected TOPIC-NUMBER, such as flights-0.")
    return TopicPartition(found[1], int(found[2]))


def _print_explanation(
    given: dict[str, Any],
    about: str,
    rules: "Callable[[Evidence, CommandLine], Iterable[Finding]]",
    wanted: Callable[[str], bool] = lambda _: True,
) -> None:
    from tidelog.cli.admin_requests import connect
    from tidelog.cli.explain.evidence_gathering import gather

    with connect(given["bootstrap_server"], given["command_config"]) as admin:
        evidence = gather(admin, wanted, watch_s=given["watch_ms"] / 1000)
    _print_findings(given, about, partial(rules, evidence))


def _print_findings(given: dict[str, Any], about: str, rules: "Callable[[CommandLine], Iterable[Finding]]") -> None:
    from tidelog.cli.explain.finding import command_line, print_findings

    complete = command_line(given["bootstrap_server"], given["command_config"])
    print_findings(list(rules(complete)), about, as_json=given["json"])


@explain.command()
@click.argument("name")
@cluster_options
@watch_ms
@as_json
def topic(name: str, **given: Any) -> None:
    """Diagnose a topic: partitions, a stuck deletion, or why it is missing."""
    from tidelog.cli.explain.cluster_rules import topic_findings

    _print_explanation(
        given,
        f"topic {name}",
        lambda evidence, tidelog: topic_findings(evidence, name, tidelog),
        lambda each: each == name,
    )


@explain.command()
@click.argument("name")
@cluster_options
@watch_ms
@as_json
def partition(name: str, **given: Any) -> None:
    """Diagnose the partition TOPIC-NUMBER."""
    wanted = _parse_partition(name)

    def rules(evidence: "Evidence", tidelog: "CommandLine") -> "Iterable[Finding]":
        from tidelog.cli.explain.cluster_rules import topic_findings
        from tidelog.cli.explain.partition_rules import partition_findings

        seen = evidence.partitions.get(wanted)
        if seen is not None:
            return partition_findings(evidence, seen, tidelog)
        if any(known.topic == wanted.topic for known in evidence.partitions):
            raise CommandFailed(f"Topic {wanted.topic} has no partition {wanted.partition}.")
        return topic_findings(evidence, wanted.topic, tidelog)

    _print_explanation(given, f"partition {name}", rules, lambda topic: topic == wanted.topic)


@explain.command()
@click.argument("number", type=int)
@cluster_options
@watch_ms
@as_json
def broker(number: int, **given: Any) -> None:
    """Diagnose a broker: whether it is up, its disks, and what it leads."""

    def rules(evidence: "Evidence", tidelog: "CommandLine") -> "Iterable[Finding]":
        from tidelog.cli.explain.cluster_rules import broker_findings

        if number not in evidence.brokers:
            known = ", ".join(map(str, sorted(evidence.brokers)))
            raise CommandFailed(f"Broker {number} does not exist; the brokers of the cluster are {known}.")
        return broker_findings(evidence, evidence.brokers[number], tidelog)

    _print_explanation(given, f"broker {number}", rules)


@explain.command()
@cluster_options
@watch_ms
@as_json
def cluster(**given: Any) -> None:
    """Diagnose everything: controller, brokers, deletions, partitions."""
    from tidelog.cli.explain.cluster_rules import all_findings

    _print_explanation(given, "cluster", all_findings)


@explain.command()
@click.argument("name")
@cluster_options
@watch_ms
@as_json
def group(name: str, **given: Any) -> None:
    """Diagnose a consumer group that makes no progress."""
    from tidelog.cli.admin_requests import connect
    from tidelog.cli.explain.evidence_gathering import gather
    from tidelog.cli.explain.group_rules import group_findings, observe_group

    with connect(given["bootstrap_server"], given["command_config"]) as admin:
        seen = observe_group(admin, name, given["watch_ms"] / 1000)
        topics = {position.partition.topic for position in seen.positions}
        evidence = gather(admin, topics.__contains__, watch_s=0)
    _print_findings(given, f"group {name}", partial(group_findings, evidence, seen))


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
    _print_findings(given, "access", partial(access_findings, bindings, asked, given["operation"]))
