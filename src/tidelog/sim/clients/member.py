"""A consuming application that shares topics with the other members of its group.

I22 (S): the records it receives continue where the previous ones ended, and are the same as for everybody else.

I29 (S): a partition that it owns is not owned by anybody else in the same generation, and its commits count only in its
generation; in a group of the consumer protocol, until another member has had the partition in a later epoch. A process
that was replaced by another one of its instance ID commits nothing until it is a member again.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tidelog.client.consumer import Consumer
from tidelog.client.group.consumer_membership import ConsumerMembership
from tidelog.client.group.member import MemberState
from tidelog.client.options import ConsumerOptions
from tidelog.client.results import (
    Assigned,
    CommittedOffset,
    ConsumerRecord,
    Done,
    Event,
    Failed,
    Lost,
    Revoked,
    Truncated,
)
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.sim.clients.commits import NOTHING, Commit, Commits
from tidelog.sim.clients.process import Process
from tidelog.sim.clients.reader import ANYWHERE
from tidelog.sim.clients.seen_records import SeenRecords
from tidelog.sim.faults import MILLI
from tidelog.sim.world import World

POLL = (50 * MILLI, 400 * MILLI)
COMMITS = 0.3


REPLACED = frozenset({ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID})
"""Another process has the instance ID, or still has it."""


class Admission(NamedTuple):
    """A membership: the member ID, and how often the member had left before.

    Only a member of the consumer protocol keeps its ID when it leaves. It may rejoin under that ID, as in Kafka: when
    the process that replaced it left, too, or speaks the classic protocol.
    """

    member_id: str
    departures: int


class PendingCommit(NamedTuple):
    """A commit under way: its generation, how often the member had left, the group's newest generation then, and how
    many connections had ended.

    `outranked` are partitions that others had in a later epoch; `is_replaced`: another process had replaced this one.
    """

    commits: dict[TopicPartition, Commit]
    generation: int
    departures: int
    newest: int
    breaks: int
    outranked: list[TopicPartition]
    is_replaced: bool


class Member:
    """`positions` are the offsets of the next records, by partition. `share` is the part of the group's members that
    speak the consumer protocol. `over` is called when the member cannot continue, where that is legitimate. `replaces`
    are the processes that this one replaces, with their admissions; `replaced` are its own admissions that are void.
    """

    def __init__(
        self,
        world: World,
        seen_records: SeenRecords,
        commits: Commits,
        name: str,
        topics: tuple[str, ...],
        options: ConsumerOptions,
        *,
        share: float = 0.0,
        over: Callable[["Member"], None] | None = None,
    ) -> None:
        assert options.group_id is not None
        self.group = options.group_id
        self.topics = topics
        self.options = options
        self.process = Process(
            world, name, lambda bootstrap, entropy: Consumer(bootstrap, options, entropy), self._turned
        )
        self.seen_records = seen_records
        self.commits = commits
        self.positions: dict[TopicPartition, int] = {}
        self.leaving = False
        self.has_epochs, self.is_mixed = share > 0, 0 < share < 1
        self.over = over
        self.replaces: list[tuple[Member, Admission]] = []
        self.replaced: set[Admission] = set()
        self._departures = 0
        self._was_member = False
        self._pending: dict[int, PendingCommit] = {}
        self._committed: dict[TopicPartition, int] = {}

    def __repr__(self) -> str:
        return f"<member {self.process.name} at { ({str(name): at for name, at in self.positions.items()}) }>"

    @property
    def machine(self) -> Consumer:
        return self.process.machine

    @property
    def instance(self) -> str | None:
        return self.options.group_instance_id

    @property
    def member_id(self) -> str:
        assert self.machine.group is not None
        return self.machine.group.membership.member_id

    @property
    def admission(self) -> Admission:
        return Admission(self.member_id, self._departures)

    @property
    def generation(self) -> int:
        assert self.machine.group is not None
        return self.machine.group.membership.generation

    @property
    def stable_generation(self) -> int:
        """Its generation, or NOTHING while it is joining."""
        assert self.machine.group is not None
        return self.generation if self.machine.group.membership.state is MemberState.STABLE else NOTHING

    @property
    def goes_on(self) -> bool:
        """Whether it leads its group with the assignment of an earlier process of its instance."""
        assert self.machine.group is not None
        return self.machine.group.membership.skips_assignment

    def start(self) -> None:
        self.process.carry_out(self.machine.subscribe(self.topics, self.process.now()))
        self.poll()

    def poll(self) -> None:
        if self.leaving:
            return
        records, effects = self.machine.poll(self.process.now())
        for record in records:
            self._consume(record)
        self.process.carry_out(effects)
        if not self.options.enable_auto_commit and self.process.random.random() < COMMITS:
            self.commit()
        self.process.later(POLL, self.poll)

    def _consume(self, record: ConsumerRecord) -> None:
        name = TopicPartition(record.topic, record.partition)
        expected = self.positions[name]
        in_order = expected in (ANYWHERE, record.offset) or name.topic in self.seen_records.free
        # After records expired, it continues where the log starts.
        in_order = in_order or (record.offset > expected and self.seen_records.suite.ghosts.aged)
        assert in_order, f"I22: {self!r} received {record.offset} of {name} after {expected - 1}"
        self.positions[name] = record.offset + 1
        self.seen_records.read(name, record)

    # Commits.

    def commit(self) -> None:
        """Commit the positions that changed in the partitions that it owns."""
        known = {name: at for name, at in self.positions.items() if at not in (ANYWHERE, self._committed.get(name))}
        if not known:
            return
        now = self.process.world.micros
        commits = {name: self.commits.begin(self.group, name, at, now) for name, at in known.items()}
        newest = self.commits.generations.get(self.group, NOTHING)
        outranked = self.commits.outranked(self.group, self.generation, self.instance or self.process.name, known)
        is_replaced = self.admission in self.replaced
        pending = PendingCommit(
            commits, self.generation, self._departures, newest, self.process.breaks, outranked, is_replaced
        )
        offsets = {name: CommittedOffset(at) for name, at in known.items()}
        ticket, effects = self.machine.commit(self.process.now(), offsets)
        self._pending[ticket] = pending
        self._committed |= known
        self.process.carry_out(effects)

    def _commit_done(self, done: Done) -> None:
        pending = self._pending.pop(done.ticket)
        self.process.note("commit", done.error.name)
        self.process.world.count(f"commit: {done.error.name}")
        if done.error is not ErrorCode.NONE:
            self._committed.clear()
            return
        self._check_commit(pending)
        sure = pending.breaks == self.process.breaks
        for name, commit in pending.commits.items():
            self.commits.acknowledge(self.group, name, commit, self.process.world.micros, for_sure=sure)

    def _check_commit(self, pending: PendingCommit) -> None:
        """I29, for an acknowledged commit."""
        if not self.has_epochs:
            self.commits.committed_in(self.group, pending.generation, pending.newest)
        # Where the group was deleted meanwhile, its epochs count from the start, and the member may be in it again.
        who = self.instance or self.process.name
        outranked = self.commits.outranked(self.group, pending.generation, who, pending.outranked)
        right = not (outranked and self.has_epochs) or self.commits.is_void
        assert right, f"I29: {self!r} committed in epoch {pending.generation} what others owned later: {outranked}"
        # A member that left meanwhile may have rejoined, and the commit came after that.
        stayed = pending.departures == self._departures
        right = not (pending.is_replaced and stayed) or self.commits.is_void
        assert right, f"I29: {self!r} committed although another process is {self.instance} now"

    # Results and events of the machine.

    def _turned(self) -> None:
        self._count_departures()
        for done in self.machine.take_results():
            self._commit_done(done)
        for event in self.machine.take_events():
            self.process.note(type(event).__name__, event_text(event))
            match event:
                case Assigned(added, generation):
                    self.positions |= dict.fromkeys(sorted(added), ANYWHERE)
                    self._joined(generation)
                case Revoked(partitions):
                    self.process.after(0, partial(self._release, partitions))
                case Lost(partitions):
                    self._forget(partitions)
                case Truncated(name, position, offset):
                    self.seen_records.cut(name, position)
                    self.positions[name] = offset
                case Failed(error, message, partitions):
                    self.process.world.count(f"member: {error.name}")
                    if not partitions:
                        self._failed(error, message)

    def _count_departures(self) -> None:
        """Count departures; leaving and rejoining takes more than one turn, so none is missed."""
        assert self.machine.group is not None
        was_in, self._was_member = self._was_member, self.generation >= 0
        if was_in and not self._was_member and isinstance(self.machine.group.membership, ConsumerMembership):
            self._departures += 1

    def _failed(self, error: ErrorCode, message: str) -> None:
        """Check that the member may lose its membership.

        A group of both kinds that becomes a classic one forgets members of the consumer protocol that were away.
        """
        may_be = (self.instance is not None and error in REPLACED) or (
            error is ErrorCode.GROUP_ID_NOT_FOUND and self.is_mixed
        )
        may_be = may_be or self.seen_records.suite.groups.may_be_gone(self.group, self.member_id, error)
        assert may_be or self.commits.is_void, f"I29: {self!r} lost its membership: {message} ({error.name})"
        if self.over is not None:
            self.process.after(0, partial(self.over, self))

    def _joined(self, generation: int) -> None:
        groups = self.seen_records.suite.groups
        if groups.was_recreated(self.group, is_mixed=self.is_mixed):
            self.commits.reset_generations(self.group)
            groups.reset_generations(self.group)
        self.commits.generation_reached(self.group, generation)
        for other, admission in self.replaces:
            other.replaced.add(admission)
        if not self.commits.is_void:
            name, instance, owned = self.process.name, self.instance, self.machine.assignment
            self.commits.owns(self.group, generation, instance or name, owned)
            groups.joined(self.group, generation, name, owned, instance)

    def _release(self, partitions: frozenset[TopicPartition]) -> None:
        if not self.options.enable_auto_commit:
            self.commit()
        self._forget(partitions)

    def _forget(self, partitions: frozenset[TopicPartition]) -> None:
        for name in partitions:
            self.positions.pop(name, None)
            self._committed.pop(name, None)

    # The end.

    def leave(self) -> None:
        """Leave the group, if anybody receives the request."""
        self.leaving = True
        self.process.carry_out(self.machine.close(self.process.now()))
        self._await_close()

    def _await_close(self) -> None:
        if self.machine.is_closed:
            self.process.kill()
        else:
            self.process.after(100 * MILLI, self._await_close)

    def has_read(self, name: TopicPartition, end: int) -> bool:
        position = self.machine.position(name) if name in self.machine.assignment else None
        return position is not None and position >= end


def event_text(event: Event) -> str:
    """Return an event as text that is the same in every process: sets are sorted."""
    match event:
        case Assigned(partitions) | Revoked(partitions) | Lost(partitions):
            return " ".join(map(str, sorted(partitions)))
        case _:
            return str(event)
