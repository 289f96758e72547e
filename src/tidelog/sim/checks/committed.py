"""I4 (S): below the high watermarks of any two replicas stand the same records.
I5 (S): what was committed never changes; once a leader's HW reaches its epoch's first offset it is ≥ TrueHW.
I9 (S): every ISR member that lives and counts holds everything committed below TrueHW.
I10 (S): the leader holds every acknowledged record at its offset.
I25 (S): an offset is acknowledged for one record only, and lies below HW when it is.
I22 (S): an offset once served to a consumer reads the same for ever.
"""

from tidelog.model import TopicPartition
from tidelog.partition.leader import Leader
from tidelog.sim.checks.ghosts import Acked, Ghost, Ghosts
from tidelog.sim.checks.replica import Replica, State


def is_current_leader(ghosts: Ghosts, replica: Replica) -> bool:
    """Whether this replica leads in the epoch that stands in the tree."""
    given, state = ghosts.states.get(replica.partition.name), replica.state
    return state is not None and state.leading and given is not None and given.leader_epoch == state.epoch


def check(ghosts: Ghosts, replica: Replica, before: State | None) -> None:
    ghost = ghosts.of(replica.partition.name)
    state = replica.state
    assert state is not None
    if ghost.loss_allowed:
        return
    common = min(state.high_watermark, ghost.true_high_watermark)
    same = replica.log.chain_at(common) == ghost.committed.chain_at(common)
    assert same, f"I4: {replica!r} differs from what was committed below {common}: {difference(replica, ghost)}"
    if is_current_leader(ghosts, replica):
        check_leader(ghost, replica, before)
    if ghosts.in_sync(replica.partition.name, replica.broker):
        check_member(ghost, replica)


def check_leader(ghost: Ghost, replica: Replica, before: State | None) -> None:
    role, state = replica.partition.role, replica.state
    assert isinstance(role, Leader)
    assert state is not None
    ghost.min_in_sync = replica.partition.min_in_sync
    if state.high_watermark >= role.epoch_start:
        told = ghost.true_high_watermark
        assert state.high_watermark >= told, f"I5: {replica!r} is past its epoch's start but below TrueHW {told}"
    commit(ghost, replica)
    if before is None or not before.leading or before.epoch != state.epoch:
        for acked in ghost.acked.values():
            check_holds(ghost, replica, acked)


def commit(ghost: Ghost, replica: Replica) -> None:
    """TrueHW follows the leader; what it passes is committed."""
    state = replica.state
    assert state is not None
    if state.high_watermark <= ghost.true_high_watermark:
        return
    assert replica.log.chain_at(ghost.committed.end) == ghost.committed.chain_at(ghost.committed.end), (
        f"I5: {replica!r} replaces what was committed: {difference(replica, ghost)}"
    )
    for batch in replica.log.since(ghost.committed.end):
        if batch.end > state.high_watermark:
            break
        ghost.committed.append(*batch[:4])
    ghost.true_high_watermark = state.high_watermark


def check_member(ghost: Ghost, replica: Replica) -> None:
    assert replica.state is not None
    told = ghost.true_high_watermark
    assert replica.state.end >= told, f"I9: {replica!r} is in sync but ends below TrueHW {told}"
    same = replica.log.chain_at(told) == ghost.committed.chain_at(told)
    assert same, f"I9: {replica!r} is in sync but differs below TrueHW: {difference(replica, ghost)}"


def check_holds(ghost: Ghost, replica: Replica, acked: Acked) -> None:
    batch = replica.log.at(acked.base)
    held = batch is not None and (batch.end, batch.crc) == (acked.end, acked.crc)
    assert held or ghost.loss_allowed, f"I10: leader {replica!r} has {batch} where {acked} was acknowledged"


def difference(replica: Replica, ghost: Ghost) -> str:
    """The first batch that differs, for the reader of a failure."""
    for committed in ghost.committed.batches:
        own = replica.log.at(committed.base)
        if own is None or own[:4] != committed[:4]:
            return f"committed {committed}, here {own}"
    return "none by batch"


def acknowledged(ghosts: Ghosts, name: TopicPartition, acked: Acked, leader: Replica | None) -> None:
    """A producer saw an acks=all success."""
    ghost = ghosts.of(name)
    known = ghost.acked.setdefault(acked.base, acked)
    assert known == acked or ghost.loss_allowed, f"I25: {acked} was acknowledged where {known} was before"
    if leader is not None:
        check_holds(ghost, leader, acked)


def check_unique(ghost: Ghost) -> None:
    """I26: what an idempotent producer sent stands at one place only."""
    seen: dict[int, int] = {}
    for batch in ghost.committed.batches:
        first = seen.setdefault(batch.crc, batch.base)
        assert first == batch.base or ghost.loss_allowed, (
            f"I26: {ghost.name} holds the same batch at {first} and {batch}"
        )


def served(ghosts: Ghosts, name: TopicPartition, base: int, found: tuple[int, int, int]) -> None:
    """A consumer was given a batch: (end, epoch, crc)."""
    ghost = ghosts.of(name)
    known = ghost.served.setdefault(base, found)
    assert known == found or ghost.loss_allowed, f"I22: {name} read {found} at {base}, where it had read {known}"
