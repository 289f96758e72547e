"""A run that broke something, for whoever has to find out why: what broke, who said what before, how to repeat it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tidelog.sim.cluster import Cluster
    from tidelog.sim.outcome import Outcome
    from tidelog.sim.plan import Plan
    from tidelog.sim.trace import TraceEntry

WIDTH = 300
LAST = 60
"""EventLogger of the transcript where nobody asked for all."""

TIME = "I49"
"""Processor time is never the same again."""

UNREADABLE = frozenset(
    {"Send", "receive", "Sync", "synced", "Close", "wake", "Store", "Connect", "connected", "answer"}
)
"""What the messages themselves, or the store's line, say better."""


def replay(plan: "Plan", *, listen: bool) -> tuple["Outcome", "list[TraceEntry]"]:
    """Run it with all its transcript kept; `listen`: with every message, made readable."""
    from tidelog.sim.run import run
    from tidelog.sim.trace import Trace

    trace = Trace()
    trace.keep_all()

    def prepared(cluster: "Cluster") -> None:
        cluster.world.trace = trace
        if listen:
            cluster.world.listen_in()

    return run(plan, prepared), trace.entries


def readable(entries: "Sequence[TraceEntry]") -> list[str]:
    """One line each, as far as a screen goes."""
    return [str(entry)[:WIDTH] for entry in entries if entry.what not in UNREADABLE]


def tell(outcome: "Outcome", last: int | None = LAST) -> None:
    """Run it again and print what led to its end."""
    again, entries = replay(outcome.plan, listen=True)
    lines = readable(entries)
    click.echo(f"seed {outcome.plan.seed}: {outcome.broken}")
    for line in lines[-last:] if last else lines:
        click.echo(line)
    if again.broken != outcome.broken and outcome.invariant != TIME:
        click.echo(f"seed {outcome.plan.seed} is not the same again: {again.broken or 'nothing broke'}")
    click.echo(f"step {outcome.steps}: {outcome.broken}")
    click.echo(f"faults: {faults(outcome)}")
    click.echo(f"repeat: {outcome.plan.command()}")


def faults(outcome: "Outcome") -> str:
    return ", ".join(f"{number} {kind}" for number, kind in outcome.struck.items()) or "none"


def make_smaller(outcome: "Outcome", show: Callable[[str], None]) -> "Outcome":
    from tidelog.sim.run import run
    from tidelog.sim.shrink import shrink

    def tried(smallest: "Outcome", attempts: int) -> None:
        plan = smallest.plan
        show(f"{attempts} attempts: {len(smallest.struck)} faults, {plan.seconds:g} s, {smallest.steps} steps")

    return shrink(outcome, run, tried)
