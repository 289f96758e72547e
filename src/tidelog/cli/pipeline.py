"""`tidelog pipeline`: lists the pipelines of `tidelog.spark.pipelines`, and runs one with a progress display."""

import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandFailed,
    Pair,
    command_config_option,
    file_options,
    flag,
)

if TYPE_CHECKING:
    from tidelog.spark.pipelines.plan import Pipeline, Plan
    from tidelog.spark.pipelines.running import OnProgress, Report

LOG = "spark.log"
MAX_ERROR_LENGTH = 600
_CAUSE = re.compile(r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Lost|Refused|Option|Copy): (.+)$", re.MULTILINE)
COLUMNS = ("stage", "batch", "rows", "rows/s", "lag")


@click.group()
def pipeline() -> None:
    """List and run Spark pipelines over topics.

    Pipelines require tidelog[spark] and a Java runtime. They work with any Kafka cluster, store their position in a
    checkpoint, and resume from it after a crash.
    """


@pipeline.command("list")
@flag("json", "Print JSON.")
def list_pipelines(json: bool) -> None:
    """List the pipelines and their options."""

    found = pipelines()
    if json:
        from json import dumps

        click.echo(dumps({name: _as_json(each) for name, each in found.items()}, indent=2))
        return
    for name, each in found.items():
        click.echo(f"{name}: {each.sentence}")
        for option, (default, sentence) in each.options.items():
            given = "required" if default is None else f"default: {default}" if default else "optional"
            click.echo(f"  {option} ({given}): {sentence}")


def _as_json(pipeline: "Pipeline") -> dict[str, Any]:
    options = {name: {"default": default, "sentence": text} for name, (default, text) in pipeline.options.items()}
    return {"sentence": pipeline.sentence, "options": options}


def pipelines() -> "Mapping[str, Pipeline]":
    """All pipelines; CommandFailed if Spark is not installed."""
    missing = [name for name in ("pyspark", "pandas", "pyarrow") if find_spec(name) is None]
    if missing:
        raise CommandFailed(f"Pipelines require {missing[0]}: pip install 'tidelog[spark]'.")
    from tidelog.spark.pipelines.table import PIPELINES

    return PIPELINES


def check_java() -> None:
    """Raise CommandFailed if there is no Java runtime, which Spark requires."""
    from os import environ

    if which("java") is None and "JAVA_HOME" not in environ:
        raise CommandFailed("Spark requires Java 17 or newer; put `java` on the PATH or set JAVA_HOME.")


@pipeline.command()
@click.argument("name")
@click.option(
    "--bootstrap", type=Bootstrap(), default=DEFAULT_BOOTSTRAP, show_default=True, help="Brokers of the cluster."
)
@click.option(
    "--checkpoint", required=True, metavar="FOLDER",
    help="Checkpoint folder, or a URI such as s3a://BUCKET/NAME; a later run resumes from it.",
)  # fmt: skip
@click.option("--option", "options", type=Pair(), multiple=True, help="Option of the pipeline, see `list`; repeatable.")
@click.option("--master", help="Spark master, e.g. spark://HOST:7077 or yarn (default: local[2]).")
@click.option("--py-files", metavar="FILE,...", help="Python modules for driver and executors, separated by commas.")
@click.option(
    "--conf", "--spark", "settings", type=Pair(), multiple=True, metavar="NAME=VALUE",
    help="Spark setting, e.g. spark.executor.cores=2; repeatable.",
)  # fmt: skip
@click.option(
    "--kafka", "kafka", type=Pair(), multiple=True, help="Client option, e.g. security.protocol=SASL_SSL; repeatable."
)
@command_config_option
@click.option(
    "--target-command-config",
    type=click.Path(exists=True, dir_okay=False),
    help="The same for another cluster that the pipeline writes to (mirror).",
)
@click.option("--every", default="1 second", show_default=True, help="Interval of micro-batches.")
@click.option(
    "--restarts", type=click.IntRange(0), default=3, show_default=True,
    help="Maximum number of consecutive restarts of a failing stage.",
)  # fmt: skip
@flag("once", "Process the available records, then stop.")
def run(
    name: str,
    bootstrap: str,
    checkpoint: str,
    options: Sequence[tuple[str, str]],
    master: str | None,
    py_files: str | None,
    settings: Sequence[tuple[str, str]],
    kafka: Sequence[tuple[str, str]],
    command_config: str | None,
    target_command_config: str | None,
    every: str,
    restarts: int,
    once: bool,
) -> None:
    """Run the pipeline NAME until interrupted.

    With --once, run until all available records are processed. Spark's own log is spark.log in the checkpoint folder,
    or in the working folder if the checkpoint is a URI.
    """
    from tidelog.cli.admin_requests import check_reachable
    from tidelog.spark.pipelines.folders import absolute, is_uri
    from tidelog.spark.pipelines.plan import Plan, WrongOption, claim_checkpoint, milliseconds

    known = pipelines()
    if name not in known:
        raise CommandFailed(f"Unknown pipeline {name!r}; expected one of {', '.join(known)}.")
    try:
        chosen = known[name].complete(dict(options))
        milliseconds("every", every)
    except WrongOption as error:
        raise CommandFailed(f"Pipeline {name}: {error}.") from None
    check_java()
    check_reachable(bootstrap)
    for each in known[name].clusters:
        _check_cluster_option(each, chosen[each])
    if target_command_config and not known[name].clusters:
        raise CommandFailed(f"Pipeline {name} writes to no other cluster: --target-command-config has no effect.")
    clients = {**_clients(command_config), **{f"kafka.{key}": value for key, value in kafka}}
    away = _clients(target_command_config)
    plan = Plan(bootstrap, absolute(checkpoint), chosen, clients, away=away, once=once, every=every)
    if not is_uri(checkpoint):
        try:
            claim_checkpoint(name, known[name], plan)
        except (WrongOption, OSError) as error:
            raise CommandFailed(f"Pipeline {name}: {error}.") from None
    _run(name, plan, _spark_settings(master, py_files, settings), restarts)


def _spark_settings(master: str | None, py_files: str | None, settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """As for spark-submit, `--master` and `--py-files` take precedence over `--conf`."""
    named = {"spark.master": master, "spark.submit.pyFiles": py_files}
    return {**dict(settings), **{name: text for name, text in named.items() if text}}


def _clients(command_config: str | None) -> dict[str, str]:
    """The options in the file that define how a cluster is reached, as the source and the sink name them."""
    from tidelog.cli.admin_requests import given_client_options

    given = file_options(command_config)
    reaching = {name.replace("_", ".") for name in given_client_options(command_config)}
    return {f"kafka.{name}": text for name, text in given.items() if name in reaching}


def _check_cluster_option(option: str, addresses: str) -> None:
    """Raise CommandFailed if an option that names a cluster has no reachable broker."""
    from tidelog.cli.admin_requests import check_reachable

    try:
        check_reachable(addresses)
    except (ValueError, CommandFailed) as error:
        raise CommandFailed(
            f"Option {option!r}: {str(error).rstrip('.')}; expected host:port,… of running brokers."
        ) from None


def _run(name: str, plan: "Plan", settings: Mapping[str, str], restarts: int) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from tidelog.spark.options import BadOption
    from tidelog.spark.pipelines.folders import is_uri
    from tidelog.spark.pipelines.plan import WrongOption, claim_checkpoint
    from tidelog.spark.pipelines.running import QueryFailed, run
    from tidelog.spark.pipelines.session import session

    pipeline = pipelines()[name]
    is_away = is_uri(str(plan.checkpoint))
    log = Path(LOG).absolute() if is_away else Path(plan.checkpoint) / LOG
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with session(log, settings) as spark, print_progress() as show:
            if is_away:
                claim_checkpoint(name, pipeline, plan, spark)
            run(pipeline.stages(spark, plan), once=plan.once, on_progress=show, restarts=restarts)
    except (QueryFailed, WrongOption, BadOption, PySparkException, Py4JError) as error:
        raise CommandFailed(f"{_innermost_cause(error)} (more in {log})") from None


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _innermost_cause(error: Exception) -> str:
    """The innermost error that an error of Spark quotes, or its first line."""
    found = _CAUSE.findall(str(error))
    return (found[-1] if found else str(error).splitlines()[0])[:MAX_ERROR_LENGTH]


@contextmanager
def print_progress() -> "Iterator[OnProgress]":
    """Yield a function that shows a report on stderr: in a table that is redrawn on a terminal, else as a line per
    batch."""
    if not sys.stderr.isatty():
        yield _print
        return
    from rich.console import Console
    from rich.live import Live

    reports: dict[str, Report] = {}
    with Live(console=Console(stderr=True), refresh_per_second=4) as live:

        def show(report: "Report") -> None:
            reports[report.stage] = report
            live.update(_progress_table(reports))

        yield show


def progress_row(report: "Report") -> tuple[str, ...]:
    standing = report.standing
    lag = "" if standing.lag is None else f"{standing.lag:,}"
    batch = "" if standing.batch < 0 else str(standing.batch)
    return report.stage, batch, f"{standing.rows:,}", f"{standing.rate:,.0f}", lag


def _progress_table(reports: "dict[str, Report]") -> Any:
    from rich.table import Table

    table = Table()
    for name in COLUMNS:
        table.add_column(name, justify="left" if name == "stage" else "right")
    for report in reports.values():
        table.add_row(*progress_row(report))
    return table


def _print(report: "Report") -> None:
    if report.is_new:
        stage, batch, rows, rate, lag = progress_row(report)
        behind = f", lag {lag}" if lag else ""
        click.echo(f"{stage}: batch {batch}, {rows} rows, {rate} rows/s{behind}", err=True)
