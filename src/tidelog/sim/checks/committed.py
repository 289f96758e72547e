"""I4 (S): below the high watermarks of any two replicas are the same records.

I5 (S): what was committed never changes; once a leader's HW reaches its epoch's first offset it is ≥ TrueHW.

I9 (S): every ISR member that lives and counts holds everything committed below TrueHW.

I45 (S): so does every eligible leader replica (KIP-966) that lives and counts.

I10 (S): the leader holds every acknowledged record at its offset.

After a loss that is allowed, the log of the next leader is the reference for all of this (`ghosts`).
"""

from collections.abc import Callable, Iterable

from tidelog.model import TopicPartition
from tidelog.sim.checks.ghosts import Acked, Ghost, Ghosts
from tidelog.sim.checks.replica import Replica, State

All = Callable[[TopicPartition], Iterable[Replica]]
"""Returns all replicas of a partition."""


def is_current_leader(ghosts: Ghosts, replica: Replica) -> bool:
    """Whether this replica leads in the tree's current epoch."""
    given, state = ghosts.states.get(replica.partition.name), replica.state
    return state is not None and state.leading and given is not None and given.leader_epoch == state.epoch


def check(ghosts: Ghosts, replica: Replica, before: State | None, all_of: All, *, cut: bool) -> None:
    name, state = replica.partition.name, replica.state
    ghost = ghosts.of(name)
    assert state is not None
    leads = state.leading and is_current_leader(ghosts, replica)
    if leads and ghost.is_rebase_due(state.epoch):
        ghosts.rebase_on_leader(ghost, replica)
    ghost.seen_high_watermark = max(ghost.seen_high_watermark, state.high_watermark)
    if ghost.rebase_after is not None:  # adrift
        return
    if replica.broker in ghost.unproven:
        if not (ghosts.in_sync(name, replica.broker) and state.epoch == ghosts.states[name].leader_epoch):
            return
        ghost.unproven.discard(replica.broker)
    common = min(state.high_watermark, ghost.true_high_watermark)
    same = replica.log.agrees(ghost.committed, common)
    assert same, f"I4: {replica!r} differs from what was committed below {common}: {difference(replica, ghost)}"
    if leads:
        check_leader(ghosts, ghost, replica, before, all_of, cut=cut)
    if ghosts.in_sync(name, replica.broker):
        check_member(ghost, replica)
    elif ghosts.is_eligible(name, replica.broker):
        check_member(ghost, replica, "I45", "eligible to lead")


def check_leader(
    ghosts: Ghosts, ghost: Ghost, replica: Replica, before: State | None, all_of: All, *, cut: bool
) -> None:
    state = replica.state
    assert state is not None
    if state.high_watermark >= ghost.starts[state.epoch]:
        true_hw = ghost.true_high_watermark
        assert state.high_watermark >= true_hw, f"I5: {replica!r} is past its epoch's start but below TrueHW {true_hw}"
    if commit(ghost, replica):
        check_members(ghosts, ghost, all_of(ghost.name))
    if cut or before is None or not before.leading or before.epoch != state.epoch:
        for acked in ghost.acked.values():
            check_holds(replica, acked)


def commit(ghost: Ghost, replica: Replica) -> bool:
    """Advance TrueHW with the leader; what it passes is committed."""
    state = replica.state
    assert state is not None
    if state.high_watermark <= ghost.true_high_watermark:
        return False
    assert replica.log.agrees(ghost.committed, ghost.committed.end), (
        f"I5: {replica!r} replaces what was committed: {difference(replica, ghost)}"
    )
    if replica.first_offset > ghost.committed.end:  # this leader's log proves nothing about records below
        ghost.committed.skip_to(replica.first_offset)
    for batch in replica.log.since(ghost.committed.end):
        if batch.end > state.high_watermark:
            break
        ghost.committed.append(*batch.identity, batch.producer)
    ghost.true_high_watermark = state.high_watermark
    ghost.once_committed = max(ghost.once_committed, state.high_watermark)
    return True


def check_members(ghosts: Ghosts, ghost: Ghost, replicas: Iterable[Replica]) -> None:
    """Check ISR members after TrueHW or the ISR changed: every member that counts must hold what is committed."""
    if ghost.awaits_rebase:
        return
    for replica in replicas:
        if replica.broker in ghost.unproven or replica.state is None or replica.partition.failed:
            continue
        if ghosts.in_sync(ghost.name, replica.broker):
            check_member(ghost, replica)
        elif ghosts.is_eligible(ghost.name, replica.broker):
            check_member(ghost, replica, "I45", "eligible to lead")


def check_member(ghost: Ghost, replica: Replica, invariant: str = "I9", which: str = "in sync") -> None:
    true_hw = ghost.true_high_watermark
    assert replica.log.end >= true_hw, f"{invariant}: {replica!r} is {which} but ends below TrueHW {true_hw}"
    same = replica.log.agrees(ghost.committed, true_hw)
    assert same, f"{invariant}: {replica!r} is {which} but differs below TrueHW: {difference(replica, ghost)}"


def check_holds(replica: Replica, acked: Acked) -> None:
    if acked.end <= max(replica.partition.log.log_start_offset, replica.first_offset):
        return
    batch = replica.log.at(acked.base)
    held = batch is not None and (batch.end, batch.crc) == (acked.end, acked.crc)
    assert held, f"I10: leader {replica!r} has {batch} where {acked} was acknowledged"


def difference(replica: Replica, ghost: Ghost) -> str:
    """Describe the first batch that differs."""
    for committed in ghost.committed.batches:
        own = replica.log.at(committed.base)
        if own is None or own.identity != committed.identity:
            return f"committed {committed}, here {own}"
    return "none by batch"
