"""`tidelog transactions`, with the flags of kafka-transactions: `--bootstrap-server` comes before the command."""

from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.options import CommandFailed, cluster_options
from tidelog.explain.core import HANGING_AFTER_MINUTES

if TYPE_CHECKING:
    from tidelog.shell.transport import Admin


topic = click.option("--topic", required=True, help="Topic.")
partition = click.option("--partition", type=click.IntRange(0), required=True, help="Partition number.")


@click.group()
@cluster_options
@click.pass_context
def transactions(context: click.Context, bootstrap_server: str, command_config: str | None) -> None:
    """List and describe transactions; find hanging ones and abort them."""
    context.obj = (bootstrap_server, command_config)


def _admin() -> "Admin":
    from tidelog.cli.admin_requests import connect

    return connect(*click.get_current_context().obj)


@transactions.command("list")
@click.option("--duration-filter", type=int, default=-1, help="Minimum duration of a transaction, in milliseconds.")
@click.option("--transactional-id-pattern", help="Regular expression (RE2) for transactional IDs.")
def list_(duration_filter: int, transactional_id_pattern: str | None) -> None:
    """List transactional IDs with their coordinator and state."""
    from tidelog.cli import transaction_actions

    with _admin() as admin:
        transaction_actions.print_list(admin, duration_filter, transactional_id_pattern)


@transactions.command()
@click.option("--transactional-id", required=True, help="Transactional ID.")
def describe(transactional_id: str) -> None:
    """Show the transaction of a transactional ID: start time and partitions."""
    from tidelog.cli import transaction_actions

    with _admin() as admin:
        transaction_actions.print_transaction(admin, transactional_id)


@transactions.command("describe-producers")
@topic
@partition
@click.option("--broker-id", type=int, help="Query this replica instead of the leader.")
def describe_producers(topic: str, partition: int, broker_id: int | None) -> None:
    """Show the active producers of a partition."""
    from tidelog.cli import transaction_actions
    from tidelog.model import TopicPartition

    with _admin() as admin:
        transaction_actions.print_producers(admin, TopicPartition(topic, partition), broker_id)


@transactions.command("find-hanging")
@click.option("--topic", help="Topic to search.")
@click.option("--partition", type=click.IntRange(0), help="Partition of --topic to search.")
@click.option("--broker-id", type=int, help="Search partitions with a replica on this broker.")
@click.option(
    "--max-transaction-timeout",
    type=click.IntRange(0),
    default=HANGING_AFTER_MINUTES,
    show_default=True,
    help="Minutes without a record after which a transaction counts as hanging.",
)
def find_hanging(**given: Any) -> None:
    """Find open transactions that no coordinator will end."""
    if given["topic"] is None and given["broker_id"] is None:
        raise CommandFailed("find-hanging requires --topic or --broker-id, to limit the search.")
    if given["partition"] is not None and given["topic"] is None:
        raise CommandFailed("--partition requires --topic.")
    from tidelog.cli import transaction_actions

    with _admin() as admin:
        transaction_actions.print_hanging(admin, given)


@transactions.command()
@topic
@partition
@click.option("--start-offset", type=int, help="First offset of the transaction.")
@click.option("--producer-id", type=int, help="Producer ID, with both epochs, instead of --start-offset.")
@click.option("--producer-epoch", type=int, help="Epoch of the producer.")
@click.option("--coordinator-epoch", type=int, help="Epoch of the coordinator.")
def abort(topic: str, partition: int, **given: Any) -> None:
    """Abort a hanging transaction in one partition."""
    from tidelog.cli import transaction_actions
    from tidelog.model import TopicPartition

    if given["start_offset"] is None and given["producer_id"] is None:
        raise CommandFailed("Specify the transaction with --start-offset, or with --producer-id and both epochs.")
    if given["start_offset"] is None and None in (given["producer_epoch"], given["coordinator_epoch"]):
        raise CommandFailed("--producer-id requires --producer-epoch and --coordinator-epoch.")
    with _admin() as admin:
        transaction_actions.abort(admin, TopicPartition(topic, partition), given)


@transactions.command("forceTerminateTransaction")
@click.option("--transactionalId", "transactional_id", required=True, help="Transactional ID.")
def force_terminate(transactional_id: str) -> None:
    """Abort the open transaction of a transactional ID, and fence its producer."""
    from tidelog.cli import transaction_actions

    with _admin() as admin:
        transaction_actions.force_terminate(admin, transactional_id)
