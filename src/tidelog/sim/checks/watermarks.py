"""I1 (S): 0 ≤ log start ≤ LSO ≤ HW ≤ LEO, and recovery point ≤ LEO.

I6 (S): within one leader's epoch HW never descends.

I7 (S): a leader advances HW to h only if every other member of the maximal ISR fetched at ≥ h in this epoch, with its
current broker epoch, |ISR| ≥ min, and there are no eligible leader replicas. Fetches are taken from the wire. A member
that registered its last life as cleanly shut down counts with what that life had fetched (rule 8): it still has it.

I8 (S): for the leader whose epoch is the tree's, the controller's ISR ⊆ its maximal ISR.
"""

from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.checks.replica import Replica, State
from tidelog.sim.checks.wire.followers import Fetches


def check(ghosts: Ghosts, replica: Replica, before: State | None, fetches: Fetches) -> None:
    state, partition = replica.state, replica.partition
    assert state is not None
    assert 0 <= state.start <= state.high_watermark <= state.end, f"I1: {replica!r}"
    assert state.recovery_point <= state.end, f"I1: {replica!r} has recovery point {state.recovery_point}"
    assert state.start <= partition.last_stable_offset <= state.high_watermark, f"I1: {replica!r} LSO"
    if before is not None and before.leading and state.leading and before.epoch == state.epoch:
        assert state.high_watermark >= before.high_watermark, f"I6: {replica!r} came from {before}"
    if state.leading and state.high_watermark > (before.high_watermark if before is not None else state.start):
        check_advance(ghosts, replica, before, fetches)
    if state.leading:
        check_isr(ghosts, replica)


def check_advance(ghosts: Ghosts, replica: Replica, before: State | None, fetches: Fetches) -> None:
    """Check that some ISR of this leader allows the advance.

    Within one step the ISR may change before or after the advance, and more than once when the store is slow.
    """
    state = replica.state
    assert state is not None
    given = [state]
    if before is not None and before.leading and before.epoch == state.epoch:
        known = ghosts.of(replica.partition.name).isrs
        passed = (known.get((state.epoch, each)) for each in range(before.partition_epoch + 1, state.partition_epoch))
        given += [before, *(before._replace(isr=t.isr, elr=t.elr, proposal=None) for t in passed if t is not None)]
    reasons = [refusal(ghosts, replica, one, fetches) for one in given]
    assert not all(reasons), f"I7: {replica!r} advanced from {before}: {'; and before, '.join(reasons)}"


def refusal(ghosts: Ghosts, replica: Replica, given: State, fetches: Fetches) -> str:
    """Why this ISR does not allow the high watermark; empty where it does."""
    state = replica.state
    assert state is not None
    if len(given.isr) < ghosts.of(replica.partition.name).min_in_sync:
        return f"{given.isr} is below min"
    if given.elr:
        return f"{given.elr} may lead without having fetched"
    recorded = recorded_epochs(ghosts, replica)
    for member in sorted(given.counted - {replica.broker}):
        life = recorded.get(member, -1)
        reached = fetches.reached(replica, member, min(ghosts.lives_up_to(member, life), default=life))
        if reached < state.high_watermark:
            return f"{member}, as broker epoch {recorded.get(member, 'any')}, fetched up to {reached}"
    return ""


def recorded_epochs(ghosts: Ghosts, replica: Replica) -> dict[int, int]:
    """Return the broker epochs with which the controller considers this leader's ISR to be in sync."""
    given, state = ghosts.states.get(replica.partition.name), replica.state
    if given is None or state is None or given.leader_epoch != state.epoch:
        return {}
    return given.members


def check_isr(ghosts: Ghosts, replica: Replica) -> None:
    state, given = replica.state, ghosts.states.get(replica.partition.name)
    if state is None or given is None or not state.leading or state.epoch != given.leader_epoch:
        return
    outside = set(given.isr) - (state.maximal_isr & state.counted)
    assert not outside, f"I8: {replica!r} does not count {outside}, which the controller considers in sync"
