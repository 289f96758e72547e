"""`tidelog pipeline run`."""

import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Pair, Refused, flag

if TYPE_CHECKING:
    from tidelog.spark.pipelines.plan import Pipeline, Plan

LOG = "spark.log"
MOST_WORDS = 600
_CAUSE = re.compile(r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Lost|Refused|Option|Copy): (.+)$", re.MULTILINE)


@click.command()
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
    from tidelog.cli.cluster import check_reachable
    from tidelog.cli.pipeline import needs
    from tidelog.spark.pipelines.kept import claim
    from tidelog.spark.pipelines.plan import Plan, WrongOption, milliseconds

    pipelines = needs.pipelines()
    if name not in pipelines:
        raise Refused(f"There is no pipeline {name!r}; there are {', '.join(pipelines)}.")
    try:
        chosen = pipelines[name].complete(dict(options))
        milliseconds("every", every)
    except WrongOption as error:
        raise Refused(f"Pipeline {name}: {error}.") from None
    needs.check_java()
    check_reachable(bootstrap)
    for each in pipelines[name].clusters:
        _check_other(each, chosen[each])
    clients = {f"kafka.{key}": value for key, value in kafka}
    plan = Plan(bootstrap, checkpoint.absolute(), chosen, clients, once=once, every=every)
    try:
        claim(name, pipelines[name], plan)
    except WrongOption as error:
        raise Refused(f"Pipeline {name}: {error}.") from None
    _run(pipelines[name], plan, dict(settings), restarts)


def _check_other(option: str, addresses: str) -> None:
    """Refused where an option that names a cluster names none that is there."""
    from tidelog.cli.cluster import check_reachable

    try:
        check_reachable(addresses)
    except (ValueError, Refused) as error:
        raise Refused(f"Option {option!r}: {str(error).rstrip('.')}; give host:port,… of brokers that run.") from None


def _run(pipeline: "Pipeline", plan: "Plan", settings: Mapping[str, str], restarts: int) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from tidelog.cli.pipeline.progress_output import progress
    from tidelog.spark.options import BadOption
    from tidelog.spark.pipelines.plan import WrongOption
    from tidelog.spark.pipelines.running import QueryFailed, run
    from tidelog.spark.pipelines.session import session

    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with session(plan.checkpoint / LOG, settings) as spark, progress() as tell:
            run(pipeline.stages(spark, plan), once=plan.once, tell=tell, restarts=restarts)
    except (QueryFailed, WrongOption, BadOption, PySparkException, Py4JError) as error:
        raise Refused(f"{_cause(error)} (more in {plan.checkpoint / LOG})") from None


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _cause(error: Exception) -> str:
    """The innermost thing that an error of Spark names, or its first line."""
    found = _CAUSE.findall(str(error))
    return (found[-1] if found else str(error).splitlines()[0])[:MOST_WORDS]
