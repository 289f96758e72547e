"""`tidelog leader-election`, with the flags and messages of kafka-leader-election."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.options import CommandFailed, cluster_options, flag, is_given, usage_error

if TYPE_CHECKING:
    from tidelog.errors import ErrorCode
    from tidelog.model import TopicPartition
    from tidelog.shell.transport import Admin

TYPES = {"PREFERRED": 0, "UNCLEAN": 1}
SCOPES = ("topic", "all-topic-partitions", "path-to-json-file")


@click.command()
@cluster_options
@click.option(
    "--admin.config", "admin_config", type=click.Path(exists=True, dir_okay=False), help="The same as --command-config."
)
@click.option(
    "--election-type",
    type=click.Choice([name.lower() for name in TYPES], case_sensitive=False),
    required=True,
    help="preferred: restore the preferred leader; unclean: elect a leader for an offline partition.",
)
@click.option("--topic", help="Topic of --partition.")
@click.option("--partition", type=int, help="Partition to elect a leader for.")
@flag("all-topic-partitions", "Elect leaders for all partitions that need it.")
@click.option(
    "--path-to-json-file", type=click.Path(exists=True, dir_okay=False), help="JSON file with the partitions."
)
def leader_election(**given: Any) -> None:
    """Elect partition leaders, with the flags of kafka-leader-election."""
    if sum(is_given(given[scope.replace("-", "_")]) for scope in SCOPES) != 1:
        raise usage_error(f"One and only one of the following options is required: {', '.join(SCOPES)}")
    if given["topic"] is not None and given["partition"] is None:
        raise usage_error("Missing required option(s): partition")
    if given["topic"] is None and given["partition"] is not None:
        raise usage_error("Option partition is only allowed if topic is used")
    from tidelog.cli.admin_requests import connect
    from tidelog.cli.replicas.json_files import read_partitions
    from tidelog.model import TopicPartition

    wanted = None
    if given["topic"] is not None:
        wanted = [TopicPartition(given["topic"], given["partition"])]
    elif given["path_to_json_file"] is not None:
        wanted = read_partitions(given["path_to_json_file"])
    with connect(given["bootstrap_server"], given["admin_config"] or given["command_config"]) as admin:
        print_results(elect(admin, given["election_type"].upper(), wanted), given["election_type"].upper())


def elect(
    admin: "Admin", kind: str, wanted: "Sequence[TopicPartition] | None"
) -> "dict[TopicPartition, tuple[ErrorCode, str | None]]":
    """Elect leaders; returns the result of each partition, or if `wanted` is None of those that needed an election."""
    from tidelog.client.admin import ANY
    from tidelog.client.results import code_of
    from tidelog.errors import ApiError
    from tidelog.model import TopicPartition
    from tidelog.wire.messages.topics.reassignments import ElectLeadersRequest, TopicPartitions

    topics: dict[str, TopicPartitions] = {}
    for topic, partition in wanted or ():
        topics.setdefault(topic, TopicPartitions(topic=topic, partitions=[])).partitions.append(partition)
    named = None if wanted is None else list(topics.values())
    response = admin.ask(ElectLeadersRequest(election_type=TYPES[kind], topic_partitions=named), ANY)
    if response.error_code:
        raise ApiError(code_of(response.error_code))
    return {
        TopicPartition(topic.topic, each.partition_id): (code_of(each.error_code), each.error_message)
        for topic in response.replica_election_results
        for each in topic.partition_result
    }


def print_results(results: "dict[TopicPartition, tuple[ErrorCode, str | None]]", kind: str) -> None:
    """Print the results; CommandFailed if an election failed."""
    from tidelog.errors import ErrorCode

    done = [partition for partition, (code, _) in results.items() if code is ErrorCode.NONE]
    idle = [partition for partition, (code, _) in results.items() if code is ErrorCode.ELECTION_NOT_NEEDED]
    if done:
        listed = ", ".join(map(str, sorted(done)))
        click.echo(f"Successfully completed leader election ({kind}) for partitions {listed}")
    if idle:
        click.echo(f"Valid replica already elected for partitions {', '.join(map(str, sorted(idle)))}")
    failed = {p: why for p, why in results.items() if why[0] not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)}
    for partition, (code, message) in sorted(failed.items()):
        click.echo(f"Error completing leader election ({kind}) for partition: {partition}: {code.name}: {message}")
    if failed:
        raise CommandFailed(f"{len(failed)} replica(s) could not be elected")
