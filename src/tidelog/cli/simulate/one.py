"""One seed: how it ends, all that happens, or a smaller one that fails in the same way."""

from typing import TYPE_CHECKING

import click

from tidelog.cli.simulate.failing import faults, make_smaller, readable, replay, tell
from tidelog.cli.simulate.watching import progress

if TYPE_CHECKING:
    from tidelog.sim.plan import Plan


def run_one(plan: "Plan", *, transcript: bool, listen: bool, shrink: bool) -> int:
    """The exit code: 1 where an invariant broke."""
    from tidelog.sim import run

    outcome, entries = replay(plan, listen=listen)
    if outcome.ok and outcome.slow:
        outcome = run.run_timed(plan)
    if listen or transcript:
        for line in readable(entries) if listen else map(str, entries):
            click.echo(line)
    if outcome.ok:
        click.echo(f"seed {plan.seed}: {outcome.steps} steps, {outcome.seconds:.0f} simulated seconds, ok")
        click.echo(f"digest: {outcome.digest}")
        click.echo(f"faults: {faults(outcome)}")
        return 0
    if shrink:
        with progress() as show:
            outcome = make_smaller(outcome, show)
    tell(outcome)
    return 1
