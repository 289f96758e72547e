"""The steps of a reassignment of a partition, as pure functions (KIP-455).

Replicas are the target's in its order, then those to remove. It ends when the whole target is in sync and one of
it can lead; when cancelled, the partition returns to its former replicas. A replica that is removed leaves the ISR in
the same write, which never empties it, and raises the leader epoch: a late push must not delete a replica that came
back.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from tidelog.controller.leaders import Lives, counts, elect_unclean, forgotten, with_elr
from tidelog.controller.state import Partition
from tidelog.controller.tree import LeadershipState
from tidelog.model import NO_LEADER


class Move(NamedTuple):
    """A partition with other replicas."""

    partition: Partition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    state: LeadershipState

    @property
    def dropped(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.partition.replicas if broker not in self.replicas)


def begun(partition: Partition, target: Sequence[int], lives: Lives, min_in_sync: int = 0) -> Move | None:
    """Towards `target`, also from the middle of another move: replicas that were only being added and are not wanted
    any more are dropped. None if that would leave no replica in sync. Nothing to add or remove: only the order
    changes."""
    origin = partition.origin
    adding = tuple(broker for broker in target if broker not in origin)
    removing = tuple(broker for broker in origin if broker not in target)
    replicas = (*target, *removing)
    state = narrowed(partition, replicas, lives, min_in_sync)
    return state and Move(partition, replicas, adding, removing, state)


def ended(partition: Partition, lives: Lives, min_in_sync: int = 0) -> Move | None:
    """The reassignment's end, once it has come."""
    target = partition.target
    if not partition.is_moving or not set(target) <= set(partition.state.isr):
        return None
    state = narrowed(partition, target, lives, min_in_sync)
    if state is None or state.leader == NO_LEADER:
        return None
    return Move(partition, target, (), (), state)


def reverted(partition: Partition, lives: Lives, min_in_sync: int = 0) -> Move | None:
    """The reassignment cancelled. None if no remaining replica is in sync."""
    state = narrowed(partition, partition.origin, lives, min_in_sync)
    return state and Move(partition, partition.origin, (), (), state)


def reverted_uncleanly(partition: Partition, lives: Lives) -> Move | None:
    """The same, led by a replica that may miss records. None if no remaining replica is alive, or all stop."""
    present = [b for b in partition.origin if b in lives and b not in partition.offline and not lives[b].leaving]
    state = elect_unclean(partition.state, present, lives).state if present else None
    return state and Move(partition, partition.origin, (), (), state)


def narrowed(
    partition: Partition, replicas: Sequence[int], lives: Lives, min_in_sync: int = 0
) -> LeadershipState | None:
    """The state with `replicas` only. The leader stays if it can, else the first remaining one that counts leads; None
    if a replica would go that nobody who is left surely makes up for."""
    state = partition.state if min_in_sync else forgotten(partition.state)
    if set(partition.replicas) <= set(replicas):
        return with_elr(state, state, replicas, lives, min_in_sync)
    kept = {b: epoch for b, epoch in state.members.items() if b in replicas}
    if not kept and (state.isr or not set(state.recorded) <= set(replicas)):
        return None  # in an empty ISR: any of those recorded may have the most complete log
    leader = state.leader
    if leader != NO_LEADER and leader not in kept:
        able = (b for b in replicas if b in kept and _may_lead(b, kept[b], lives, partition.offline))
        leader = next(able, NO_LEADER)
    after = state._replace(
        leader=leader, leader_epoch=state.leader_epoch + 1, isr=tuple(kept), isr_epochs=tuple(kept.values())
    )
    return with_elr(state, after, replicas, lives, min_in_sync)


def _may_lead(broker: int, recorded: int, lives: Lives, offline: Collection[int]) -> bool:
    return broker not in offline and counts(broker, recorded, lives) and not lives[broker].leaving
