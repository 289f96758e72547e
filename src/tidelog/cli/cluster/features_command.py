"""`tidelog features`, with the flags and output of kafka-features: `--bootstrap-server` comes before the command."""

from collections.abc import Iterable
from typing import Any

import click

from tidelog.cli.cluster.connecting import connected, place_options, remember

LEVELS = click.option("--feature", "given", metavar="FEATURE=LEVEL", multiple=True, help="Feature level; repeatable.")
RELEASE = click.option("--release-version", "release", help="Release whose levels all features get, e.g. 4.3-IV0.")
METADATA = click.option(
    "--metadata", "release_of_metadata", hidden=True, help="Deprecated: release of metadata.version."
)
DRY_RUN = click.option("--dry-run", is_flag=True, help="Check the change without making it.")
UNSAFE = click.option("--unsafe", is_flag=True, help="Downgrade even if metadata is lost.")


@click.group()
@place_options
@click.pass_context
def features(context: click.Context, /, **given: Any) -> None:
    """Describe the finalized features of a cluster, and change their levels."""
    remember(context, **given)


@features.command()
@click.option("--node-id", "node", type=int, help="Node to query (default: any).")
def describe(node: int | None) -> None:
    """Describe features: supported and finalized levels."""
    from tidelog.cli.cluster.feature_actions import described

    with connected() as admin:
        _print(described(admin, node))


@features.command()
@METADATA
@RELEASE
@LEVELS
@DRY_RUN
def upgrade(release_of_metadata: str | None, release: str | None, given: tuple[str, ...], dry_run: bool) -> None:
    """Raise finalized levels of features."""
    from tidelog.cli.cluster.feature_actions import UPGRADE

    _change("upgrade", UPGRADE, release_of_metadata, release, given, dry_run)


@features.command()
@METADATA
@RELEASE
@LEVELS
@UNSAFE
@DRY_RUN
def downgrade(
    release_of_metadata: str | None, release: str | None, given: tuple[str, ...], unsafe: bool, dry_run: bool
) -> None:
    """Lower finalized levels of features."""
    from tidelog.cli.cluster.feature_actions import downgrade_type

    _change("downgrade", downgrade_type(unsafe=unsafe), release_of_metadata, release, given, dry_run)


def _change(
    verb: str,
    upgrade_type: int,
    release_of_metadata: str | None,
    release: str | None,
    given: tuple[str, ...],
    dry_run: bool,
) -> None:
    from tidelog.cli.cluster.feature_actions import requested_levels, update

    if release_of_metadata is not None and release is None:
        click.echo(" `metadata` flag is deprecated and may be removed in a future release.")
    levels = requested_levels(release_of_metadata, release, given, upgrade_type)
    with connected() as admin:
        _print(update(admin, verb, levels, upgrade_type, dry_run=dry_run))


@features.command()
@click.option("--feature", "names", metavar="FEATURE", multiple=True, help="Feature to turn off; repeatable.")
@UNSAFE
@DRY_RUN
def disable(names: tuple[str, ...], unsafe: bool, dry_run: bool) -> None:
    """Turn features off: level 0."""
    from tidelog.cli.cluster.feature_actions import disabled_levels, downgrade_type, update

    upgrade_type = downgrade_type(unsafe=unsafe)
    levels = disabled_levels(names, upgrade_type)
    with connected() as admin:
        _print(update(admin, "disable", levels, upgrade_type, dry_run=dry_run))


@features.command("version-mapping")
@click.option("--release-version", "release", help="Release, e.g. 4.0 (default: the latest).")
def version_mapping(release: str | None) -> None:
    """Print the levels that features have in a release."""
    from tidelog.cli.cluster.feature_actions import levels_of_release

    _print(levels_of_release(release))


@features.command("feature-dependencies")
@click.option(
    "--feature", "given", metavar="FEATURE=LEVEL", multiple=True, required=True, help="Feature level; repeatable."
)
def feature_dependencies(given: tuple[str, ...]) -> None:
    """Print which levels of other features a level needs."""
    from tidelog.cli.cluster.feature_actions import dependencies

    _print(dependencies(given))


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)
