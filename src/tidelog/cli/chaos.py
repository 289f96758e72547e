"""`tidelog chaos`: real broker processes, faults from a seed, and the history checker's verdict."""

import json as json_text
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelog.cli.long_running import sigterm_as_interrupt
from tidelog.cli.options import CommandFailed, flag, usage_error

if TYPE_CHECKING:
    from tidelog.check.chaos.report import Report


@click.command()
@click.option("--brokers", type=click.IntRange(1, 20), default=3, show_default=True, help="How many brokers.")
@click.option("--seconds", type=click.FloatRange(1), default=60, show_default=True, help="How long faults go on.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="What faults and calls are drawn from."
)
@click.option("--rate", type=click.FloatRange(1, 5000), default=200, show_default=True, help="Calls a second.")
@click.option("--transactions/--no-transactions", default=True, help="Half of the clients write in transactions.")
@click.option(
    "--late-seconds",
    type=click.FloatRange(1),
    default=15,
    show_default=True,
    help="How long the fault late holds requests at most.",
)
@click.option("--faults", help="Only these, separated by commas; all that the machine allows by default.")
@click.option(
    "--report", "folder", type=click.Path(file_okay=False, path_type=Path),
    help="Keep history, broker logs, report.json and report.html here; without it only where something is broken.",
)  # fmt: skip
@flag("json", "Print the report as JSON.")
def chaos(
    brokers: int,
    seconds: float,
    seed: int,
    rate: float,
    transactions: bool,
    late_seconds: float,
    faults: str | None,
    folder: Path | None,
    json: bool,
) -> None:
    """Run real broker processes, do faults to them while clients write and read, and judge what the clients saw.

    Brokers are killed, paused and restarted, and their requests arrive late; as root their disks are filled and their
    network is cut as well. The exit code is 1 where something happened that Kafka's promises rule out, or a broker
    ended by itself.
    """
    from tidelog.check.chaos import run as chaos_run
    from tidelog.shell.supervisor import NotReady

    kinds = _kinds(faults)
    report_folder = Path(tempfile.mkdtemp(prefix="tidelog-chaos-")) if folder is None else folder
    files = chaos_run.Files(report_folder)
    if files.data.exists():
        raise CommandFailed(f"{files.data} exists already: a run starts from nothing.")
    with sigterm_as_interrupt():
        try:
            report = chaos_run.run(
                files, brokers=brokers, seconds=seconds, seed=seed, rate=rate, kinds=kinds, transactions=transactions,
                late_s=late_seconds, report_line=lambda line: click.echo(f"chaos: {line}", err=True),
            )  # fmt: skip
        except NotReady as reason:
            raise CommandFailed(f"The cluster does not start: {reason}.") from None
    _print_report(report, report_folder, keeps=folder is not None, as_json=json)
    click.get_current_context().exit(0 if report.is_good else 1)


def _kinds(given: str | None) -> list[str]:
    from tidelog.check.chaos.schedule import KINDS

    kinds = list(KINDS) if given is None else [kind.strip() for kind in given.split(",")]
    for kind in kinds:
        if kind not in KINDS:
            raise usage_error(f"--faults does not know {kind!r}; there are {', '.join(KINDS)}.")
    return kinds


def _print_report(report: "Report", report_folder: Path, *, keeps: bool, as_json: bool) -> None:
    from tidelog.check.chaos.page import page
    from tidelog.cli.check import print_verdict

    assert report.verdict is not None
    if keeps or not report.is_good:
        (report_folder / "report.json").write_text(json_text.dumps(report.as_json(), indent=1), encoding="utf-8")
        (report_folder / "report.html").write_text(page(report), encoding="utf-8")
    if as_json:
        click.echo(json_text.dumps(report.as_json(), indent=1))
    else:
        print_verdict(report.verdict, as_json=False)
        for problem in report.problems:
            click.echo(f"problem: {problem}")
        for (api, answer), count in sorted(report.late_counts.items()):
            click.echo(f"late: {count} {api}, {answer}")
        click.echo(
            f"faults {len(report.faults)}, longest time without an acknowledgement {report.longest_silence_s:g} s, "
            f"seed {report.seed} {'ok' if report.is_good else 'FAILED'}"
        )
    if report.is_good:
        shutil.rmtree(report_folder / "data" if keeps else report_folder, ignore_errors=True)
    if keeps or not report.is_good:
        click.echo(f"chaos: the report is in {report_folder}", err=True)
