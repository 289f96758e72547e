"""The commands and their flags. As in Kafka's tool, `--bootstrap-server` stands before the command."""

from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.options import HANGING_AFTER_MINUTES, CommandFailed, cluster_options

if TYPE_CHECKING:
    from tidelog.shell.transport import Admin


topic = click.option("--topic", required=True, help="Topic.")
partition = click.option("--partition", type=click.IntRange(0), required=True, help="Number of the partition.")


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
@click.option("--duration-filter", type=int, default=-1, help="Only those that run for longer, in milliseconds.")
@click.option("--transactional-id-pattern", help="Only ids that match this regular expression (RE2).")
def list_(duration_filter: int, transactional_id_pattern: str | None) -> None:
    """List transactional ids with their coordinator and state."""
    from tidelog.cli import transaction_actions

    with _admin() as admin:
        transaction_actions.print_list(admin, duration_filter, transactional_id_pattern)


@transactions.command()
@click.option("--transactional-id", required=True)
def describe(transactional_id: str) -> None:
    """Show the transaction of an id: since when it runs, and its partitions."""
    from tidelog.cli import transaction_actions

    with _admin() as admin:
        transaction_actions.print_transaction(admin, transactional_id)


@transactions.command("describe-producers")
@topic
@partition
@click.option("--broker-id", type=int, help="Ask this replica; the leader without it.")
def describe_producers(topic: str, partition: int, broker_id: int | None) -> None:
    """Show the producers that a partition's log knows."""
    from tidelog.cli import transaction_actions
    from tidelog.model import TopicPartition

    with _admin() as admin:
        transaction_actions.print_producers(admin, TopicPartition(topic, partition), broker_id)


@transactions.command("find-hanging")
@click.option("--topic", help="Look at this topic only.")
@click.option("--partition", type=click.IntRange(0), help="Look at this partition of it only.")
@click.option("--broker-id", type=int, help="Look at partitions with a replica on this broker.")
@click.option(
    "--max-transaction-timeout",
    type=click.IntRange(0),
    default=HANGING_AFTER_MINUTES,
    show_default=True,
    help="In minutes.",
)
def find_hanging(**given: Any) -> None:
    """Find open transactions that no coordinator will end."""
    if given["topic"] is None and given["broker_id"] is None:
        raise CommandFailed("find-hanging needs --topic or --broker-id, to limit the search.")
    if given["partition"] is not None and given["topic"] is None:
        raise CommandFailed("--partition goes with --topic.")
    from tidelog.cli import transaction_actions

    with _admin() as admin:
        transaction_actions.print_hanging(admin, given)


@transactions.command()
@topic
@partition
@click.option("--start-offset", type=int, help="First offset of the transaction.")
@click.option("--producer-id", type=int, help="With the two epochs, instead of --start-offset.")
@click.option("--producer-epoch", type=int)
@click.option("--coordinator-epoch", type=int)
def abort(topic: str, partition: int, **given: Any) -> None:
    """Abort a hanging transaction in one partition."""
    from tidelog.cli import transaction_actions
    from tidelog.model import TopicPartition

    if given["start_offset"] is None and given["producer_id"] is None:
        raise CommandFailed("Name the transaction by --start-offset, or by --producer-id with both epochs.")
    if given["start_offset"] is None and None in (given["producer_epoch"], given["coordinator_epoch"]):
        raise CommandFailed("--producer-id goes with --producer-epoch and --coordinator-epoch.")
    with _admin() as admin:
        transaction_actions.abort(admin, TopicPartition(topic, partition), given)


@transactions.command("forceTerminateTransaction")
@click.option("--transactionalId", "transactional_id", required=True)
def force_terminate(transactional_id: str) -> None:
    """Abort the open transaction of an id, and fence its producer."""
    from tidelog.cli import transaction_actions

    with _admin() as admin:
        transaction_actions.force_terminate(admin, transactional_id)
