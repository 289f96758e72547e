"""I15 (S): rule 3's condition holds at every ISR expansion: the joining follower has fetched from HW and from the first
offset of the leader's epoch, in this epoch; it is recorded with the broker epoch that it fetched with; a broker in
controlled shutdown does not join.

I16 (S): AlterPartition is accepted only with matching leader and partition epoch: whatever grows the ISR, or removes a
member that counts, was proposed by the state's leader, based on exactly the state that it replaces.

I47 (S): every ISR member or eligible replica that lives and counts (rule 8) holds a replica of exactly this topic, so
that I9 is checked against it, from the moment something is committed: HW passed an offset that every member of the ISR
had fetched up to. So brokers may learn late of a new topic. Exempt are brokers with a failed log directory in this
life, topics that are being deleted, and partitions after a loss without a new leader. A broker that is dead, or lost a
directory that it had, does not count.
"""

from collections.abc import Callable

from tidelog.controller.tree import LeadershipState
from tidelog.model import TopicPartition
from tidelog.partition.partition import Partition
from tidelog.sim.checks.ghosts import Ghosts, ProposedIsr
from tidelog.sim.checks.replica import Replica, State
from tidelog.sim.checks.wire.followers import Fetches

KEPT_PROPOSALS = 50


def check_proposal(ghosts: Ghosts, replica: Replica, before: State | None, fetches: Fetches, step: int) -> None:
    """Record and check the ISR that a leader proposes."""
    state = replica.state
    proposal = state.proposal if state is not None else None
    if state is None or proposal is None or (before is not None and before.proposal == proposal):
        return
    members = {member: proposal.broker_epochs[member] for member in proposal.isr}
    proposals = ghosts.of(replica.partition.name).proposals
    proposals.append(ProposedIsr(state.epoch, proposal.partition_epoch, members, step))
    del proposals[:-KEPT_PROPOSALS]
    for member in set(proposal.isr) - set(state.isr) - {replica.broker}:
        check_joins(ghosts, replica, member, members[member], fetches)


def check_joins(ghosts: Ghosts, leader: Replica, member: int, broker_epoch: int, fetches: Fetches) -> None:
    state, name = leader.state, leader.partition.name
    assert state is not None
    least = max(state.high_watermark, ghosts.of(name).starts.get(state.epoch, 0))
    reached = fetches.reached(leader, member, broker_epoch)
    assert reached >= least, (
        f"I15: broker {member} joins the ISR of {leader!r} as broker epoch {broker_epoch}, with which it fetched up to "
        f"{reached}; it must have reached {least}"
    )


def check_change(
    ghosts: Ghosts,
    name: TopicPartition,
    before: LeadershipState,
    version: int,
    leader: Replica | None,
    fetches: Fetches,
    leaving: Callable[[int], bool],
) -> None:
    """Check another ISR in the same leader epoch. `version` was the partition epoch before."""
    state = ghosts.states[name]
    old, new = before.members, state.members
    joined = {member for member in new if not ghosts.proves(member, new[member], old.get(member, -1))}
    left = {member for member in set(old) - set(new) if ghosts.in_sync_as(member, old[member]) and not leaving(member)}
    if not joined and not left:
        return
    proposals = granted(ghosts, name, before, version, set(new))
    assert proposals, (
        f"I16: {name} went from {before}, partition epoch {version}, to {state}, which no leader proposed based on that"
    )
    for member in joined - {state.leader}:
        check_joined(ghosts, name, member, new[member], proposals)
        if leader is not None and leader.state is not None and leader.state.epoch == state.leader_epoch:
            check_joins(ghosts, leader, member, new[member], fetches)


def granted(
    ghosts: Ghosts, name: TopicPartition, before: LeadershipState, version: int, members: set[int]
) -> list[ProposedIsr]:
    """Return the proposals for these members based on exactly this state."""
    at = (before.leader_epoch, version)
    proposals = ghosts.of(name).proposals
    return [
        proposed
        for proposed in proposals
        if (proposed.leader_epoch, proposed.partition_epoch) == at and set(proposed.members) == members
    ]


def check_joined(
    ghosts: Ghosts, name: TopicPartition, member: int, broker_epoch: int, proposals: list[ProposedIsr]
) -> None:
    """Check that a leader proposed the member in this very life, before the member's shutdown was granted."""
    vouched = [proposed for proposed in proposals if proposed.members[member] == broker_epoch]
    assert vouched, (
        f"I15: broker {member} is recorded in the ISR of {name} as broker epoch {broker_epoch}; its leader proposed "
        f"{[proposed.members[member] for proposed in proposals]}"
    )
    gone = ghosts.leaving.get((member, ghosts.controller_epoch))
    assert gone is None or gone[0] != broker_epoch or vouched[0].step <= gone[1], (
        f"I15: broker {member} joins the ISR of {name} while it shuts down"
    )


def check_held(ghosts: Ghosts, name: TopicPartition, broker: int, held: Partition | None) -> None:
    """I47. `held` is the replica that a broker without failed log directories has under this name."""
    ghost, topic_id = ghosts.of(name), ghosts.topic_ids.get(name.topic)
    if (
        not ghost.true_high_watermark
        or ghost.awaits_rebase
        or name.topic in ghosts.deleting
        or not (ghosts.in_sync(name, broker) or ghosts.is_eligible(name, broker))
    ):
        return
    assert held is not None, f"I47: broker {broker} is in sync and has no replica of {name}: {ghosts.states[name]}"
    assert held.log.topic_id == topic_id, (
        f"I47: broker {broker} is in sync in {name}, and its replica is of another topic of that name: {held!r}"
    )
