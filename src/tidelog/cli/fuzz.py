"""`tidelog fuzz`: sends hostile requests to a cluster, and checks that another client is still served."""

import time
from typing import TYPE_CHECKING

import click

from tidelog.cli.long_running import progress_line
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandFailed, command_config_option

if TYPE_CHECKING:
    from tidelog.check.fuzz.canary import Canary
    from tidelog.check.fuzz.run import Tally


@click.command()
@click.option(
    "--bootstrap", type=Bootstrap(), default=DEFAULT_BOOTSTRAP, show_default=True, help="Brokers of the cluster."
)
@command_config_option
@click.option("--frames", type=click.IntRange(1), default=100_000, show_default=True, help="Number of frames to send.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the frames.")
@click.option(
    "--max-latency-ms",
    type=click.IntRange(1),
    default=5000,
    show_default=True,
    help="Longest time that a produce and a fetch of another client may take, in ms.",
)
def fuzz(bootstrap: str, command_config: str | None, frames: int, seed: int, max_latency_ms: int) -> None:
    """Send malformed and odd requests to a cluster while another client uses it.

    Use a cluster that you can lose: some requests are valid, and create, alter or delete what they name. The exit code
    is 1 if the other client is refused, or not answered in time.
    """
    from tidelog.check.fuzz.canary import Canary
    from tidelog.check.fuzz.run import run
    from tidelog.check.workload import target
    from tidelog.cli.admin_requests import check_reachable, given_client_options

    check_reachable(bootstrap)
    client = given_client_options(command_config)
    prepared = target.create_topics(bootstrap, 1, 1, client)
    canary = Canary(prepared, max_latency_ms)
    canary.start()
    started = time.monotonic()
    try:
        with progress_line() as line:
            tally = run(
                bootstrap, client, seed, frames, canary,
                lambda tally: line(lambda: f"fuzz: {tally.sent} of {frames} frames, {_rest(tally, canary)}"),
            )  # fmt: skip
    except OSError as error:
        raise CommandFailed(
            f"A broker does not accept connections any more: {error}. {_repeat(frames, seed)}"
        ) from None
    finally:
        canary.stop()
    seconds = time.monotonic() - started
    click.echo(f"{tally.sent} frames in {seconds:.1f} s, {tally.sent / seconds:.0f} a second: {_rest(tally, canary)}")
    for change, count in tally.closed.most_common():
        click.echo(f"connections closed by frames with {change}: {count}")
    click.echo(_repeat(frames, seed))
    if canary.failure is not None:
        raise CommandFailed(f"{canary.failure[0].upper()}{canary.failure[1:]}.")
    target.delete_topics(prepared)


def _rest(tally: "Tally", canary: "Canary") -> str:
    p50, p99, longest = (canary.percentile(share) for share in (0.5, 0.99, 1))
    return (
        f"{tally.answered} survived, {tally.closed.total()} closed their connection, {tally.waited} waited; "
        f"canary: {len(canary.latencies_ms)} rounds, p50 {p50:.0f} ms, p99 {p99:.0f} ms, max {longest:.0f} ms"
    )


def _repeat(frames: int, seed: int) -> str:
    return f"To repeat: tidelog fuzz --frames {frames} --seed {seed}"
