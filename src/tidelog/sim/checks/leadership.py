"""I12 (S): one leader per epoch; the leader of an epoch was the first to append its records.
I13 (S): controller, broker, leader and partition epochs ascend, in the tree and on each broker.
I14 (S): the leader is in the ISR, or there is none; the ISR is part of the assigned replicas, and so is what a
reassignment adds or removes; no replica is both added and removed.
I20 (S): the target of a truncation came from a leader in the same epoch, is ≥ TrueHW for an ISR member, and the
truncation happens before the first append in that epoch.
I21 (S): what a follower appends is what the epoch's leader had appended there, byte for byte, and begins at its LEO.
I32 (S): the ISR is never empty, unless there are eligible leader replicas (KIP-966) or some that were; a replica's data
is deleted only after the controller's commit, also when another topic of the same name takes its place.
I46 (S): ELR ∩ ISR = ∅, ELR ⊆ AR, and the ELR is empty where |ISR| ≥ min.
"""

from collections.abc import Callable

from tidelog.controller.tree import LeadershipState
from tidelog.model import NO_LEADER, TopicPartition
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.checks.replica import Batch, Replica, State
from tidelog.sim.checks.wire.wire_tap import ResponseSource


def check(ghosts: Ghosts, replica: Replica, before: State | None) -> None:
    name = replica.partition.name
    state, ghost = replica.state, ghosts.of(name)
    assert state is not None
    assigned = ghosts.assignments.get(name, ())
    if state.leading and state.partition_epoch < ghosts.partition_epochs.get(name, -1):
        assigned = replica.partition.replicas  # it does not know the reassignment yet
    ghost.min_in_sync = min(replica.partition.config.min_insync_replicas, max(1, len(assigned)))
    if state.leading:
        replica.led.add(state.epoch)
        leader = ghost.leaders.setdefault(state.epoch, replica.broker)
        assert leader == replica.broker, f"I12: {replica!r} leads an epoch that {leader} led"
        if state.epoch not in ghost.starts:
            own = [batch.base for batch in replica.log.batches[-10:] if batch.epoch == state.epoch]
            ghost.starts[state.epoch] = min([state.end, *own])
    if before is not None:
        older, newer = (before.epoch, before.partition_epoch), (state.epoch, state.partition_epoch)
        assert older <= newer, f"I13: {replica!r} came from {before}"


def check_appended(
    ghosts: Ghosts, replica: Replica, new: list[Batch], running: Callable[[int], bool], source: ResponseSource | None
) -> None:
    """Check the batches that a replica appended.

    The append of a leader whose life ended within that step was not observed. A leader elected within the step may have
    appended in it: it is the controller, too, and coordinates a transaction that it decided.
    """
    ghost, state = ghosts.of(replica.partition.name), replica.state
    for batch in new:
        if batch.epoch < 0:
            continue
        content = (replica.broker, batch.end, batch.crc)
        first = ghost.first_appended.setdefault((batch.epoch, batch.base), content)
        leads_now = state is not None and state.leading and state.epoch == batch.epoch
        leader = ghost.leaders.get(batch.epoch, replica.broker if leads_now else None)
        if first is content:
            unseen = leader is not None and not running(leader)
            assert leader == replica.broker or unseen, (
                f"I12: {batch} first appeared on {replica!r}; {leader} led that epoch"
            )
        assert first[1:] == content[1:], f"I21: {replica!r} appended {batch}, which broker {first[0]} had otherwise"
    if new and replica.state is not None and not replica.state.leading and source is not None:
        assert source.is_from_epoch(replica.state.epoch), (
            f"I21: {replica!r} appended {new[0]} from broker {source.broker} in epoch {source.epoch}"
        )


def take_recovered(ghosts: Ghosts, replica: Replica, found: list[Batch]) -> None:
    """Record batches that a leader appended in the step in which it was killed: they are seen first when it is back."""
    ghost = ghosts.of(replica.partition.name)
    for batch in found:
        if ghost.leaders.get(batch.epoch) == replica.broker:
            ghost.first_appended.setdefault((batch.epoch, batch.base), (replica.broker, batch.end, batch.crc))


def check_tree(ghosts: Ghosts, name: TopicPartition, before: LeadershipState | None, version: int | None) -> None:
    state, replicas = ghosts.states[name], ghosts.assignments[name]
    assert state.recorded, f"I32: {name} has an empty ISR: {state}"
    assert state.isr or state.leader == NO_LEADER, f"I32: {name} is led with an empty ISR: {state}"
    assert not set(state.elr) & set(state.isr), f"I46: {name} has eligible replicas in sync: {state}"
    assert {*state.elr, *state.last_known} <= set(replicas), f"I46: {name} has unassigned eligible replicas: {state}"
    enough = len(state.isr) >= min(ghosts.min_in_sync(name.topic), len(replicas))
    assert not enough or not state.elr, f"I46: {name} has eligible replicas though enough are in sync: {state}"
    assert state.leader == NO_LEADER or state.leader in state.isr, f"I14: {name} is led from outside its ISR: {state}"
    assert set(state.isr) <= set(replicas), f"I14: {name} has an unassigned broker in its ISR: {state}"
    adding, removing = ghosts.reassigning.get(name, ((), ()))
    consistent = {*adding, *removing} <= set(replicas) and not set(adding) & set(removing)
    assert consistent, f"I14: {name} has {replicas}, adds {adding} and removes {removing}"
    if before is not None:
        assert before.leader_epoch <= state.leader_epoch, f"I13: {name} went from {before} to {state}"
        assert before.controller_epoch <= state.controller_epoch, f"I13: {name} went from {before} to {state}"
        assert version is None or version < ghosts.partition_epochs[name], f"I13: {name}'s partition epoch goes back"
        same = before.leader_epoch == state.leader_epoch
        assert not same or before.leader == state.leader, f"I12: {name} has two leaders in an epoch: {before}, {state}"


def check_deleted(ghosts: Ghosts, name: TopicPartition, topic_id: bytes, broker: int) -> None:
    """I32, for a broker that deleted its replica of the topic with this id.

    It may do so by itself or for another topic of that name. A replica that is being added again may learn late that it
    was removed before.
    """
    requested = ghosts.topic_ids.get(name.topic) != topic_id or name.topic in ghosts.deleting
    adding, _ = ghosts.reassigning.get(name, ((), ()))
    requested = requested or (broker in adding and broker not in ghosts.states[name].isr)
    assert requested or broker not in ghosts.assignments.get(name, ()), (
        f"I32: broker {broker} deleted {name}, which the controller still assigns to it"
    )


def check_truncation(ghosts: Ghosts, replica: Replica, gone: list[Batch], source: ResponseSource | None) -> None:
    """I20. `gone` was removed from the end of the log.

    A log that starts over at its leader's start offset loses only what its leader has deleted.
    """
    if not gone:
        return
    name, first = replica.partition.name, gone[0]
    ghost, epoch, log = ghosts.of(name), replica.partition.epoch, replica.partition.log
    target = (
        first.base if first.epoch >= 0 else log.log_end_offset
    )  # this batch represents everything that could not be read
    target = max(target, log.log_start_offset)
    if log.log_start_offset >= gone[-1].end:
        return
    assert source is not None, f"I20: {replica!r} truncated to {target} without a response from a leader"
    assert source.is_from_epoch(epoch), (
        f"I20: {replica!r} truncated to {target} by a response of broker {source.broker} in epoch {source.epoch}"
    )
    same_epoch = [batch for batch in gone if batch.epoch == epoch]
    assert not same_epoch, f"I20: {replica!r} truncated {same_epoch[0]}, which it appended in this very epoch"
    assert replica.appended_in < epoch, f"I20: {replica!r} truncated to {target} after its first append in this epoch"
    if not ghost.awaits_rebase and ghosts.in_sync(name, replica.broker) and replica.broker not in ghost.unproven:
        true_hw = ghost.true_high_watermark
        assert target >= true_hw, f"I20: {replica!r} is in sync and truncated to {target}, below TrueHW {true_hw}"
