"""I20 (S): a truncation's target came from a leader in the same epoch, is ≥ TrueHW for an ISR member, and happens
before the first append in that epoch.
"""

from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.checks.replica import Batch, Replica
from tidelog.sim.checks.wire.said import Source


def check(ghosts: Ghosts, replica: Replica, gone: list[Batch], source: Source | None) -> None:
    """`gone` was taken off the end of the log. A log that starts over where its leader's starts gives up only what its
    leader has deleted."""
    if not gone:
        return
    name, first = replica.partition.name, gone[0]
    ghost, epoch, log = ghosts.of(name), replica.partition.epoch, replica.partition.log
    target = first.base if first.epoch >= 0 else log.log_end_offset  # it stands for all that could not be read
    target = max(target, log.log_start_offset)
    if log.log_start_offset >= gone[-1].end:
        return
    assert source is not None, f"I20: {replica!r} truncated to {target} without a word from a leader"
    assert source.speaks_for(epoch), (
        f"I20: {replica!r} truncated to {target} as broker {source.broker} said in epoch {source.epoch}"
    )
    again = [batch for batch in gone if batch.epoch == epoch]
    assert not again, f"I20: {replica!r} truncated {again[0]}, which it appended in this very epoch"
    assert replica.appended_in < epoch, f"I20: {replica!r} truncated to {target} after its first append in this epoch"
    if not ghost.adrift and ghosts.in_sync(name, replica.broker) and replica.broker not in ghost.unproven:
        told = ghost.true_high_watermark
        assert target >= told, f"I20: {replica!r} is in sync and truncated to {target}, below TrueHW {told}"
