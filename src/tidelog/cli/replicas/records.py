"""`tidelog delete-records`: the flags and the words of kafka-delete-records."""

from typing import Any

import click

from tidelog.cli.options import cluster_options

MOVED_MS = 30_000


@click.command()
@cluster_options
@click.option(
    "--offset-json-file",
    type=click.Path(exists=True, dir_okay=False),
    required=True,
    help="Partitions with the offset before which records go; -1 means the high watermark.",
)
def delete_records(**given: Any) -> None:
    """Delete the oldest records of partitions, with the flags of kafka-delete-records."""
    from tidelog.cli.cluster import connect, reason
    from tidelog.cli.replicas.files import read_offsets
    from tidelog.client.admin import Leader
    from tidelog.errors import ApiError, ErrorCode
    from tidelog.wire.messages.records.delete_records import (
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
                click.echo(f"partition: {name}\terror: {reason(error.code, error.message)}")
                continue
            if result.error_code == ErrorCode.NONE:
                click.echo(f"partition: {name}\tlow_watermark: {result.low_watermark}")
            else:
                click.echo(f"partition: {name}\terror: {reason(result.error_code)}")
