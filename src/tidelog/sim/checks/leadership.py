"""I12 (S): one leader per epoch; an epoch's records were first appended by it.
I13 (S): leader and partition epochs ascend, in the tree and on each broker.
I14 (S): the leader is in the ISR, or there is none; the ISR is part of the assigned replicas.
"""

from collections.abc import Callable

from tidelog.controller.tree import LeadershipState
from tidelog.model import NO_LEADER, TopicPartition
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.checks.replica import Batch, Replica, State


def check(ghosts: Ghosts, replica: Replica, before: State | None) -> None:
    state = replica.state
    assert state is not None
    if state.leading:
        leader = ghosts.of(replica.partition.name).leaders.setdefault(state.epoch, replica.broker)
        assert leader == replica.broker, f"I12: {replica!r} leads an epoch that {leader} led"
    if before is not None:
        older, newer = (before.epoch, before.partition_epoch), (state.epoch, state.partition_epoch)
        assert older <= newer, f"I13: {replica!r} came from {before}"


def check_appended(ghosts: Ghosts, replica: Replica, new: list[Batch], running: Callable[[int], bool]) -> None:
    """A leader whose life ended within the step of its append was not seen to make it."""
    ghost = ghosts.of(replica.partition.name)
    for batch in new:
        if batch.epoch < 0 or (batch.epoch, batch.base) in ghost.first_appended:
            continue
        ghost.first_appended[batch.epoch, batch.base] = replica.broker
        leader = ghost.leaders.get(batch.epoch)
        unseen = leader is not None and not running(leader)
        assert leader == replica.broker or unseen, (
            f"I12: {batch} first appeared on {replica!r}; {leader} led that epoch"
        )


def check_tree(ghosts: Ghosts, name: TopicPartition, before: LeadershipState | None) -> None:
    state = ghosts.states[name]
    assert state.leader == NO_LEADER or state.leader in state.isr, f"I14: {name} is led from outside its ISR: {state}"
    assert set(state.isr) <= set(ghosts.assignments[name]), f"I14: {name} has a stranger in its ISR: {state}"
    if before is not None:
        assert before.leader_epoch <= state.leader_epoch, f"I13: {name} went from {before} to {state}"
        same = before.leader_epoch == state.leader_epoch
        assert not same or before.leader == state.leader, f"I12: {name} has two leaders in an epoch: {before}, {state}"
