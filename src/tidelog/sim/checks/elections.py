"""I17 (S): a clean election follows rule 8, and a broker that proves an earlier epoch has lost nothing since.

A member of the ISR *counts* only if it lives with its recorded broker epoch, or registered with proof of
that epoch, with all log directories that it had then. The leader is the first in assignment order that counts; the
others leave the ISR in the same write. If none counts, every recorded member must be back, and of those with all of
their directories the one with the highest (last epoch, LEO) leads. With eligible leader replicas (KIP-966), the first
of them that counts leads before that, alone in the ISR; recorded are those and all that were. Anything else is an
unclean election: it must be allowed, and it allows loss. What the controller could not know yet is excused:
`excused(broker)` says whether a broker in the tree may be passed over, because it is shutting down or its disk failed.

A registration belongs to the life whose session made it. It may reach the store after that life is over, so it proves
nothing about how that life ended. It may prove an epoch of its own life, which lost a session, or what the life before
could prove if that stopped cleanly. A life that was over before its first step was done (its disk failed, or was cut
off) heard nothing and changed nothing: what the one before it left stays valid, as for a Kafka broker that ends before
its logs are loaded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidelog.controller.tree import LeadershipState
from tidelog.model import NO_LEADER, TopicPartition
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.checks.replica import Replica

Excused = Callable[[int], bool]
NO_CLEAN_EPOCH = -1
STOPPED = "stop"


def check(
    ghosts: Ghosts,
    name: TopicPartition,
    before: LeadershipState,
    replicas: Mapping[int, Replica],
    excused: Excused,
    *,
    unclean: bool,
) -> None:
    """Check an election: the leader epoch was raised.

    `replicas` are those of running brokers; `unclean`: unclean elections are allowed.
    """
    state = ghosts.states[name]
    recorded, elected, eligible = before.members, state.members, before.eligible
    assigned = ghosts.assignments[name]  # a replica that a reassignment removed cannot be elected
    standing = [b for b in recorded if ghosts.in_sync_as(b, recorded[b]) and not excused(b) and b in assigned]
    waiting = [b for b in eligible if ghosts.in_sync_as(b, eligible[b]) and not excused(b) and b in assigned]
    if state.leader == NO_LEADER:
        standing += waiting
        assert not standing, f"I17: {name} lost its leader while {standing} count: {before} → {state}"
        return
    proven = {b for b in elected if b in recorded and ghosts.proves(b, elected[b], recorded[b])}
    if state.leader in proven:
        check_clean(ghosts, name, before, standing, proven)
    elif not standing and state.leader in eligible and proves(ghosts, state, eligible):
        check_eligible(ghosts, name, before, waiting)
    elif standing or waiting:
        standing += waiting
        raise AssertionError(f"I17: {name} elects {state.leader}, which does not count, while {standing} do")
    else:
        reason = why_unclean(ghosts, name, before, replicas)
        assert unclean or not reason, f"I17: {name} elects {state.leader}, and may not: {reason}"
        unseen = {*before.recorded} - {*replicas}  # they were back and may be gone again: nobody knows their logs
        if unclean and unseen:
            reason = reason or f"the logs of {unseen} were not seen"
        if reason:
            ghosts.allow_loss(name, f"an unclean election of {state.leader}: {reason}", before.leader_epoch)


def why_unclean(ghosts: Ghosts, name: TopicPartition, before: LeadershipState, replicas: Mapping[int, Replica]) -> str:
    """Return why an election in which no member counts did not elect the most complete log; empty if it did."""
    state, recorded = ghosts.states[name], before.recorded
    if state.isr != (state.leader,) or not all_back(ghosts, recorded, state.leader):
        return f"not all of {before} are back"
    holds = ghosts.holds(state.leader, state.members[state.leader], recorded[state.leader])
    if not holds and state.leader not in replicas:
        return f"{state.leader} lacks a log directory that it had"
    if state.leader not in replicas or not ghosts.in_sync_as(state.leader, state.members[state.leader]):
        return ""  # the life that reported its log end is over
    own = end_of(replicas[state.leader])
    better = {
        broker: end_of(replicas[broker])
        for broker in recorded
        if broker in replicas and not replicas[broker].partition.failed and end_of(replicas[broker]) > own
    }
    return f"its log ends with {own}, while others have more: {better}" if better else ""


def proves(ghosts: Ghosts, state: LeadershipState, eligible: Mapping[int, int]) -> bool:
    """Whether the leader is the eligible replica that it was recorded to be."""
    return ghosts.proves(state.leader, state.members[state.leader], eligible[state.leader])


def check_eligible(ghosts: Ghosts, name: TopicPartition, before: LeadershipState, waiting: list[int]) -> None:
    """No member of the ISR could lead, and an eligible leader replica does."""
    state, order = ghosts.states[name], ghosts.assignments[name]
    assert state.isr == (state.leader,), f"I17: {name} elects {state.leader}, with others in sync: {before} → {state}"
    passed_over = [b for b in waiting if order.index(b) < order.index(state.leader)]
    assert not passed_over, f"I17: {name} passes over {passed_over} in its order {order}: {before} → {state}"


def check_clean(
    ghosts: Ghosts, name: TopicPartition, before: LeadershipState, standing: list[int], proven: set[int]
) -> None:
    state, order = ghosts.states[name], ghosts.assignments[name]
    assert proven == set(state.isr), (
        f"I17: {name} keeps {set(state.isr) - proven} in sync, which do not count: {before}"
    )
    passed_over = [b for b in standing if order.index(b) < order.index(state.leader)]
    # A reassignment that removes replicas keeps the leader, in another epoch.
    stays = before.leader == state.leader and before.members[state.leader] == state.members[state.leader]
    assert stays or not passed_over, f"I17: {name} passes over {passed_over} in its order {order}: {before} → {state}"
    dropped = [b for b in standing if b not in state.isr]
    assert not dropped, f"I17: {name} drops {dropped}, which count: {before} → {state}"


def all_back(ghosts: Ghosts, recorded: Mapping[int, int], leader: int) -> bool:
    """Whether every recorded member has registered again since; it may be gone again by now."""
    return leader in recorded and all(
        any(broker == member and epoch > life for broker, epoch in ghosts.registered)
        for member, life in recorded.items()
    )


def end_of(replica: Replica) -> tuple[int, int]:
    """Return (last epoch, LEO) of the log.

    The epoch is the cache's: an epoch that the leader began counts even without a record.
    """
    entries = list(replica.partition.log.epochs)
    return (entries[-1].epoch if entries else -1), replica.log.end


@dataclass(slots=True)
class Lifetime:
    """The broker epochs with which a life registered, and how it ended.

    A life that was cut short during a clean shutdown may have left the proof of it already: that is written last.
    """

    epochs: set[int] = field(default_factory=set)
    ended_by: str = ""


class Registrations:
    """The lives of each broker, numbered from 1."""

    def __init__(self) -> None:
        self.life_of: dict[int, int] = {}
        """The life that a session with the store belongs to."""
        self._lives: dict[tuple[int, int], Lifetime] = {}

    def __repr__(self) -> str:
        return f"Registrations({len(self._lives)} lives)"

    def opened(self, session: int, life: int) -> None:
        self.life_of[session] = life

    def ended(self, broker: int, life: int, how: str, *, stopping: bool = False, stillborn: bool = False) -> None:
        if stillborn:
            self._lives[broker, life] = self._of(broker, life - 1)
        else:
            self._of(broker, life).ended_by = STOPPED if stopping else how

    def check(self, broker: int, session: int, epoch: int, clean_epoch: int) -> None:
        """Check a registration that is new in the tree."""
        life = self.life_of.get(session, 0)
        before = self._lives.get((broker, life - 1), Lifetime())
        right = clean_epoch == NO_CLEAN_EPOCH or clean_epoch in self._provable(broker, life)
        assert right, (
            f"I17: broker {broker} proves epoch {clean_epoch} with epoch {epoch}; the life before ({before.epochs}) "
            f"ended by {before.ended_by or 'nothing'}"
        )
        self._of(broker, life).epochs.add(epoch)

    def _provable(self, broker: int, life: int) -> set[int]:
        """The epochs whose logs this life has whole: its own, and those of the lives before it if all stopped cleanly.
        One of them that never learned of its registration passes on what it could prove (seed 22000197)."""
        known = set(self._of(broker, life).epochs)
        while (before := self._lives.get((broker, life - 1))) is not None and before.ended_by == STOPPED:
            known |= before.epochs
            life -= 1
        return known

    def _of(self, broker: int, life: int) -> Lifetime:
        return self._lives.setdefault((broker, life), Lifetime())
