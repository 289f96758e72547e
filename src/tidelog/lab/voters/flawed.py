"""Replicas of the quorum that break one rule each: a story shows what the rule is good for.

A knob of a story chooses them. Where the simulator has a mutant for that, it is the same function.
"""

from collections.abc import Mapping

from tidelog.model import Time
from tidelog.quorum.outbox import Outbox
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.states import Prospective, Tally
from tidelog.quorum.voter_changes import VoterChanges
from tidelog.quorum.voting import QuorumConfig
from tidelog.sim.quorum.mutants import check_no_pending, commit_older_epochs, send_at_once


class _HastyOutbox(Outbox):
    _send = send_at_once


class SendsBeforeSaved(Quorum):
    """Grants a vote before the vote is on its disk."""

    def __init__(self, config: QuorumConfig) -> None:
        super().__init__(config)
        self._outbox.__class__ = _HastyOutbox


class CommitsOlderEpochs(Quorum):
    """Counts what a majority has as committed, of whatever epoch it is."""

    _advance = commit_older_epochs


class StandsAtOnce(Quorum):
    """Begins an election, with a new epoch, without asking first whether it could win."""

    def _prospective(self, now: Time, *, leader_left: bool = False) -> Prospective:
        state = super()._prospective(now, leader_left=leader_left)
        state.tally = Tally(self.voters, set(self.voters.ids))
        return state


class _HastyChanges(VoterChanges):
    _check = check_no_pending


class ChangesTogether(Quorum):
    """Changes the voters while the change before is not committed."""

    def __init__(self, config: QuorumConfig) -> None:
        super().__init__(config)
        self._changes.__class__ = _HastyChanges


FLAWED: dict[tuple[str, str], type[Quorum]] = {
    ("vote", "unsaved"): SendsBeforeSaved,
    ("commits", "any_epoch"): CommitsOlderEpochs,
    ("pre_vote", "off"): StandsAtOnce,
    ("changes", "together"): ChangesTogether,
}
"""(knob, value) → what the story's replicas are."""


def replica_of(knobs: Mapping[str, str]) -> type[Quorum]:
    """What the knobs make of the replicas: Tidelog's own, unless a knob leaves out a rule."""
    return next((FLAWED[each] for each in knobs.items() if each in FLAWED), Quorum)
