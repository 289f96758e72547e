"""I20 (S): an ISR member never truncates below TrueHW, and nobody truncates what it appended in its present epoch."""

from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.checks.replica import Batch, Replica


def check(ghosts: Ghosts, replica: Replica, gone: list[Batch]) -> None:
    ghost = ghosts.of(replica.partition.name)
    if ghost.loss_allowed or not gone:
        return
    target = gone[0].base
    epoch = replica.partition.epoch
    again = [batch for batch in gone if batch.epoch == epoch]
    assert not again, f"I20: {replica!r} truncated {again[0]}, which it appended in this very epoch"
    if ghosts.in_sync(replica.partition.name, replica.broker):
        told = ghost.true_high_watermark
        assert target >= told, f"I20: {replica!r} is in sync and truncated to {target}, below TrueHW {told}"
