"""`tidelog storage`, with the flags and output of kafka-storage.sh: formats the directories of a node of a quorum."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.options import CommandFailed, at_most_one

if TYPE_CHECKING:
    from tidelog.config.quorum import QuorumConfig

CONFIG = click.option(
    "--config",
    "-c",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The node's server.properties.",
)


@click.group()
def storage() -> None:
    """Format the directories of a node of a metadata quorum, or describe them.

    The files are those of Kafka's tool: either formats for the other. Format each node before its first start.
    """


@storage.command("random-uuid")
def random_uuid() -> None:
    """Print a random ID, for a cluster or a directory."""
    from tidelog.cli.brokers.storage_format import random_id
    from tidelog.model import id_text

    click.echo(id_text(random_id()))


@storage.command()
@CONFIG
def info(file: Path) -> None:
    """Describe the directories of a node."""
    from tidelog.cli.brokers.storage_format import info_lines

    _, folders = load(file)
    lines, problems = info_lines(folders)
    for line in lines:
        click.echo(line)
    click.get_current_context().exit(1 if problems else 0)


@storage.command("format")
@CONFIG
@click.option("--cluster-id", "-t", required=True, help="ID of the cluster, the same for all nodes.")
@click.option(
    "--add-scram",
    "-S",
    "users",
    metavar="USER|@FILE",
    multiple=True,
    help="SCRAM user to add, as SCRAM-SHA-512=[name=NAME,password=PASSWORD], or a file of them; repeatable.",
)
@click.option("--ignore-formatted", "-g", is_flag=True, help="Skip directories that are formatted.")
@click.option("--release-version", "-r", help="Release whose features a new cluster has (default: 4.3-IV0).")
@click.option("--feature", "-f", "features", multiple=True, help="Level of a feature, as FEATURE=LEVEL; repeatable.")
@click.option("--standalone", "-s", is_flag=True, help="Format the first and only controller.")
@click.option("--no-initial-controllers", "-N", is_flag=True, help="Format a node that joins existing controllers.")
@click.option("--initial-controllers", "-I", help="The first controllers, as ID@HOST:PORT:DIRECTORY,…")
def format_(file: Path, **given: Any) -> None:
    """Format the directories of a node."""
    from tidelog.cli.brokers.storage_format import FormatRequest, format_directories
    from tidelog.cli.security.given_users import given_users

    at_most_one(given, ("standalone", "no-initial-controllers", "initial-controllers"))
    quorum, folders = load(file)
    given["users"] = given_users(given["users"])
    for line in format_directories(quorum, folders, FormatRequest(**given)):
        click.echo(line)


def load(file: Path) -> "tuple[QuorumConfig, list[str]]":
    """The quorum of the node with this file, and the node's directories."""
    from tidelog.config.quorum import quorum_of
    from tidelog.shell.broker import load_config

    try:
        config = load_config(file)
    except UnicodeDecodeError:
        raise CommandFailed(f"{file} is not a text file in UTF-8.") from None
    quorum = quorum_of(config)
    return quorum, sorted({*config.folders, quorum.metadata_folder})
