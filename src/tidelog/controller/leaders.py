"""Which replica may lead a partition: rule 8 of the replication rules, as pure functions.

An ISR member *counts* only if it lives with the broker epoch with which it was found in sync, or registered anew with
proof of that epoch, because it stopped cleanly or lost only its session, with every log directory that it had then:
only then does its log surely hold everything committed. The leader is the first in assignment order that counts, and
the others leave the ISR in the same write. If none counts, the partition waits until every recorded member is back;
then the most complete log leads. A broker that misses a directory may have the replica in another one, and may lead
with it, too. Anything earlier is an unclean election.

With eligible leader replicas (KIP-966) the ISR may become empty, and `min_in_sync`, the topic's `min.insync.replicas`,
is not 0. If no member can lead, an eligible replica that counts leads, alone in the ISR: it has everything committed,
because the high watermark does not move while there are eligible replicas (`Partition.is_under_min_isr`). If none
counts, the partition waits until all of them are back, and the most complete log of those in `last_known` leads.

The leader epoch is raised only when the leader is elected, lost or re-elected.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tidelog.controller.tree import LeadershipState, has_directories_of
from tidelog.model import NO_EPOCH, NO_LEADER


class Life(NamedTuple):
    """A live broker: its epoch, the earlier epoch whose logs it proves to have (or -1), and whether it shuts down.
    `trusted`: it counts whatever its epoch, as it did before broker epochs (the lab's oldest generation only).
    `directories_since`: its lives before this epoch had a log directory that is not there now."""

    epoch: int
    clean_epoch: int = NO_EPOCH
    leaving: bool = False
    trusted: bool = False
    directories_since: int = NO_EPOCH

    def holds(self, recorded: int) -> bool:
        """Whether every log directory of the life with the recorded epoch is there."""
        return self.trusted or has_directories_of(recorded, self.directories_since)


Lives = Mapping[int, Life]
NOBODY: Collection[int] = frozenset()


class Election(NamedTuple):
    """`state` is what to write, or None if nothing changes; `candidates` must first report their log ends. `eligible`:
    an eligible leader replica leads, because no in-sync replica can."""

    state: LeadershipState | None
    candidates: Sequence[int] = ()
    unclean: bool = False
    eligible: bool = False


UNCHANGED = Election(None)


def counts(broker: int, recorded: int, lives: Lives) -> bool:
    life = lives.get(broker)
    if life is None:
        return False
    known = life.trusted or (recorded != NO_EPOCH and recorded in (life.epoch, life.clean_epoch))
    return known and life.holds(recorded)


def with_elr(
    before: LeadershipState, after: LeadershipState, replicas: Sequence[int], lives: Lives, min_in_sync: int
) -> LeadershipState:
    """`after`, an ISR that is to replace `before`'s, with the eligible leader replicas that follow from both."""
    if len(after.isr) >= min(min_in_sync, len(replicas)):
        return without_elr(after)
    once = {b: e for b, e in {**before.eligible, **before.members}.items() if b in replicas and b not in after.isr}
    elr = {b: lives[b].epoch if b in lives else once[b] for b in sorted(once) if not has_lost(b, once[b], lives)}
    known = {**before.unproven, **once}
    lost = {b: known[b] for b in sorted(known) if b in replicas and b not in after.isr and b not in elr}
    last_leader = NO_LEADER
    if after.leader == NO_LEADER:
        last_leader = before.last_leader if before.leader == NO_LEADER else before.leader
    return after._replace(
        elr=tuple(elr),
        elr_epochs=tuple(elr.values()),
        last_known=tuple(lost),
        last_known_epochs=tuple(lost.values()),
        last_leader=last_leader,
    )


def without_elr(state: LeadershipState) -> LeadershipState:
    if state.elr or state.last_known or state.last_leader != NO_LEADER:
        return state._replace(elr=(), elr_epochs=(), last_known=(), last_known_epochs=(), last_leader=NO_LEADER)
    return state


def forgotten(state: LeadershipState) -> LeadershipState:
    """The state as it is without eligible leader replicas: an empty ISR becomes all who were recorded."""
    recorded = state.members or state.recorded
    return without_elr(state._replace(isr=tuple(recorded), isr_epochs=tuple(recorded.values())))


def has_lost(broker: int, recorded: int, lives: Lives) -> bool:
    """Whether the broker is back without proof that it still has what it had: its last end was unclean."""
    return broker in lives and not counts(broker, recorded, lives)


def first_state(replicas: Sequence[int], lives: Lives) -> LeadershipState:
    """A new partition: the live replicas are in sync, the first of them leads. Without any it has no leader, and its
    first live replica may lead later: nothing was written yet, so all replicas are recorded as in sync, never seen."""
    isr = tuple(broker for broker in replicas if broker in lives and not lives[broker].leaving)
    if not isr:
        return LeadershipState(NO_LEADER, 0, tuple(replicas), (NO_EPOCH,) * len(replicas))
    return LeadershipState(isr[0], 0, isr, tuple(lives[broker].epoch for broker in isr))


def elect(
    state: LeadershipState,
    replicas: Sequence[int],
    lives: Lives,
    *,
    offline: Collection[int] = NOBODY,
    unclean: bool = False,
    min_in_sync: int = 0,
) -> Election:
    """The election for a partition, given the live brokers; `offline` are live replicas whose log folder failed."""
    if not min_in_sync:  # the feature is off, or the controller cannot read its level
        state = forgotten(state)
    standing = [
        broker
        for broker, recorded in state.members.items()
        if broker not in offline and counts(broker, recorded, lives)
    ]
    if standing and (not min_in_sync or any(not lives[broker].leaving for broker in standing)):
        election = _elect_standing(state, replicas, lives, standing)
        after = with_elr(state, election.state or state, replicas, lives, min_in_sync)
        return UNCHANGED if after == state else Election(after)
    present = [broker for broker in replicas if broker in lives and broker not in offline and not lives[broker].leaving]
    if min_in_sync:
        return _elect_eligible(state, replicas, lives, present, offline, unclean=unclean, min_in_sync=min_in_sync)
    if unclean:
        return elect_unclean(state, present, lives)
    back = [broker for broker in state.isr if broker in present]
    if len(back) < len(state.isr):
        return _without_leader(state, state)
    recorded = state.members
    if len(back) == 1 and lives[back[0]].holds(recorded[back[0]]):
        return Election(_led_by(state, back[0], back, lives))
    return Election(_without_leader(state, state).state, tuple(back))


def _elect_standing(state: LeadershipState, replicas: Sequence[int], lives: Lives, standing: list[int]) -> Election:
    """Members that are shutting down leave leadership and ISR to the others. If there are no others, they stay in the
    ISR, so that one of them leads when it is back, but none leads any more (as in Kafka 4)."""
    remaining = [broker for broker in standing if not lives[broker].leaving]
    staying = remaining or standing
    epochs = tuple(lives[broker].epoch for broker in staying)
    if not remaining:
        return _without_leader(state._replace(isr=tuple(staying), isr_epochs=epochs), state)
    leader = state.leader
    if leader in staying and state.members[leader] == lives[leader].epoch:
        if len(staying) == len(state.isr) and epochs == state.isr_epochs:
            return UNCHANGED
        return Election(state._replace(isr=tuple(staying), isr_epochs=epochs))
    first = next(broker for broker in replicas if broker in staying)
    return Election(_led_by(state, first, staying, lives))


def elect_unclean(state: LeadershipState, present: Sequence[int], lives: Lives) -> Election:
    """Any live replica, those that were in the ISR for longest first because they miss least. It ends what was known of
    the others."""
    if not present:
        return _without_leader(state, state)

    def missing(broker: int) -> int:
        if broker in state.members or broker == state.last_leader:
            return 0
        return 1 if broker in state.elr else 2 if broker in state.last_known else 3

    leader = min(present, key=missing)
    return Election(without_elr(_led_by(state, leader, [leader], lives)), unclean=True)


def _elect_eligible(
    state: LeadershipState,
    replicas: Sequence[int],
    lives: Lives,
    present: Sequence[int],
    offline: Collection[int],
    *,
    unclean: bool,
    min_in_sync: int,
) -> Election:
    """No member of the ISR can lead, so the ISR becomes empty: the first eligible replica leads, or everybody waits."""
    empty = with_elr(state, state._replace(leader=NO_LEADER, isr=(), isr_epochs=()), replicas, lives, min_in_sync)
    first = next((broker for broker in present if broker in empty.elr), None)
    if first is not None:
        state = with_elr(empty, _led_by(empty, first, [first], lives), replicas, lives, min_in_sync)
        return Election(state, eligible=True)
    back = [broker for broker in empty.last_known if broker in present]
    is_leaving = any(broker in lives and broker not in offline for broker in empty.elr)
    if unclean and present and not is_leaving:
        return elect_unclean(state, present, lives)
    waiting = _without_leader(empty, state)
    if empty.elr or len(back) < len(empty.last_known):
        return waiting
    if len(back) == 1 and lives[back[0]].holds(empty.unproven[back[0]]):
        return Election(with_elr(empty, _led_by(empty, back[0], back, lives), replicas, lives, min_in_sync))
    return Election(waiting.state, tuple(back))


def _without_leader(after: LeadershipState, before: LeadershipState) -> Election:
    """The ISR stays recorded: its members must come back."""
    if before.leader == NO_LEADER:
        return UNCHANGED if after == before else Election(after)
    return Election(after._replace(leader=NO_LEADER, leader_epoch=before.leader_epoch + 1))


def _led_by(state: LeadershipState, leader: int, isr: Sequence[int], lives: Lives) -> LeadershipState:
    epochs = tuple(lives[broker].epoch for broker in isr)
    return state._replace(leader=leader, leader_epoch=state.leader_epoch + 1, isr=tuple(isr), isr_epochs=epochs)


def elect_by_logs(
    state: LeadershipState,
    replicas: Sequence[int],
    lives: Lives,
    ends: Mapping[int, tuple[int, int]],
    min_in_sync: int = 0,
) -> LeadershipState:
    """Every recorded member is back, none counts: the highest (last epoch, log end offset) leads, alone in sync.
    Ties go to the first in assignment order."""
    leader = max(ends, key=lambda broker: (ends[broker], -replicas.index(broker)))
    return with_elr(state, _led_by(state, leader, [leader], lives), replicas, lives, min_in_sync)


def elect_preferred(
    state: LeadershipState, replicas: Sequence[int], lives: Lives, *, offline: Collection[int] = NOBODY
) -> LeadershipState | None:
    """The first replica leads if it is in sync, counts and is not shutting down; None if it cannot, or leads
    already."""
    preferred = replicas[0]
    if preferred == state.leader or preferred in offline or preferred not in state.isr:
        return None
    if not counts(preferred, state.members[preferred], lives) or lives[preferred].leaving:
        return None
    return state._replace(leader=preferred, leader_epoch=state.leader_epoch + 1)
