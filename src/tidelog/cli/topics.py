"""`tidelog topics`: the flags of kafka-topics."""

import re
from collections.abc import Sequence
from typing import Any

import click

from tidelog.cli.options import (
    Pair,
    ParamType,
    Refused,
    at_most_one,
    check_belongs,
    check_needed,
    cluster_options,
    flag,
    one_action,
)

ACTIONS = ("create", "list", "describe", "alter", "delete")
FILTERS = (
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "topics-with-overrides",
)
BELONGS = {
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
NEEDED = {"create": ("topic",), "alter": ("topic", "partitions"), "delete": ("topic",)}


class Assignment(ParamType):
    """`0:1,1:2`: the brokers of each partition, partitions separated by commas."""

    name = "broker:broker,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[list[int]]:
        if isinstance(value, list):
            return value
        try:
            found = [[int(broker) for broker in replicas.split(":")] for replicas in str(value).split(",")]
        except ValueError:
            self.fail(f"{value!r} is not broker ids separated by ':' and partitions separated by ','.", param, ctx)
        for partition, replicas in enumerate(found):
            if len(set(replicas)) < len(replicas):
                self.fail(f"partition {partition} names a broker twice: {replicas}.", param, ctx)
            if len(replicas) != len(found[0]):
                self.fail(f"partition {partition} has another replication factor than partition 0.", param, ctx)
        return found


@click.command()
@cluster_options
@flag("create", "Create a topic.")
@flag("list", "List the names of topics.")
@flag("describe", "Show partitions, leaders, replicas and options of topics.")
@flag("alter", "Add partitions to a topic.")
@flag("delete", "Delete topics.")
@click.option("--topic", help="The topic; for all but --create also a regular expression.")
@click.option("--topic-id", help="The id of the topic to describe.")
@click.option("--partitions", type=click.IntRange(1), help="How many partitions; the cluster's default if left out.")
@click.option("--replication-factor", type=click.IntRange(1, 32767), help="How many replicas of each partition.")
@click.option("--replica-assignment", type=Assignment(), help="The brokers of each partition, as 0:1,1:2.")
@click.option("--config", type=Pair(), multiple=True, help="An option of the topic to create.")
@flag("if-exists", "Do nothing, successfully, where the topic does not exist.")
@flag("if-not-exists", "Do nothing, successfully, where the topic exists.")
@flag("exclude-internal", "Leave out internal topics.")
@flag("under-replicated-partitions", "Describe only partitions with a replica that is not in sync.")
@flag("unavailable-partitions", "Describe only partitions without a living leader.")
@flag("under-min-isr-partitions", "Describe only partitions with fewer replicas in sync than min.insync.replicas.")
@flag("at-min-isr-partitions", "Describe only partitions with exactly min.insync.replicas in sync.")
@flag("topics-with-overrides", "Describe only topics that have options of their own.")
@click.option(
    "--partition-size-limit-per-response",
    type=click.IntRange(1, 2000),
    help="How many partitions the cluster describes in one answer, at most.",
)
def topics(**given: Any) -> None:
    """Create, list, describe, alter and delete topics, with the flags of kafka-topics."""
    action = one_action(given, ACTIONS)
    check_belongs(given, action, BELONGS)
    check_needed(given, action, _needed(given, action))
    at_most_one(given, FILTERS)
    if action == "create":
        at_most_one(given, ("replica-assignment", "partitions"))
        at_most_one(given, ("replica-assignment", "replication-factor"))
    from tidelog.cli.cluster import connect

    with connect(given["bootstrap_server"], given["command_config"]) as admin:
        RUN[action](admin, given)


def _needed(given: dict[str, Any], action: str) -> Sequence[str]:
    return () if action == "delete" and given["topic_id"] else NEEDED.get(action, ())


def matching(admin: Any, given: dict[str, Any], *, must_exist: bool = True) -> list[str]:
    """The names of the topics that --topic asks for, sorted; Refused where a named one does not exist."""
    from tidelog.cli.cluster import topic_names

    wanted = given["topic"]
    found = sorted(
        name
        for name, is_internal in topic_names(admin).items()
        if not (is_internal and given["exclude_internal"]) and (wanted is None or _matches(wanted, name))
    )
    if wanted and not found and must_exist and not given["if_exists"]:
        raise Refused(f"Topic '{wanted}' does not exist as expected.")
    return found


def _matches(wanted: str, name: str) -> bool:
    """Kafka's include list: a regular expression of the whole name, commas meaning 'or'."""
    try:
        return re.fullmatch(wanted.strip("\"' ").replace(",", "|"), name) is not None
    except re.error as error:
        raise Refused(f"--topic {wanted!r} is no regular expression: {error}.") from None


def _create(admin: Any, given: dict[str, Any]) -> None:
    from tidelog.cli.cluster import reason
    from tidelog.errors import ErrorCode
    from tidelog.wire.messages.topics.create_topics import (
        CreatableReplicaAssignment,
        CreatableTopic,
        CreatableTopicConfig,
        CreateTopicsRequest,
    )

    name, assignment = given["topic"], given["replica_assignment"] or []
    if "." in name or "_" in name:
        click.echo(
            "WARNING: Topic names with a period ('.') or an underscore ('_') can collide in the names of metrics: "
            "use one of the two only.",
            err=True,
        )
    topic = CreatableTopic(
        name=name,
        num_partitions=given["partitions"] or -1,
        replication_factor=given["replication_factor"] or -1,
        assignments=[CreatableReplicaAssignment(partition_index=i, broker_ids=ids) for i, ids in enumerate(assignment)],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in given["config"]],
    )
    result = admin.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000)).topics[0]
    if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and given["if_not_exists"]:
        return
    if result.error_code:
        raise Refused(reason(result.error_code, result.error_message))
    click.echo(f"Created topic {name}.")


def _list(admin: Any, given: dict[str, Any]) -> None:
    for name in matching(admin, given, must_exist=False):
        click.echo(name)


def _describe(admin: Any, given: dict[str, Any]) -> None:
    from tidelog.cli.topic_description import describe

    describe(admin, given)


def _alter(admin: Any, given: dict[str, Any]) -> None:
    from tidelog.cli.cluster import describe_topics, reason
    from tidelog.wire.messages.topics.create_partitions import (
        CreatePartitionsAssignment,
        CreatePartitionsRequest,
        CreatePartitionsTopic,
    )

    described = describe_topics(admin, matching(admin, given))
    assignment = given["replica_assignment"]
    wanted = [
        CreatePartitionsTopic(
            name=topic.name,
            count=given["partitions"],
            assignments=assignment
            and [CreatePartitionsAssignment(broker_ids=ids) for ids in assignment[len(topic.partitions) :]],
        )
        for topic in described
    ]
    if wanted:
        for result in admin.ask(CreatePartitionsRequest(topics=wanted, timeout_ms=30_000)).results:
            if result.error_code:
                raise Refused(reason(result.error_code, result.error_message))


def _delete(admin: Any, given: dict[str, Any]) -> None:
    from tidelog.cli.cluster import reason
    from tidelog.wire.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState

    names = matching(admin, given)
    if names:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in names], topic_names=names, timeout_ms=30_000
        )
        for result in admin.ask(request).responses:
            if result.error_code:
                raise Refused(f"Topic {result.name}: {reason(result.error_code, result.error_message)}")


RUN = {"create": _create, "list": _list, "describe": _describe, "alter": _alter, "delete": _delete}
