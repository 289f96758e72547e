"""`tidelog log-dirs` and `tidelog delete-records`, with the flags, messages and JSON of Kafka's tools."""

import json
from collections.abc import Collection
from typing import Any

import click

from tidelog.cli.formatting import comma_list
from tidelog.cli.options import CommandFailed, broker_ids, cluster_options, flag, usage_error

MOVED_MS = 30_000


@click.command()
@cluster_options
@flag("describe", "Describe the log directories of brokers.")
@click.option("--topic-list", default="", help="Topics, e.g. a,b,c (default: all topics).")
@click.option("--broker-list", default="", help="Broker IDs, e.g. 0,1,2 (default: all brokers).")
def log_dirs(**given: Any) -> None:
    """Describe the log directories of brokers, with the flags of kafka-log-dirs."""
    if not given["describe"]:
        raise usage_error("--describe is required.")
    wanted = broker_ids(given["broker_list"]) if given["broker_list"] else []
    topics = {topic.strip() for topic in given["topic_list"].split(",") if topic.strip()}
    from tidelog.cli.admin_requests import connect
    from tidelog.cli.replicas.replica_requests import broker_racks
    from tidelog.wire.messages.cluster.log_dirs import DescribeLogDirsRequest

    with connect(given["bootstrap_server"], given["command_config"]) as admin:
        known = broker_racks(admin)
        if unknown_brokers := [broker for broker in wanted if broker not in known]:
            raise CommandFailed(
                f"ERROR: The given brokers do not exist from --broker-list: {comma_list(sorted(unknown_brokers))}. "
                f"Current existent brokers: {comma_list(sorted(known))}"
            )
        brokers = sorted(wanted or known)
        click.echo("Querying brokers for log directories information")
        results = {broker: admin.ask(DescribeLogDirsRequest(topics=None), broker).results for broker in brokers}
    click.echo(f"Received log directory information from brokers {comma_list(brokers)}")
    entries = [{"broker": id_, "logDirs": [_folder(each, topics) for each in found]} for id_, found in results.items()]
    click.echo(json.dumps({"version": 1, "brokers": entries}, separators=(",", ":")))


def _folder(result: Any, topics: Collection[str]) -> dict[str, Any]:
    from tidelog.client.results import code_of

    partitions = [
        {
            "partition": f"{topic.name}-{each.partition_index}",
            "size": each.partition_size,
            "offsetLag": each.offset_lag,
            "isFuture": each.is_future_key,
        }
        for topic in result.topics
        if not topics or topic.name in topics
        for each in topic.partitions
    ]
    error = code_of(result.error_code).name if result.error_code else None
    return {"partitions": partitions, "error": error, "logDir": result.log_dir}


@click.command()
@cluster_options
@click.option(
    "--offset-json-file",
    type=click.Path(exists=True, dir_okay=False),
    required=True,
    help="JSON file: partitions and the offset to delete records before; -1: the high watermark.",
)
def delete_records(**given: Any) -> None:
    """Delete the oldest records of partitions, with the flags of kafka-delete-records."""
    from tidelog.cli.admin_requests import connect, describe_error
    from tidelog.cli.replicas.json_files import read_offsets
    from tidelog.client.admin import Leader
    from tidelog.errors import ApiError, ErrorCode
    from tidelog.wire.messages.records.offsets import (
        DeleteRecordsPartition,
        DeleteRecordsRequest,
        DeleteRecordsTopic,
    )

    offsets = read_offsets(given["offset_json_file"])
    with connect(given["bootstrap_server"], given["command_config"]) as admin:
        click.echo("Executing records delete operation")
        click.echo("Records delete operation completed:")
        for name, offset in offsets.items():
            wanted = DeleteRecordsPartition(partition_index=name.partition, offset=offset)
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=name.topic, partitions=[wanted])], timeout_ms=MOVED_MS
            )
            try:
                result = admin.ask(request, Leader(*name)).topics[0].partitions[0]
            except ApiError as error:
                click.echo(f"partition: {name}\terror: {describe_error(error.code, error.message)}")
                continue
            if result.error_code == ErrorCode.NONE:
                click.echo(f"partition: {name}\tlow_watermark: {result.low_watermark}")
            else:
                click.echo(f"partition: {name}\terror: {describe_error(result.error_code)}")
