"""`tidelog quorum`, with the flags and output of kafka-metadata-quorum; --bootstrap-server comes before the command."""

from typing import Any

import click

from tidelog.cli.cluster.connecting import connected, place_options, remember
from tidelog.cli.options import CommandFailed, file_options

DRY_RUN = click.option("--dry-run", is_flag=True, help="Print what would be done without doing it.")


@click.group()
@place_options
@click.pass_context
def quorum(context: click.Context, /, **given: Any) -> None:
    """Describe the metadata quorum; add and remove controllers."""
    remember(context, **given)


@quorum.command()
@click.option("--status", is_flag=True, help="Print leader, epoch, high watermark, lag, voters and observers.")
@click.option("--replication", is_flag=True, help="Print each replica's log end offset and lag.")
@click.option("--human-readable", is_flag=True, help="With --replication: how long ago instead of timestamps.")
def describe(status: bool, replication: bool, human_readable: bool) -> None:
    """Describe the metadata quorum."""
    from tidelog.cli.cluster import quorum_actions

    if status and replication:
        raise CommandFailed("Only one of --status or --replication should be specified with describe sub-command")
    if status and human_readable:
        raise CommandFailed("The option --human-readable is only supported along with --replication")
    if not status and not replication:
        raise CommandFailed("One of --status or --replication must be specified with describe sub-command")
    with connected(is_of_node=True) as admin:
        if status:
            click.echo(quorum_actions.status(admin))
        else:
            click.echo(quorum_actions.replication(admin, human_readable=human_readable))


@quorum.command("add-controller")
@DRY_RUN
def add_controller(dry_run: bool) -> None:
    """Add the controller of --command-config."""
    from tidelog.cli.cluster import quorum_actions

    file = click.get_current_context().obj.command_config
    if file is None:
        raise CommandFailed(
            "You must supply the configuration file of the controller you are adding when using add-controller."
        )
    controller = quorum_actions.controller_of(file_options(file))
    _change(quorum_actions.add, controller, dry_run=dry_run)
    done = "DRY RUN of adding" if dry_run else "Added"
    click.echo(f"{done} controller {controller.node_id} with directory id {controller.directory} and {controller}")


@quorum.command("remove-controller")
@click.option("--controller-id", "-i", "node_id", type=int, required=True, help="ID of the controller.")
@click.option("--controller-directory-id", "-d", "directory", required=True, help="ID of its metadata directory.")
@DRY_RUN
def remove_controller(node_id: int, directory: str, dry_run: bool) -> None:
    """Remove a controller."""
    from tidelog.cli.cluster import quorum_actions

    controller = quorum_actions.named(node_id, directory)
    _change(quorum_actions.remove, controller, dry_run=dry_run)
    done = "DRY RUN of removing " if dry_run else "Removed "
    click.echo(f"{done} KRaft controller {node_id} with directory id {controller.directory}")


def _change(change: Any, controller: Any, *, dry_run: bool) -> None:
    if not dry_run:
        with connected(is_of_node=True) as admin:
            change(admin, controller)
