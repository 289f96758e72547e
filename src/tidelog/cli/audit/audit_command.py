"""`tidelog audit`: the replicas of each partition compared, from a running cluster or from folders."""

import json as json_text
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandFailed, flag, usage_error

if TYPE_CHECKING:
    from tidelog.audit.core.acknowledged import Acknowledged
    from tidelog.audit.io.folders import LogFolder
    from tidelog.audit.io.plan import Plan
    from tidelog.audit.io.run import Run
    from tidelog.model import TopicPartition

FETCH, FOLDERS = "fetch", "folders"
NOT_RUNNING = "Start it, or audit what its brokers left on their disks: --folder LOG_DIR."
NO_JAVA = "It needs Java 17 or newer, and Tidelog where its executors are; --local needs neither."
NO_SPARK = "PySpark is not installed: pip install 'tidelog[spark]', or audit in this process with --local."

HISTORIES = "--history is for the history.jsonl of `tidelog check`, `tidelog chaos` or `tidelog lab run --logs`."


@click.command()
@click.option(
    "--bootstrap", "--bootstrap-server", "bootstrap", type=Bootstrap(),
    help=f"Brokers of a running cluster; {DEFAULT_BOOTSTRAP} where no --folder is given.",
)  # fmt: skip
@click.option("--zookeeper", help="In place of --bootstrap the cluster's store, as other commands take it.")
@click.option("--command-config", type=click.Path(exists=True, dir_okay=False), help="Options of the admin client.")
@click.option(
    "--folder", "folders", multiple=True, type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A log folder, or one that log folders are below; without --bootstrap, of brokers that do not run. Repeat it.",
)  # fmt: skip
@click.option("--topic", "topics", multiple=True, help="Only this topic. Repeat it.")
@click.option(
    "--compacted", multiple=True, help="This topic is compacted, which folders alone may not tell. Repeat it."
)
@click.option(
    "--read", "read_from", type=click.Choice([FETCH, FOLDERS]), default=FETCH, show_default=True,
    help="Of a running cluster: fetch each replica up to its high watermark and read the tail from its folder, or read "
    "folders wholly where they are on this machine.",
)  # fmt: skip
@click.option(
    "--history", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A history of `tidelog check`: is what was acknowledged where it was acknowledged?",
)  # fmt: skip
@flag("local", "In this process, without Spark.")
@click.option("--master", default="local[*]", show_default=True, help="The Spark master that executors belong to.")
@click.option("--piece-mb", type=click.IntRange(1), default=256, show_default=True, help="What one task reads.")
@flag("json", "Print the report as JSON.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write the report as a page.")
def audit(
    bootstrap: str | None,
    zookeeper: str | None,
    command_config: str | None,
    folders: tuple[Path, ...],
    topics: tuple[str, ...],
    compacted: tuple[str, ...],
    read_from: str,
    history: Path | None,
    local: bool,
    master: str,
    piece_mb: int,
    json: bool,
    html: Path | None,
) -> None:
    """Read every replica of every partition, compare them, and check what replication promises.

    Replicas are compared by offset, leader epoch and checksum, those of compacted topics by the last value of each key.
    The exit code is 1 where something is broken; docs/audit.md says what each finding means and what to do.
    """
    from tidelog.audit.io import fetching, run
    from tidelog.cli.audit import audit_page, audit_text

    bootstrap = _bootstrap_servers(bootstrap, zookeeper)
    if html is not None and not html.absolute().parent.is_dir():
        raise CommandFailed(f"--html {html}: there is no folder {html.absolute().parent}. Make it first.")
    if read_from == FOLDERS and not bootstrap and folders:
        raise usage_error("--read goes with --bootstrap: of folders alone everything is read.")
    if compacted and (bootstrap or not folders):
        raise usage_error("--compacted goes with --folder alone: a cluster tells which topics are compacted.")
    try:
        wanted = acknowledged(history)
        given = find_log_dirs(folders)
        limits = {"acknowledged": wanted, "piece_bytes": piece_mb * 1_000_000}
        with ExitStack() as opened:
            make_plan: Callable[[Sequence[str]], Plan]
            if folders and not bootstrap:
                make_plan = partial(plan_for_folders, given, compacted, limits)
            else:
                make_plan = _cluster_planner(
                    opened, bootstrap or DEFAULT_BOOTSTRAP, command_config, given, read_from, limits
                )
            plan = make_plan(topics)
            check_history(history, wanted, {subject.name for subject in plan.subjects}, topics)
            runner = opened.enter_context(_runner(local=local, master=master))
            tell = partial(click.echo, err=True)
            found = run.audit(plan, runner, report_line=lambda line: tell(f"audit: {line}"))
            if bootstrap or not folders:
                found = run.confirmed(found, lambda again: run.audit(make_plan(again), runner))
    finally:
        fetching.close()
    if html is not None:
        html.write_text(audit_page.page(found), encoding="utf-8")
        click.echo(f"audit: the page is {html}", err=True)
    if json:
        click.echo(json_text.dumps(found.as_json(), indent=1))
    else:
        audit_text.draw(found)
    click.get_current_context().exit(0 if found.is_good else 1)


def _bootstrap_servers(bootstrap: str | None, store: str | None) -> str | None:
    if store is None:
        return bootstrap
    if bootstrap is not None:
        raise usage_error("--zookeeper and --bootstrap exclude each other.")
    from tidelog.cli.store_address import bootstrap_from_store

    return bootstrap_from_store(store)


def _cluster_planner(
    opened: ExitStack,
    bootstrap: str,
    config: str | None,
    given: "Sequence[LogFolder]",
    read_from: str,
    limits: Mapping[str, Any],
) -> "Callable[[Sequence[str]], Plan]":
    """What makes a plan of topics of a running cluster."""
    from tidelog.audit.io import cluster
    from tidelog.cli.admin_requests import connect, parse_client_options
    from tidelog.client.options import AdminOptions
    from tidelog.config import properties

    written = properties.parse(Path(config).read_text(encoding="utf-8")) if config else {}
    written.pop("bootstrap.servers", None)
    options = parse_client_options(AdminOptions, written) if written else {}
    reached = cluster.ClusterAccess(
        bootstrap, options, from_folders=read_from == FOLDERS, piece_bytes=limits["piece_bytes"]
    )
    try:
        admin = opened.enter_context(connect(bootstrap, config))
    except CommandFailed as reason:
        raise CommandFailed(f"{reason.message} {NOT_RUNNING}") from None

    def make_plan(topics: Sequence[str]) -> "Plan":
        try:
            return cluster.plan(admin, reached, topics=topics, given=given, acknowledged=limits["acknowledged"])
        except cluster.NotFound as reason:
            raise CommandFailed(f"{reason} `tidelog topics --list` names those that are there.") from None

    return make_plan


@contextmanager
def _runner(*, local: bool, master: str) -> "Iterator[Run]":
    from importlib.util import find_spec

    if local:
        from tidelog.audit.io.run import run_locally

        yield run_locally
        return
    if find_spec("pyspark") is None:
        raise CommandFailed(NO_SPARK)
    from tidelog.spark.audit_session import Failed, running

    try:
        with running(master) as run:
            yield run
    except Failed as reason:
        raise CommandFailed(f"Spark does not carry the audit out (--master {master}): {reason}. {NO_JAVA}") from None


def acknowledged(history: Path | None) -> "Mapping[TopicPartition, Sequence[Acknowledged]]":
    if history is None:
        return {}
    from tidelog.check.history.text import NotAHistory, parse
    from tidelog.check.replicas import acknowledged_records

    try:
        with history.open(encoding="utf-8") as lines:
            return acknowledged_records(parse(lines))
    except (NotAHistory, UnicodeDecodeError) as reason:
        raise CommandFailed(f"{history}: {reason}. {HISTORIES}") from None


def check_history(
    history: Path | None, wanted: "Iterable[TopicPartition]", found: "set[TopicPartition]", topics: Sequence[str]
) -> None:
    """A history of another cluster would find nothing lost."""
    lacking = sorted(str(name) for name in {*wanted} - found if not topics or name.topic in topics)
    if wanted and not {*wanted} & found:
        there = ", ".join(sorted(map(str, wanted))[:5])
        raise CommandFailed(
            f"{history}: of its partitions ({there}) none is audited. Is it of another cluster? {HISTORIES}"
        )
    if lacking:
        click.echo(f"audit: of the history's partitions {', '.join(lacking)} are not there to be audited", err=True)


def find_log_dirs(given: Sequence[Path]) -> "list[LogFolder]":
    from tidelog.audit.io.folders import find

    try:
        return find(given)
    except FileNotFoundError as reason:
        raise CommandFailed(f"{reason} Name what log.dirs of a broker names, or a folder that holds such.") from None
    except OSError as reason:
        raise CommandFailed(str(reason)) from None


def plan_for_folders(
    given: "Sequence[LogFolder]", compacted: Sequence[str], asked: Mapping[str, Any], topics: Sequence[str]
) -> "Plan":
    from tidelog.audit.io.plan import of_folders

    there = {name.topic for folder in given for name in folder.replicas}
    for topic in (*topics, *compacted):
        if topic not in there:
            topics_found = ", ".join(sorted(there)) or "no topic"
            raise CommandFailed(f"No replica of topic {topic} is in these folders; they hold {topics_found}.")
    return of_folders(given, topics=topics, compacted=compacted, **asked)
