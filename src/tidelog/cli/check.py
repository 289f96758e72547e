"""`tidelog check`: runs clients against any Kafka cluster and checks their history; prints verdicts, also for chaos."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.formatting import Column, table_lines
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandFailed, command_config_option, flag

if TYPE_CHECKING:
    from tidelog.check.history.verdict import Verdict
    from tidelog.check.workload.recorder import Recorder
    from tidelog.check.workload.target import WorkloadTarget
    from tidelog.check.workload.workload import Workload

TICK_S = 0.25
LINE_INTERVAL_S = 10.0
"""The interval of progress lines if stderr is not a terminal."""

MAX_SHOWN = 5
"""The number of anomalies printed per kind; the JSON has more."""


@click.group()
def check() -> None:
    """Check what clients saw: lost, duplicated, reordered, inconsistent or aborted records.

    Works with any Kafka cluster. A history is a file with a line for each operation that a client started or finished.
    """


@check.command()
@click.option(
    "--bootstrap", type=Bootstrap(), default=DEFAULT_BOOTSTRAP, show_default=True, help="Brokers of the cluster."
)
@command_config_option
@click.option(
    "--seconds",
    type=click.FloatRange(1),
    default=60,
    show_default=True,
    help="Duration of writing and reading, in seconds.",
)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("history.jsonl"), show_default=True,
    help="History file to write.",
)  # fmt: skip
@click.option("--topics", type=click.IntRange(1, 100), default=2, show_default=True, help="Number of topics.")
@click.option(
    "--partitions", type=click.IntRange(1, 1000), default=3, show_default=True, help="Number of partitions per topic."
)
@click.option(
    "--workers", type=click.IntRange(2, 64), default=4, show_default=True, help="Number of concurrent clients."
)
@click.option(
    "--rate",
    type=click.FloatRange(1, 5000),
    default=200,
    show_default=True,
    help="Operations per second, of all clients.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the clients' random choices."
)
@click.option("--transactions/--no-transactions", default=True, help="Whether half of the clients use transactions.")
@flag("keep", "Keep the topics (they are always kept if a check fails).")
@flag("json", "Print the verdict as JSON.")
def run(
    bootstrap: str,
    command_config: str | None,
    seconds: float,
    out: Path,
    topics: int,
    partitions: int,
    workers: int,
    rate: float,
    seed: int,
    transactions: bool,
    keep: bool,
    json: bool,
) -> None:
    """Write to and read from a cluster, then check the history.

    Clients write unique values to topics of their own and read them back; they crash and change subscriptions. At the
    end all records are read once more. The exit code is 1 if the history violates Kafka's guarantees.
    """
    from tidelog.check.workload import target
    from tidelog.check.workload.workload import Plan, Workload
    from tidelog.cli.admin_requests import check_reachable, given_client_options

    check_reachable(bootstrap)
    client = given_client_options(command_config)
    plan = Plan(
        seconds=seconds, topics=topics, partitions=partitions, workers=workers, rate=rate, seed=seed,
        transactions=transactions,
    )  # fmt: skip
    prepared = target.create_topics(bootstrap, topics, partitions, client)
    workload = Workload(prepared, plan, out)
    _run_workload(workload, seconds)
    verdict = _verdict_on(out)
    print_verdict(verdict, as_json=json, extra={"history": str(out), "topics": prepared.topics})
    if verdict.is_good and not keep:
        _delete_topics(prepared)
    click.get_current_context().exit(0 if verdict.is_good else 1)


def _delete_topics(prepared: "WorkloadTarget") -> None:
    from tidelog.check.workload import target
    from tidelog.errors import ApiError

    try:
        target.delete_topics(prepared)
    except ApiError as error:
        click.echo(f"Topics {', '.join(prepared.topics)} were not deleted: {error}.", err=True)


def _run_workload(workload: "Workload", seconds: float) -> None:
    started_at = time.monotonic()
    with workload_progress(workload.recorder) as show:
        workload.start()
        while time.monotonic() - started_at < seconds:
            time.sleep(TICK_S)
            workload.tick()
            show(f"{time.monotonic() - started_at:.0f} of {seconds:.0f} s", is_urgent=False)
        workload.finish(lambda line: show(line, is_urgent=True))


def _verdict_on(file: Path) -> "Verdict":
    from tidelog.check.history.text import parse
    from tidelog.check.history.verdict import verify

    with file.open(encoding="utf-8") as lines:
        return verify(parse(lines))


@contextmanager
def workload_progress(recorder: "Recorder") -> "Iterator[Callable[..., None]]":
    """Yield `show(text, is_urgent=…)`, which prints to stderr: a line that is redrawn on a terminal, or else a line
    every 10 s and for each urgent text."""
    from sys import stderr

    is_terminal = stderr.isatty()
    next_at = LINE_INTERVAL_S

    def show(text: str, *, is_urgent: bool) -> None:
        nonlocal next_at
        line = f"check: {text}, {_counts(recorder)}"
        if is_terminal:
            click.echo(f"\r{line}\x1b[K", err=True, nl=False)
        elif is_urgent or recorder.seconds >= next_at:
            next_at = recorder.seconds + LINE_INTERVAL_S
            click.echo(line, err=True)

    try:
        yield show
    finally:
        if is_terminal:
            click.echo("", err=True)


def _counts(recorder: "Recorder") -> str:
    from tidelog.check.history.operation import INFO, OK, POLL, SEND, TXN

    outcomes = recorder.outcomes
    unknown = sum(count for (_, type_), count in outcomes.items() if type_ == INFO)
    sends = outcomes[SEND, OK] + outcomes[TXN, OK]
    return f"{sends} writes and {outcomes[POLL, OK]} polls answered, {unknown} calls without an answer"


@check.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@flag("json", "Print the verdict as JSON.")
def verify(file: Path, json: bool) -> None:
    """Check a history file.

    The exit code is 1 if the history violates Kafka's guarantees.
    """
    from tidelog.check.history.text import NotAHistory, parse
    from tidelog.check.history.verdict import verify as judge

    try:
        with file.open(encoding="utf-8", errors="backslashreplace") as lines:
            history = parse(lines)
    except NotAHistory as refusal:
        raise CommandFailed(f"{file}, {refusal}.") from None
    verdict = judge(history)
    print_verdict(verdict, as_json=json)
    click.get_current_context().exit(0 if verdict.is_good else 1)


def print_verdict(verdict: "Verdict", *, as_json: bool, extra: dict[str, Any] | None = None) -> None:
    if as_json:
        click.echo(json.dumps({**verdict.as_json(), **(extra or {})}, indent=2))
        return
    from tidelog.check.history.verdict import KINDS

    columns = [
        Column("ANOMALY", 8, grows=True),
        Column("FOUND", 5, grows=True),
        Column("VERDICT", 8),
        Column("MEANS", 0),
    ]
    rows = [
        (kind, len(found), "allowed" if KINDS[kind].is_allowed else "BROKEN", KINDS[kind].meaning)
        for kind, found in verdict.anomalies.items()
    ]
    if rows:
        click.echo("\n".join(table_lines(columns, rows)))
        click.echo()
    for kind, found in verdict.anomalies.items():
        if not KINDS[kind].is_allowed:
            for anomaly in found[:MAX_SHOWN]:
                click.echo(f"{kind}: {anomaly.text(verdict.header)}")
            if len(found) > MAX_SHOWN:
                click.echo(f"{kind}: {len(found) - MAX_SHOWN} more")
    click.echo(_summary(verdict))


def _summary(verdict: "Verdict") -> str:
    figures = verdict.figures
    counts = (
        f"values: {figures['values_certain']} certain, {figures['values_indeterminate']} indeterminate, "
        f"{figures['values_failed']} failed, {figures['values_read']} read; "
        f"{figures['processes']} processes, {figures['partitions']} partitions, {figures['scans']} final reads"
    )
    last = "ok" if verdict.is_good else "FAILED"
    return f"{counts}\nbroken {len(verdict.broken)} {last}"
