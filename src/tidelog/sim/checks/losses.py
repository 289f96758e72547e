"""LossAllowed: when acknowledged records may be gone, and on what the ghosts base themselves afterwards.

Loss is allowed by an unclean election, by more than min - 1 overlapping data-losing crashes, or by a data-losing crash
of the last ISR member while |ISR| < min. From then until a leader is elected nobody can say what must be there; the
next leader's log is then what is held to, and whoever differs from it is judged again once it is back in sync.
What an operator deletes is not loss: comparisons begin at a log's start.
"""

from typing import TYPE_CHECKING

from tidelog.model import TopicPartition
from tidelog.sim.checks.replica import Chain, Replica

if TYPE_CHECKING:
    from tidelog.sim.checks.ghosts import Ghost, Ghosts


def lose(ghosts: "Ghosts", name: TopicPartition, broker: int) -> None:
    """A broker lost what it had not synced. A power loss may also bring back what a truncation had taken, below a high
    watermark that was written down since: as in Kafka, that stands there until the log is compared with the leader's.
    """
    ghosts.of(name).lossy.add(broker)
    ghosts.of(name).unproven.add(broker)
    judge(ghosts, name)


def judge(ghosts: "Ghosts", name: TopicPartition) -> None:
    ghost, state = ghosts.of(name), ghosts.states.get(name)
    isr = state.isr if state is not None else ()
    if len(ghost.lossy) > ghost.min_in_sync - 1:
        allow(ghosts, name, f"{len(ghost.lossy)} overlapping data-losing crashes with min {ghost.min_in_sync}")
    elif isr and len(isr) < ghost.min_in_sync and ghost.lossy.issuperset(isr):
        allow(ghosts, name, f"the ISR {isr}, below min {ghost.min_in_sync}, has only brokers that lost data")


def allow(ghosts: "Ghosts", name: TopicPartition, why: str, epoch: int | None = None) -> None:
    """Loss is legitimate in whatever leader epoch comes after `epoch`, which is the present one if not given."""
    ghost, state = ghosts.of(name), ghosts.states.get(name)
    if epoch is None:
        epoch = state.leader_epoch if state is not None else -1
    ghost.loss_allowed = why
    ghost.rebase_after = epoch if ghost.rebase_after is None else min(epoch, ghost.rebase_after)


def forgive(ghosts: "Ghosts", name: TopicPartition) -> None:
    """A broker that lost data and is in the ISR again with its present epoch has all of it back. Where all of them are
    back and no other leader was elected meanwhile, nothing was lost."""
    ghost, state = ghosts.of(name), ghosts.states.get(name)
    if not ghost.lossy or state is None:
        return
    recorded = state.members
    ghost.lossy -= {broker for broker in ghost.lossy if ghosts.epochs.get(broker, -1) == recorded.get(broker)}
    if not ghost.lossy and ghost.rebase_after == state.leader_epoch:
        ghost.rebase_after = None
    judge(ghosts, name)


def rebase(ghosts: "Ghosts", ghost: "Ghost", leader: Replica) -> None:
    """The first leader after a loss: what it has is what there is. Of all others nobody knows, also of those who were
    replicas once and have their logs still."""
    state, log = leader.state, leader.log
    assert state is not None
    held = {batch.base: batch for batch in log.batches}
    ghost.committed = Chain()
    if log.first_offset:
        ghost.committed.skip_to(log.first_offset)
    for batch in log.since(log.first_offset):
        if batch.end <= state.high_watermark:
            ghost.committed.append(*batch.identity, batch.producer)
    ghost.true_high_watermark = ghost.seen_high_watermark = state.high_watermark
    ghost.acked = {base: acked for base, acked in ghost.acked.items() if base in held and held[base].crc == acked.crc}
    ghost.answered = {key: base for key, base in ghost.answered.items() if base in ghost.acked}
    ghost.served = {base: found for base, found in ghost.served.items() if base in held and held[base][1:4] == found}
    ghost.read.clear()
    ghost.told_latest.clear()
    ghost.unproven = {broker for broker, _ in ghosts.registered} - {leader.broker}
    ghost.lossy.clear()
    ghost.rebase_after = None
    ghost.losses += 1


def is_due(ghost: "Ghost", epoch: int) -> bool:
    return ghost.rebase_after is not None and epoch > ghost.rebase_after
