"""`tidelog topics`, with the flags of kafka-topics."""

from collections.abc import Sequence
from typing import Any

import click

from tidelog.cli.options import (
    Pair,
    ParamType,
    at_most_one,
    check_applicable,
    check_required,
    cluster_options,
    flag,
    single_action,
)

ACTIONS = ("create", "list", "describe", "alter", "delete")
FILTERS = (
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "topics-with-overrides",
)
ACTIONS_OF_OPTION = {
    "partitions": ("create", "alter"),
    "replication-factor": ("create",),
    "replica-assignment": ("create", "alter"),
    "config": ("create",),
    "if-not-exists": ("create",),
    "if-exists": ("alter", "delete", "describe"),
    "exclude-internal": ("list", "describe"),
    "topic-id": ("describe",),
    "partition-size-limit-per-response": ("describe",),
    **dict.fromkeys(FILTERS, ("describe",)),
}
REQUIRED_OPTIONS = {"create": ("topic",), "alter": ("topic", "partitions"), "delete": ("topic",)}


class ReplicaAssignment(ParamType):
    """`0:1,1:2`: the brokers of each partition, partitions separated by commas."""

    name = "broker:broker,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[list[int]]:
        if isinstance(value, list):
            return value
        try:
            found = [[int(broker) for broker in replicas.split(":")] for replicas in str(value).split(",")]
        except ValueError:
            self.fail(
                f"{value!r} is not a replica assignment; expected BROKER:BROKER,… with a comma between partitions.",
                param,
                ctx,
            )
        for partition, replicas in enumerate(found):
            if len(set(replicas)) < len(replicas):
                self.fail(f"partition {partition} lists a broker twice: {replicas}.", param, ctx)
            if len(replicas) != len(found[0]):
                self.fail(f"partition {partition} and partition 0 differ in replication factor.", param, ctx)
        return found


@click.command()
@cluster_options
@flag("create", "Create a topic.")
@flag("list", "List topic names.")
@flag("describe", "Show partitions, leaders, replicas and options of topics.")
@flag("alter", "Add partitions to a topic.")
@flag("delete", "Delete topics.")
@click.option("--topic", help="Topic name; a regular expression except with --create.")
@click.option("--topic-id", help="ID of the topic to describe.")
@click.option("--partitions", type=click.IntRange(1), help="Number of partitions (default: the cluster's).")
@click.option(
    "--replication-factor",
    type=click.IntRange(1, 32767),
    help="Number of replicas per partition (default: the cluster's).",
)
@click.option("--replica-assignment", type=ReplicaAssignment(), help="Brokers of each partition, e.g. 0:1,1:2.")
@click.option("--config", type=Pair(), multiple=True, help="Option of the new topic; repeatable.")
@flag("if-exists", "Do nothing if the topic does not exist.")
@flag("if-not-exists", "Do nothing if the topic exists.")
@flag("exclude-internal", "Exclude internal topics.")
@flag("under-replicated-partitions", "Describe only partitions with an out-of-sync replica.")
@flag("unavailable-partitions", "Describe only partitions without a live leader.")
@flag("under-min-isr-partitions", "Describe only partitions with an ISR below min.insync.replicas.")
@flag("at-min-isr-partitions", "Describe only partitions with an ISR of exactly min.insync.replicas.")
@flag("topics-with-overrides", "Describe only topics with options set.")
@click.option(
    "--partition-size-limit-per-response",
    type=click.IntRange(1, 2000),
    help="Maximum number of partitions per response.",
)
def topics(**given: Any) -> None:
    """Create, list, describe, alter and delete topics, with the flags of kafka-topics."""
    action = single_action(given, ACTIONS)
    check_applicable(given, action, ACTIONS_OF_OPTION)
    check_required(given, action, _needed(given, action))
    at_most_one(given, FILTERS)
    if action == "create":
        at_most_one(given, ("replica-assignment", "partitions"))
        at_most_one(given, ("replica-assignment", "replication-factor"))
    from tidelog.cli import topic_actions
    from tidelog.cli.admin_requests import connect

    with connect(given["bootstrap_server"], given["command_config"]) as admin:
        topic_actions.RUN[action](admin, given)


def _needed(given: dict[str, Any], action: str) -> Sequence[str]:
    return () if action == "delete" and given["topic_id"] else REQUIRED_OPTIONS.get(action, ())
