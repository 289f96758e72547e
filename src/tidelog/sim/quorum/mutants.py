"""Mutants of the quorum: each leaves out one decision of the core, and some seed must show it.

A check that no mutant breaks is worth nothing, and a rule that no check misses is either superfluous or untested.
"""

# ruff: noqa: SLF001  (a replacement has the parameters of what it replaces, and its place inside)

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from tidelog.effects import Effect
from tidelog.errors import ErrorCode
from tidelog.log import recovery
from tidelog.log.segments import Segments
from tidelog.model import Time
from tidelog.partition.truncation import EpochEnd
from tidelog.quorum import election, voting
from tidelog.quorum.election import LogEnd
from tidelog.quorum.leases import Leases
from tidelog.quorum.outbox import Outbox
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.records import NO_SESSION, TreeChanges
from tidelog.quorum.replica import Replica
from tidelog.quorum.snapshots import UNFINISHED, Incoming, Syncs
from tidelog.quorum.state_file import ElectionState
from tidelog.quorum.states import Follower, Leader, State
from tidelog.quorum.tree import Applied, Tree
from tidelog.quorum.voter_changes import VoterChanges
from tidelog.quorum.voters import History, ReplicaKey, VoterSet
from tidelog.wire.messages.cluster.metadata_log import VoterEndpoint


class Mutant(NamedTuple):
    """`seed` shows it. `where` has the attribute `name`, which the mutant replaces."""

    where: Any
    name: str
    replacement: Any
    seed: int


def send_at_once(outbox: Outbox, effect: Effect) -> None:
    """A message does not wait until its reason is durable."""
    outbox._out.append(effect)


def any_log(candidate: LogEnd, own: LogEnd) -> bool:  # noqa: ARG001
    """A candidate with a shorter log gets votes."""
    return True


def commit_older_epochs(machine: Quorum, state: Leader) -> None:
    """What a majority has is committed, whatever epoch it is of."""
    ends = state.ends_of(machine.voters)
    if machine.is_voter:
        ends[machine.me.id] = machine.replica.synced_end
    committed = machine.voters.reached_by_majority(ends, 0)
    if machine.replica.raise_high_watermark(committed):
        machine._outbox.event("quorum.committed", node=machine.me.id, offset=committed, epoch=machine.epoch)


def ask_unsynced(machine: Quorum) -> bool:  # noqa: ARG001
    """A replica fetches from where its log ends, and requests votes for all of it, synced or not."""
    return True


def only_sync(segments: Segments, recovery_point: int) -> None:
    """The tail is synced after the start, but not written again."""


def cut_everything(log: Replica, leader: EpochEnd) -> int:  # noqa: ARG001
    """A log that diverges starts over, below the high watermark."""
    log.log.truncate_to(0)
    log.voters.cut(0)
    log.high_watermark = 0
    return 0


def vote_again(state: State, election_state: ElectionState, key: ReplicaKey, candidate: LogEnd, own: LogEnd) -> bool:  # noqa: ARG001
    """Every candidate with a complete log gets a vote."""
    return candidate >= own


def check_no_pending(changes: VoterChanges, *, in_office: bool) -> ErrorCode:  # noqa: ARG001
    """Voters are changed while the change before is not committed."""
    return ErrorCode.NONE


def finish_unsynced(incoming: Incoming) -> Syncs:
    """A log starts over, or is removed, before the snapshot that stands for it is durable."""
    incoming._file.close()
    incoming._disk.rename(incoming._path + UNFINISHED, incoming._path)
    yield ()


def count_lost_disks(state: Leader, voters: VoterSet) -> dict[int, int]:
    """What a voter's former disk had counts for its new one."""
    return {key.id: progress.end for key, progress in state.replicas.items() if key.id in voters.ids}


def keep_old_voters(history: History[Any], end_offset: int) -> None:
    """A set of voters that was cut from the log stays in force."""


def ignore_log_end_of_snapshot(log: Replica, offset: int) -> LogEnd:
    """A log without records since its snapshot is compared as an empty one."""
    return LogEnd(max(log.log.epochs.epoch_at(offset - 1), 0) if offset else 0, offset)


def keep_leases(leases: Leases, sessions: Iterable[int], now: int) -> None:
    """A new leader goes on with the leases that it granted when it led before."""
    if sessions:
        leases._deadlines = {each: leases._deadlines.get(each, now + leases.term_ms) for each in sessions}


def ignore_numbers(tree: Tree, offset: int, record: TreeChanges) -> Applied:
    """A change that comes twice is done twice."""
    if record.session != NO_SESSION and record.session not in tree.sessions:
        return Applied("session over")
    return tree._all_or_none(offset, record.session, record.changes)


def tell_nobody(machine: Quorum, state: Follower) -> None:
    """A voter that has moved does not say where it is."""


def tell_nobody_as_leader(
    changes: VoterChanges, me: ReplicaKey, endpoints: Sequence[VoterEndpoint], now: Time, *, in_office: bool
) -> None:
    """A leader that has moved leaves its former endpoints in the voter set."""


MUTANTS: dict[str, Mutant] = {
    "send_before_file": Mutant(Outbox, "_send", send_at_once, 13),
    "shorter_log_wins": Mutant(election, "is_complete", any_log, 3),
    "older_epoch_commits": Mutant(Quorum, "_advance", commit_older_epochs, 0),
    "unsynced_fetch_offset": Mutant(Quorum, "is_synced", property(ask_unsynced), 0),
    "tail_not_rewritten": Mutant(recovery, "write_again", only_sync, 5),
    "cut_below_high_watermark": Mutant(Replica, "cut", cut_everything, 29),
    "two_changes_at_once": Mutant(VoterChanges, "_check", check_no_pending, 29),
    "start_before_snapshot": Mutant(Incoming, "finish", finish_unsynced, 0),
    "lost_disk_counts": Mutant(Leader, "ends_of", count_lost_disks, 54),
    "cut_voters_stay": Mutant(History, "cut", keep_old_voters, 19),
    "snapshot_without_epoch": Mutant(Replica, "log_end_at", ignore_log_end_of_snapshot, 6),
    "old_leases_kept": Mutant(Leases, "start", keep_leases, 75),
    "numbers_ignored": Mutant(Tree, "_change", ignore_numbers, 1_000_024),
    "endpoints_untold": Mutant(Quorum, "_update_endpoints", tell_nobody, 1_000_004),
    "own_endpoints_untold": Mutant(VoterChanges, "update_own", tell_nobody_as_leader, 1_000_004),
    "votes_twice": Mutant(voting, "may_grant_vote", vote_again, 11),
}


@contextmanager
def applied(name: str) -> Iterator[Mutant]:
    """The core as this mutant has it."""
    mutant = MUTANTS[name]
    with ExitStack() as stack:
        stack.enter_context(patch.object(mutant.where, mutant.name, mutant.replacement))
        yield mutant
