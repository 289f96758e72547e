"""The table of `tidelog pipeline`, and `list`."""

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

from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandFailed, Pair, flag

if TYPE_CHECKING:
    from tidelog.spark.pipelines.plan import Pipeline, Plan
    from tidelog.spark.pipelines.running import Report, Tell

LOG = "spark.log"
MAX_ERROR_LENGTH = 600
_CAUSE = re.compile(r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Lost|Refused|Option|Copy): (.+)$", re.MULTILINE)
COLUMNS = ("stage", "batch", "rows", "rows/s", "lag")


@click.group()
def pipeline() -> None:
    """Pipelines over topics that run on Spark: pip install 'tidelog[spark]', and a Java runtime.

    Each works with any Kafka cluster, keeps its place in a checkpoint, and goes on there after any crash.
    """


@pipeline.command("list")
@flag("json", "Print JSON.")
def list_pipelines(json: bool) -> None:
    """Name the pipelines, and the options that --option sets."""

    found = pipelines()
    if json:
        from json import dumps

        click.echo(dumps({name: _as_json(each) for name, each in found.items()}, indent=2))
        return
    for name, each in found.items():
        click.echo(f"{name}: {each.sentence}")
        for option, (default, sentence) in each.options.items():
            given = "needed" if default is None else f"default: {default}" if default else "may be left out"
            click.echo(f"  {option} ({given}): {sentence}")


def _as_json(pipeline: "Pipeline") -> dict[str, Any]:
    options = {name: {"default": default, "sentence": text} for name, (default, text) in pipeline.options.items()}
    return {"sentence": pipeline.sentence, "options": options}


def pipelines() -> "Mapping[str, Pipeline]":
    """Those there are; CommandFailed where Spark is not installed."""
    missing = [name for name in ("pyspark", "pandas", "pyarrow") if find_spec(name) is None]
    if missing:
        raise CommandFailed(f"Pipelines need {missing[0]}: pip install 'tidelog[spark]'.")
    from tidelog.spark.pipelines.table import PIPELINES

    return PIPELINES


def check_java() -> None:
    """CommandFailed where there is no Java runtime, which Spark runs on."""
    from os import environ

    if which("java") is None and "JAVA_HOME" not in environ:
        raise CommandFailed("Spark needs a Java runtime, version 17 or newer, as `java` on the path or in JAVA_HOME.")


@pipeline.command()
@click.argument("name")
@click.option("--bootstrap", type=Bootstrap(), default=DEFAULT_BOOTSTRAP, show_default=True, help="The cluster.")
@click.option(
    "--checkpoint", type=click.Path(file_okay=False, path_type=Path), required=True,
    help="The folder that keeps how far it is; it goes on there when it is run again.",
)  # fmt: skip
@click.option("--option", "options", type=Pair(), multiple=True, help="An option of the pipeline; `list` names them.")
@click.option("--spark", "settings", type=Pair(), multiple=True, help="A setting of Spark: spark.master=local[4].")
@click.option("--kafka", "kafka", type=Pair(), multiple=True, help="An option of clients: security.protocol=SASL_SSL.")
@click.option("--every", default="1 second", show_default=True, help="How often a micro-batch begins.")
@click.option(
    "--restarts", type=click.IntRange(0), default=3, show_default=True,
    help="How often a stage that fails is started again without having ended a batch in between.",
)  # fmt: skip
@flag("once", "Do what is there now, and end.")
def run(
    name: str,
    bootstrap: str,
    checkpoint: Path,
    options: Sequence[tuple[str, str]],
    settings: Sequence[tuple[str, str]],
    kafka: Sequence[tuple[str, str]],
    every: str,
    restarts: int,
    once: bool,
) -> None:
    """Run the pipeline NAME until it is interrupted, or with --once until everything that is there is done.

    What Spark itself says is in the file spark.log of the checkpoint's folder.
    """
    from tidelog.cli.admin_requests import check_reachable
    from tidelog.spark.pipelines.plan import Plan, WrongOption, claim_checkpoint, milliseconds

    known = pipelines()
    if name not in known:
        raise CommandFailed(f"There is no pipeline {name!r}; there are {', '.join(known)}.")
    try:
        chosen = known[name].complete(dict(options))
        milliseconds("every", every)
    except WrongOption as error:
        raise CommandFailed(f"Pipeline {name}: {error}.") from None
    check_java()
    check_reachable(bootstrap)
    for each in known[name].clusters:
        _check_cluster_option(each, chosen[each])
    clients = {f"kafka.{key}": value for key, value in kafka}
    plan = Plan(bootstrap, checkpoint.absolute(), chosen, clients, once=once, every=every)
    try:
        claim_checkpoint(name, known[name], plan)
    except WrongOption as error:
        raise CommandFailed(f"Pipeline {name}: {error}.") from None
    _run(known[name], plan, dict(settings), restarts)


def _check_cluster_option(option: str, addresses: str) -> None:
    """CommandFailed where an option that names a cluster names none that is there."""
    from tidelog.cli.admin_requests import check_reachable

    try:
        check_reachable(addresses)
    except (ValueError, CommandFailed) as error:
        raise CommandFailed(
            f"Option {option!r}: {str(error).rstrip('.')}; give host:port,… of brokers that run."
        ) from None


def _run(pipeline: "Pipeline", plan: "Plan", settings: Mapping[str, str], restarts: int) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from tidelog.spark.options import BadOption
    from tidelog.spark.pipelines.plan import WrongOption
    from tidelog.spark.pipelines.running import QueryFailed, run
    from tidelog.spark.pipelines.session import session

    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with session(plan.checkpoint / LOG, settings) as spark, print_progress() as show:
            run(pipeline.stages(spark, plan), once=plan.once, tell=show, restarts=restarts)
    except (QueryFailed, WrongOption, BadOption, PySparkException, Py4JError) as error:
        raise CommandFailed(f"{_innermost_cause(error)} (more in {plan.checkpoint / LOG})") from None


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _innermost_cause(error: Exception) -> str:
    """The innermost thing that an error of Spark names, or its first line."""
    found = _CAUSE.findall(str(error))
    return (found[-1] if found else str(error).splitlines()[0])[:MAX_ERROR_LENGTH]


@contextmanager
def print_progress() -> "Iterator[Tell]":
    """`tell(report)` for as long as the context lasts."""
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
