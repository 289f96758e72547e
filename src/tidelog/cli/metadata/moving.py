"""`tidelog metadata export|import`: a stopped cluster's memory goes from one store to another."""

from pathlib import Path
from typing import Any

import click

from tidelog.cli.metadata.place import opened, place_options


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@place_options
def export(file: Path, **given: Any) -> None:
    """Write the memory of a stopped cluster to FILE, as lines of JSON.

    Broker epochs are left out, because another store has numbers of its own. So after an import each partition waits
    until all brokers of its in-sync set are back.
    """
    from tidelog.shell.store.subtree import written_down

    with opened(given) as store:
        lines = written_down(store)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    click.echo(f"{len(lines) - 1} nodes written to {file}.")


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@place_options
def import_(file: Path, **given: Any) -> None:
    """Fill a store that no cluster uses yet with what `export` wrote to FILE."""
    from tidelog.shell.store.subtree import read_back

    lines = file.read_text(encoding="utf-8").splitlines()
    with opened(given, create=True) as store:
        count = read_back(store, lines)
    click.echo(f"{count} nodes read from {file}.")
