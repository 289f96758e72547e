"""`tidelog cluster`, with the commands and messages of kafka-cluster."""

import click

from tidelog.cli.options import cluster_options


@click.group()
def cluster() -> None:
    """Print the cluster ID, or unregister a dead broker, with the commands of kafka-cluster."""


@cluster.command("cluster-id")
@cluster_options
def cluster_id(bootstrap_server: str, command_config: str | None) -> None:
    """Print the cluster ID."""
    from tidelog.cli.admin_requests import connect, metadata

    with connect(bootstrap_server, command_config) as admin:
        click.echo(f"Cluster ID: {metadata(admin, ()).cluster_id}")


@cluster.command()
@cluster_options
@click.option("--id", "broker", type=int, required=True, help="ID of a broker that will not return.")
def unregister(bootstrap_server: str, command_config: str | None, broker: int) -> None:
    """Unregister a dead broker, so that the cluster no longer waits for it."""
    from tidelog.cli.admin_requests import connect
    from tidelog.client.admin import ANY
    from tidelog.client.results import code_of
    from tidelog.errors import ApiError
    from tidelog.wire.messages.cluster.brokers import UnregisterBrokerRequest

    with connect(bootstrap_server, command_config) as admin:
        response = admin.ask(UnregisterBrokerRequest(broker_id=broker), ANY)
    if response.error_code:
        raise ApiError(code_of(response.error_code), response.error_message)
    click.echo(f"Broker {broker} is no longer registered.")
