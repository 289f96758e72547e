"""I1 (S): 0 ≤ log start ≤ HW ≤ LEO, and recovery point ≤ LEO.
I6 (S): within one leader's epoch HW never descends.
I7 (S): a leader advances HW to h only if every other member of the maximal ISR fetched at ≥ h, and |ISR| ≥ min.
I8 (S): for the leader whose epoch is the state's, the controller's ISR ⊆ its maximal ISR.
"""

from tidelog.partition.leader import Leader
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.checks.replica import Replica, State


def check(ghosts: Ghosts, replica: Replica, before: State | None) -> None:
    state, partition = replica.state, replica.partition
    assert state is not None
    assert 0 <= state.start <= state.high_watermark <= state.end, f"I1: {replica!r}"
    assert state.recovery_point <= state.end, f"I1: {replica!r} has recovery point {state.recovery_point}"
    assert state.start <= partition.last_stable_offset <= state.high_watermark, f"I1: {replica!r} LSO"
    if before is not None and before.leading and state.leading and before.epoch == state.epoch:
        assert state.high_watermark >= before.high_watermark, f"I6: {replica!r} came from {before}"
        if state.high_watermark > before.high_watermark:
            check_advance(replica, before)
    check_isr(ghosts, replica)


def check_advance(replica: Replica, before: State) -> None:
    """Within one step the ISR may change before or after the advance: one of the two must allow it."""
    state = replica.state
    assert state is not None
    reasons = [refusal(replica, given) for given in (before, state)]
    assert not all(reasons), f"I7: {replica!r} advanced: {reasons[1]}, and before: {reasons[0]}"


def refusal(replica: Replica, given: State) -> str:
    """Why this ISR does not allow the high watermark; empty where it does."""
    role, state = replica.partition.role, replica.state
    assert isinstance(role, Leader)
    assert state is not None
    if len(given.isr) < replica.partition.min_in_sync:
        return f"{given.isr} is below min"
    for member in given.maximal_isr - {replica.broker}:
        fetched = role.remote[member].log_end_offset if member in role.remote else -1
        if fetched < state.high_watermark:
            return f"{member} fetched at {fetched}"
    return ""


def check_isr(ghosts: Ghosts, replica: Replica) -> None:
    state, given = replica.state, ghosts.states.get(replica.partition.name)
    if state is None or given is None or not state.leading or state.epoch != given.leader_epoch:
        return
    outside = set(given.isr) - state.maximal_isr
    assert not outside, f"I8: {replica!r} does not count {outside}, whom the controller holds to be in sync"
