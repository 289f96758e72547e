"""`tidelog chaos`: injects faults into real broker processes, drawn from a seed, and checks the history of clients."""

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
@click.option("--brokers", type=click.IntRange(1, 20), default=3, show_default=True, help="Number of brokers.")
@click.option(
    "--seconds", type=click.FloatRange(1), default=60, show_default=True, help="Duration of the faults, in seconds."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of faults and operations.")
@click.option("--rate", type=click.FloatRange(1, 5000), default=200, show_default=True, help="Operations per second.")
@click.option("--transactions/--no-transactions", default=True, help="Whether half of the clients use transactions.")
@click.option(
    "--late-seconds",
    type=click.FloatRange(1),
    default=15,
    show_default=True,
    help="Maximum delay by the fault 'late', in seconds.",
)
@click.option("--faults", help="Comma-separated fault kinds (default: all that the machine allows).")
@click.option(
    "--report", "folder", type=click.Path(file_okay=False, path_type=Path),
    help="Folder for history, broker logs and reports (default: kept only on failure).",
)  # fmt: skip
@click.option(
    "--metadata", type=click.Choice(["sqlite", "quorum"]), default="sqlite", show_default=True,
    help="Where the cluster's metadata is.",
)  # fmt: skip
@flag("secure", "Run a cluster with TLS, a password and an authorizer.")
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
    metadata: str,
    secure: bool,
    json: bool,
) -> None:
    """Inject faults into broker processes while clients write and read, then check what the clients saw.

    Brokers are killed, paused and restarted, and their requests are delayed. With root, disks are also filled and the
    network is partitioned. The exit code is 1 if the history violates Kafka's guarantees or a broker exited by itself.
    """
    from tidelog.check.chaos import run as chaos_run
    from tidelog.shell.supervisor import NotReady

    kinds = _kinds(faults)
    report_folder = Path(tempfile.mkdtemp(prefix="tidelog-chaos-")) if folder is None else folder
    files = chaos_run.Files(report_folder)
    if files.data.exists():
        raise CommandFailed(f"{files.data} already exists; --report requires a folder without earlier data.")
    with sigterm_as_interrupt():
        try:
            report = chaos_run.run(
                files, brokers=brokers, seconds=seconds, seed=seed, rate=rate, kinds=kinds, transactions=transactions,
                late_s=late_seconds, secure=secure, quorum=metadata == "quorum",
                report_line=lambda line: click.echo(f"chaos: {line}", err=True),
            )  # fmt: skip
        except KeyboardInterrupt:
            if folder is None:  # no failure: nothing to look at
                shutil.rmtree(report_folder, ignore_errors=True)
            raise
        except NotReady as reason:
            raise CommandFailed(f"The cluster did not start: {reason}.") from None
    _print_report(report, report_folder, keeps=folder is not None, as_json=json)
    click.get_current_context().exit(0 if report.is_good else 1)


def _kinds(given: str | None) -> list[str]:
    from tidelog.check.chaos.schedule import KINDS

    kinds = list(KINDS) if given is None else [kind.strip() for kind in given.split(",")]
    for kind in kinds:
        if kind not in KINDS:
            raise usage_error(f"--faults: unknown kind {kind!r}; expected {', '.join(KINDS)}.")
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
        click.echo(f"chaos: report written to {report_folder}", err=True)
