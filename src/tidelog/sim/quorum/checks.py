"""The invariants of a quorum, checked after every input and at the end of a run.

- I33: an epoch has at most one leader.
- I34: a voter votes once in an epoch, over all its lives, according to the messages that leave it.
- I35: a leader never cuts its log.
- I36: logs match: what two replicas have of one epoch at one offset is the same batch (at the end).
- I37: a new leader has everything that was committed in earlier epochs.
- I38: what replicas take for committed is the same everywhere, and so is the tree that it makes, also where it was
  loaded from a snapshot.
- I39: the high watermark of a leader is on the disks of a majority, ends with a record of its epoch, and no replica's
  goes back, nor does any that leaders give out.
- I40: voter sets differ in one voter, and none follows one that is not committed.
- I52: a replica whose log and fetched snapshot do not grow sends at most 150 fetches a second.
- I43: after a power cut of all machines, a majority has everything committed.

A voter whose disk rots or is replaced counts for what it had then: it never votes again, so all majorities of the
others have a voter who has that.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from tidelog.effects import Event
from tidelog.errors import ApiError
from tidelog.log import names
from tidelog.model import NO_ID
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.records import Decoded, decode
from tidelog.quorum.replica import Replica
from tidelog.quorum.snapshots import SnapshotId, held
from tidelog.quorum.states import Leader
from tidelog.quorum.tree import Applied, Tree, TreeImage
from tidelog.quorum.voters import ReplicaKey, VoterSet
from tidelog.sim.faults import SECOND
from tidelog.sim.quorum.machines import FOLDER, Machine, World
from tidelog.wire.messages.cluster.fetch_snapshot import FetchSnapshotPartition, FetchSnapshotRequest
from tidelog.wire.messages.cluster.quorum_elections import VoteRequest
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionData
from tidelog.wire.records import BatchHeader, batches, crc_holds, records

MOST_FETCHES = 150
"""Of one position, by one replica in one second."""


class Violation(Exception):
    """An invariant does not hold."""


def _ignore(*_: Any) -> None:
    """Nobody asks."""


class Entry(NamedTuple):
    """A batch of the log."""

    offset: int
    next_offset: int
    epoch: int
    crc: int


class Seen(NamedTuple):
    """What one life of a machine was like at its last input."""

    life: int
    epoch: int
    is_leader: bool
    end: int
    high_watermark: int
    voters_at: int
    voters: VoterSet


def entries_in(content: bytes | bytearray) -> list[Entry]:
    return [Entry(b.base_offset, b.next_offset, b.leader_epoch, b.crc) for b in batches(content)]


def entries_of(replica: Replica, start: int, end: int) -> list[Entry]:
    """The batches of a replica's log that begin in [start, end)."""
    found: list[Entry] = []
    while start < end:
        piece = replica.log.read(start, 1 << 20, end, at_least_one=True)
        if piece is None:
            break
        found += entries_in(piece.file.read(piece.position, piece.length))
        start = found[-1].next_offset
    return found


class Checks:
    """`committed` are the batches that some leader committed, in order."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.committed: list[Entry] = []
        self.ghost = Tree()
        self.pictures: dict[int, TreeImage] = {0: self.ghost.picture()}
        """The tree as the committed records before an offset make it."""
        self.judged: Callable[[int, Decoded, Applied], None] = _ignore
        """Called for every committed record, with what it did."""
        self.lost: dict[ReplicaKey, tuple[set[Entry], int]] = {}
        """What the disks had that were replaced: batches, and the end of the newest snapshot."""
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self._committed_in: list[int] = []
        """In which epoch each of these batches was committed."""
        self.elections = 0
        self.cuts = 0
        self._seen: dict[int, Seen] = {}
        self._given_out: dict[int, int] = {}
        """The highest of the high watermarks in answers, by epoch."""
        self._fetches: dict[int, tuple[int, Counter[tuple[int, int]]]] = {}
        """In which second, and what each machine fetched in it."""
        world.observe = self.observe
        world.asks = self.asks
        world.heard = self.heard
        world.loses = self.loses

    def __repr__(self) -> str:
        return f"Checks({self.end} committed, {len(self.leaders)} epochs with a leader)"

    @property
    def end(self) -> int:
        return self.committed[-1].next_offset if self.committed else 0

    def observe(self, machine: Machine, events: Sequence[Event]) -> None:
        """After every input of a machine."""
        quorum = machine.quorum
        assert quorum is not None
        machine.disk.quiet = True
        try:
            self._observe(machine, quorum, events)
        finally:
            machine.disk.quiet = False

    def _observe(self, machine: Machine, quorum: Quorum, events: Sequence[Event]) -> None:
        self.cuts += sum(event.kind == "quorum.cut" for event in events)
        is_leader = isinstance(quorum.state, Leader)
        before = self._seen.get(machine.id)
        if before is not None and before.life == machine.life:
            self._check_steady(before, quorum, is_leader=is_leader)
            known = before.high_watermark
        else:
            known = quorum.replica.log.log_start_offset
        known = max(known, quorum.replica.log.log_start_offset)
        if is_leader and (before is None or before[:3] != (machine.life, quorum.epoch, True)):
            self._check_new_leader(machine, quorum)
        if quorum.replica.high_watermark > known:
            is_own = any(event.kind == "quorum.committed" for event in events)  # it may have resigned since
            self._check_committed(quorum, known, is_own=is_own)
        self._check_applied(machine, quorum.replica)
        replica = quorum.replica
        machine.last_voters = replica.voters.latest
        self._seen[machine.id] = Seen(
            machine.life,
            quorum.epoch,
            is_leader,
            replica.end,
            replica.high_watermark,
            replica.voters.latest_offset,
            replica.voters.latest,
        )

    def _check_steady(self, before: Seen, quorum: Quorum, *, is_leader: bool) -> None:
        node, replica = quorum.me.id, quorum.replica
        if before.is_leader and is_leader and before.epoch == quorum.epoch and replica.end < before.end:
            raise Violation(
                f"I35: leader {node} of epoch {quorum.epoch} cut its log from {before.end} to {replica.end}"
            )
        if replica.high_watermark < before.high_watermark:
            raise Violation(
                f"I39: the high watermark of {node} went from {before.high_watermark} to {replica.high_watermark}"
            )
        if before.is_leader and is_leader and replica.voters.latest_offset > before.voters_at:
            self._check_voters_changed(before, quorum)
        if quorum.epoch < before.epoch:
            raise Violation(f"I33: {node} went from epoch {before.epoch} to {quorum.epoch}")

    def _check_voters_changed(self, before: Seen, quorum: Quorum) -> None:
        """The first set of a log repeats the one that voted for its leader."""
        if before.voters_at >= quorum.replica.high_watermark:
            raise Violation(f"I40: {quorum.me.id} changes the voters while {before.voters} is not committed")
        if before.voters.directories:
            changed = len(set(before.voters) ^ set(quorum.voters))
        else:  # kraft.version 1 comes with the same voters
            changed = 2 * len(set(before.voters.ids) ^ set(quorum.voters.ids))
        if changed > 1:
            raise Violation(f"I40: {quorum.me.id} changes {before.voters} to {quorum.voters}")

    def _check_applied(self, machine: Machine, replica: Replica) -> None:
        state = machine.state
        assert state is not None
        before = state.applied
        state.advance(replica, partial(self.world.applied, machine))
        if state.applied != before and state.tree.picture() != self.pictures.get(state.applied):
            raise Violation(f"I38: {machine.id} has another tree at offset {state.applied}")

    def _check_new_leader(self, machine: Machine, quorum: Quorum) -> None:
        self.elections += 1
        first = self.leaders.setdefault(quorum.epoch, machine.id)
        if first != machine.id:
            raise Violation(f"I33: epoch {quorum.epoch} has the leaders {first} and {machine.id}")
        # A candidate that was paused may win an election that a later one has overtaken: it commits nothing.
        earlier = self.committed[: bisect_left(self._committed_in, quorum.epoch)]
        start, end = quorum.replica.log.log_start_offset, earlier[-1].next_offset if earlier else 0
        earlier = [entry for entry in earlier if entry.offset >= start]
        own = entries_of(quorum.replica, start, end)
        if own != earlier:
            missing = next((entry for entry in earlier if entry not in own), None)
            raise Violation(f"I37: leader {machine.id} of epoch {quorum.epoch} lacks {missing}, which is committed")

    def _check_committed(self, quorum: Quorum, known: int, *, is_own: bool) -> None:
        node, high_watermark = quorum.me.id, quorum.replica.high_watermark
        found = entries_of(quorum.replica, known, high_watermark)
        ghost = self._between(known, high_watermark)
        if found[: len(ghost)] != ghost:
            raise Violation(f"I38: {node} has other records committed in [{known}, {high_watermark})")
        if is_own:
            new = [entry for entry in found if entry.offset >= self.end]
            self._committed(quorum, new)
            self._check_commit(quorum, found[-1])
        elif high_watermark > self.end:
            raise Violation(f"I39: {node} knows of a high watermark of {high_watermark}, but no leader had it")

    def _between(self, start: int, end: int) -> list[Entry]:
        if start >= self.end:
            return []
        return [entry for entry in self.committed if start <= entry.offset < end]

    def _committed(self, quorum: Quorum, new: list[Entry]) -> None:
        self.committed += new
        self._committed_in += [quorum.epoch] * len(new)
        for header, content in quorum.replica.committed(new[0].offset) if new else ():
            if not header.is_control:
                for each in records(content):
                    record = decode(each.value or b"")
                    self.judged(each.offset, record, self.ghost.apply(each.offset, record))
                self.ghost.check_invariants()
            self.pictures[header.next_offset] = self.ghost.picture()

    def _check_commit(self, quorum: Quorum, last: Entry) -> None:
        """The last batch that a leader takes for committed."""
        if last.epoch != quorum.epoch:
            raise Violation(
                f"I39: leader {quorum.me.id} of epoch {quorum.epoch} commits {last.offset} of epoch {last.epoch}"
            )
        holders = [voter.id for voter in quorum.voters if self.has_all(voter, last)]
        if len(holders) < quorum.voters.majority:
            raise Violation(f"I39: {last} of leader {quorum.me.id} is on the disks of {holders} only")

    def has_all(self, voter: ReplicaKey, last: Entry) -> bool:
        """Whether this batch and all committed ones before are on the voter's disk, or in a snapshot there."""
        machine = self.world.machines[voter.id]
        is_lost = machine.is_rotten or (voter.directory != NO_ID and machine.key != voter)
        found, covered = self.lost.get(voter, (set(), 0)) if is_lost else _kept(machine)
        if covered >= last.next_offset:  # its log begins at the end of a snapshot, and may be empty
            return True
        start = min((entry.offset for entry in found), default=0)
        until = bisect_left(self.committed, last.next_offset, key=lambda entry: entry.next_offset) + 1
        since = bisect_left(self.committed, start, key=lambda entry: entry.offset)
        is_covered = start <= covered or is_lost
        return last in found and is_covered and found.issuperset(self.committed[since:until])

    def loses(self, machine: Machine) -> None:
        """The disk is replaced, or rots."""
        self.lost.setdefault(machine.key, _kept(machine))

    def asks(self, machine: Machine, request: Any) -> None:
        """A request leaves a machine: a candidate's says that it voted for itself."""
        if isinstance(request, VoteRequest):
            asked = request.topics[0].partitions[0]
            if not asked.pre_vote:
                self._note_vote(machine.key, asked.replica_epoch, machine.key)
        elif isinstance(request, FetchRequest | FetchSnapshotRequest):
            self._note_fetch(machine, request.topics[0].partitions[0])

    def _note_fetch(self, machine: Machine, asked: FetchPartition | FetchSnapshotPartition) -> None:
        second = self.world.micros // SECOND
        position = (
            (asked.fetch_offset, asked.high_watermark) if isinstance(asked, FetchPartition) else (-1, asked.position)
        )
        since, positions = self._fetches.get(machine.id, (second, Counter[tuple[int, int]]()))
        if since != second:
            positions = Counter()
        positions[position] += 1
        self._fetches[machine.id] = (second, positions)
        if positions[position] > MOST_FETCHES:
            raise Violation(f"I52: {machine.id} goes on fetching at {position} without any progress")

    def heard(self, machine: Machine, request: Any, response: Any) -> None:
        """An answer leaves a machine."""
        if isinstance(response, FetchResponse) and response.responses:
            self._note_given_out(machine, response.responses[0].partitions[0])
        if isinstance(request, VoteRequest) and response.topics:
            asked, answer = request.topics[0].partitions[0], response.topics[0].partitions[0]
            if answer.vote_granted and not asked.pre_vote:
                candidate = ReplicaKey(asked.replica_id, asked.replica_directory_id)
                self._note_vote(machine.key, asked.replica_epoch, candidate)

    def _note_given_out(self, machine: Machine, answer: PartitionData) -> None:
        given, epoch = answer.high_watermark, answer.current_leader.leader_epoch
        if given < 0:
            return
        before = max((most for earlier, most in self._given_out.items() if earlier <= epoch), default=0)
        if given < before:
            raise Violation(f"I39: leader {machine.id} of epoch {epoch} gives out {given} after {before}")
        self._given_out[epoch] = given

    def _note_vote(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey) -> None:
        first = self.votes.setdefault((voter, epoch), candidate)
        if first != candidate:
            raise Violation(f"I34: {voter.id} voted for {first.id} and for {candidate.id} in epoch {epoch}")

    # at rest

    def check_logs_match(self) -> None:
        """I36, of all replicas that run."""
        first: dict[tuple[int, int], Entry] = {}
        before: dict[tuple[int, int], Entry] = {}
        for machine in self.world.machines:
            if machine.quorum is None:
                continue
            machine.disk.quiet = True
            replica = machine.quorum.replica
            log = entries_of(replica, replica.log.log_start_offset, replica.end)
            machine.disk.quiet = False
            for entry, following in pairwise([*log, None]):
                assert entry is not None
                same = first.setdefault((entry.offset, entry.epoch), entry) == entry
                if following is not None:
                    same = same and before.setdefault((following.offset, following.epoch), entry) == entry
                if not same:
                    raise Violation(f"I36: two logs differ at or before offset {entry.offset} of epoch {entry.epoch}")

    def check_survival(self, voters: VoterSet) -> None:
        """I43: what is on the disks after a power cut of all."""
        whole = [voter.id for voter in voters if not self.committed or self.has_all(voter, self.committed[-1])]
        if len(whole) < voters.majority:
            raise Violation(f"I43: after a power cut only {whole} have all {self.end} committed records")


def _kept(machine: Machine) -> tuple[set[Entry], int]:
    """What a power cut leaves: the batches of the log, and the end of the newest snapshot (0 without one)."""
    return durable(machine), max((snapshot.end_offset for snapshot in snapshots_of(machine)), default=0)


def snapshots_of(machine: Machine) -> list[SnapshotId]:
    """The snapshots whose names a power cut leaves."""
    names_there = [path.rpartition("/")[2] for path, inode in machine.disk.durable.items() if inode is not None]
    return held(names_there)


def durable(machine: Machine) -> set[Entry]:
    """The batches on a machine's disk that a power cut leaves."""
    found: set[Entry] = set()
    for path, inode in machine.disk.durable.items():
        folder, _, name = path.rpartition("/")
        if folder == FOLDER and names.is_kind(name, names.LOG) and inode is not None:
            found.update(whole_entries(inode.durable))
    return found


def whole_batches_of(machine: Machine) -> list[tuple[str, BatchHeader]]:
    """The batches on a machine's disk, each with its file."""
    found: list[tuple[str, BatchHeader]] = []
    for path, inode in machine.disk.names.items():
        folder, _, name = path.rpartition("/")
        if folder == FOLDER and names.is_kind(name, names.LOG) and inode is not None:
            with suppress(ApiError):
                found += [(path, batch) for batch in batches(bytes(inode.durable))]
    return found


def whole_entries(content: bytearray) -> list[Entry]:
    """The batches up to the first bytes that are not one."""
    found: list[Entry] = []
    view = memoryview(bytes(content))
    with suppress(ApiError):
        for batch in batches(view):
            if not crc_holds(view, batch):
                break
            found.append(Entry(batch.base_offset, batch.next_offset, batch.leader_epoch, batch.crc))
    return found
