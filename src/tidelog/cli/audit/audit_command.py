"""`tidelog audit`: compares the replicas of each partition, from a running cluster or from log directories."""

import json as json_text
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandFailed,
    command_config_option,
    current_zookeeper_options,
    flag,
    usage_error,
    zookeeper_options,
)

if TYPE_CHECKING:
    from tidelog.audit.core.acknowledged import Acknowledged
    from tidelog.audit.io.folders import LogFolder
    from tidelog.audit.io.plan import Plan
    from tidelog.audit.io.run import Run
    from tidelog.model import TopicPartition

LOCAL_MASTER = "local[*]"
FETCH, FOLDERS = "fetch", "folders"
NOT_RUNNING = "Start it, or audit the log directories of its brokers: --folder LOG_DIR."
NO_JAVA = "It requires Java 17 or newer, and Tidelog on the executors; --local requires neither."
NO_SPARK = "PySpark is not installed: pip install 'tidelog[spark]'"

HISTORIES = "--history expects the history.jsonl of `tidelog check`, `tidelog chaos` or `tidelog lab run --logs`."


@click.command()
@click.option(
    "--bootstrap", "--bootstrap-server", "bootstrap", type=Bootstrap(),
    help=f"Brokers of a running cluster (default: {DEFAULT_BOOTSTRAP}, without --folder).",
)  # fmt: skip
@click.option("--zookeeper", hidden=True, help="Metadata store of the cluster, instead of --bootstrap.")
@zookeeper_options
@command_config_option
@click.option(
    "--folder", "folders", multiple=True, type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Log directory, or a parent of several; without --bootstrap, brokers must be stopped; repeatable.",
)  # fmt: skip
@click.option("--topic", "topics", multiple=True, help="Topic to audit (default: all topics); repeatable.")
@click.option("--compacted", multiple=True, help="Compacted topic, if only folders are given; repeatable.")
@click.option(
    "--read", "read_from", type=click.Choice([FETCH, FOLDERS]), default=FETCH, show_default=True,
    help="Source for running clusters. fetch: brokers up to the high watermark, then --folder; folders: --folder only.",
)  # fmt: skip
@click.option(
    "--history", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="`tidelog check` history; verifies every acknowledged record is at its acknowledged offset.",
)  # fmt: skip
@flag("local", "Run in this process, without Spark.")
@click.option("--master", default=LOCAL_MASTER, show_default=True, help="Spark master.")
@click.option(
    "--piece-mb", type=click.IntRange(1), default=256, show_default=True, help="Data read by one task, in MB."
)
@flag("json", "Print the report as JSON.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write the report to this HTML file.")
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
    """Compare the logs of all replicas and check the guarantees of replication.

    Replicas are compared by offset, leader epoch and checksum; those of compacted topics by the last value of each key.
    The exit code is 1 if a guarantee is violated; docs/audit.md explains each finding and what to do.
    """
    from tidelog.audit.io import fetching, run
    from tidelog.cli.audit import audit_page, audit_text

    bootstrap = _bootstrap_servers(bootstrap, zookeeper)
    if html is not None and not html.absolute().parent.is_dir():
        raise CommandFailed(f"--html {html}: folder {html.absolute().parent} does not exist.")
    if read_from == FOLDERS and not bootstrap and folders:
        raise usage_error("--read requires --bootstrap; without it, folders are read completely.")
    if compacted and (bootstrap or not folders):
        raise usage_error(
            "--compacted requires --folder without --bootstrap; a cluster reports which topics are compacted."
        )
    try:
        wanted = acknowledged(history)
        given = find_log_dirs(folders)
        plan_options = {"acknowledged": wanted, "piece_bytes": piece_mb * 1_000_000}
        with ExitStack() as opened:
            make_plan: Callable[[Sequence[str]], Plan]
            if folders and not bootstrap:
                make_plan = partial(plan_for_folders, given, compacted, plan_options)
            else:
                make_plan = _cluster_planner(
                    opened, bootstrap or DEFAULT_BOOTSTRAP, command_config, given, read_from, plan_options
                )
            plan = make_plan(topics)
            check_history(history, wanted, {subject.name for subject in plan.subjects}, topics)
            runner = opened.enter_context(_runner(local=local, master=master))
            found = run.audit(plan, runner, report_line=lambda line: click.echo(f"audit: {line}", err=True))
            if bootstrap or not folders:
                found = run.confirmed(found, lambda again: run.audit(make_plan(again), runner))
    finally:
        fetching.close()
    if html is not None:
        html.write_text(audit_page.page(found), encoding="utf-8")
        click.echo(f"audit: report written to {html}", err=True)
    if json:
        click.echo(json_text.dumps(found.as_json(), indent=1))
    else:
        audit_text.draw(found)
    click.get_current_context().exit(0 if found.is_good else 1)


def _bootstrap_servers(bootstrap: str | None, store: str | None) -> str | None:
    if store is None:
        return bootstrap
    if bootstrap is not None:
        raise usage_error("--zookeeper and --bootstrap cannot be used together.")
    from tidelog.cli.store_address import bootstrap_from_store

    return bootstrap_from_store(store, current_zookeeper_options())


def _cluster_planner(
    opened: ExitStack,
    bootstrap: str,
    config: str | None,
    given: "Sequence[LogFolder]",
    read_from: str,
    plan_options: Mapping[str, Any],
) -> "Callable[[Sequence[str]], Plan]":
    """A function that plans the audit of topics of a running cluster."""
    from tidelog.audit.io import cluster
    from tidelog.cli.admin_requests import connect, given_client_options

    options = given_client_options(config)
    reached = cluster.ClusterAccess(
        bootstrap, options, from_folders=read_from == FOLDERS, piece_bytes=plan_options["piece_bytes"]
    )
    try:
        admin = opened.enter_context(connect(bootstrap, config))
    except CommandFailed as reason:
        raise CommandFailed(f"{reason.message} {NOT_RUNNING}") from None

    def make_plan(topics: Sequence[str]) -> "Plan":
        try:
            return cluster.plan(admin, reached, topics=topics, given=given, acknowledged=plan_options["acknowledged"])
        except cluster.NotFound as reason:
            raise CommandFailed(f"{reason} `tidelog topics --list` lists the existing topics.") from None

    return make_plan


@contextmanager
def _runner(*, local: bool, master: str) -> "Iterator[Run]":
    from importlib.util import find_spec

    lacks_spark = find_spec("pyspark") is None
    lacks_java = shutil.which("java") is None and "JAVA_HOME" not in os.environ
    if not local and master == LOCAL_MASTER and (lacks_spark or lacks_java):
        lacking = "PySpark is not installed" if lacks_spark else "no Java runtime was found"
        click.echo(f"audit: {lacking}, so this process reads the logs, as with --local", err=True)
        local = True
    if local:
        from tidelog.audit.io.run import run_locally

        yield run_locally
        return
    if lacks_spark:
        raise CommandFailed(f"{NO_SPARK}, or audit in this process with --local.")
    from tidelog.spark.audit_session import Failed, running

    try:
        with running(master) as run:
            yield run
    except Failed as reason:
        raise CommandFailed(f"Spark could not run the audit (--master {master}): {reason}. {NO_JAVA}") from None


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
    """Raise CommandFailed if the history has none of the audited partitions: it would report nothing lost, wrongly."""
    lacking = sorted(str(name) for name in {*wanted} - found if not topics or name.topic in topics)
    if wanted and not {*wanted} & found:
        there = ", ".join(sorted(map(str, wanted))[:5])
        raise CommandFailed(
            f"{history}: none of its partitions ({there}) is audited. Is it from another cluster? {HISTORIES}"
        )
    if lacking:
        click.echo(f"audit: partitions {', '.join(lacking)} of the history do not exist and are not audited", err=True)


def find_log_dirs(given: Sequence[Path]) -> "list[LogFolder]":
    from tidelog.audit.io.folders import find

    try:
        return find(given)
    except FileNotFoundError as reason:
        raise CommandFailed(f"{reason} Expected a log directory of a broker, or a folder that contains some.") from None
    except OSError as reason:
        raise CommandFailed(str(reason)) from None


def plan_for_folders(
    given: "Sequence[LogFolder]", compacted: Sequence[str], plan_options: Mapping[str, Any], topics: Sequence[str]
) -> "Plan":
    from tidelog.audit.io.plan import of_folders

    there = {name.topic for folder in given for name in folder.replicas}
    for topic in (*topics, *compacted):
        if topic not in there:
            topics_found = ", ".join(sorted(there)) or "no topic"
            raise CommandFailed(f"These folders have no replica of topic {topic}; they have {topics_found}.")
    return of_folders(given, topics=topics, compacted=compacted, **plan_options)
