"""An application that reads, writes what it read elsewhere, and commits its positions, all in one transaction: each
record must be copied exactly once, whatever happens to it and its peers (KIP-98, KIP-447).

I29 (S): a position that was committed in a transaction is read if and only if the transaction was committed; one of an
old generation is refused.

I23, I28 (Q): a transaction's copies are all or nothing (`transactor.Ledger`). I26 (Q): each record is copied once, in
order.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from tidelog.client.consumer import Consumer
from tidelog.client.options import ConsumerOptions
from tidelog.client.results import (
    Assigned,
    CommittedOffset,
    ConsumerRecord,
    Done,
    Failed,
    GroupPlace,
    Lost,
    Revoked,
    Truncated,
)
from tidelog.client.transactional import TransactionalProducer, Versions
from tidelog.effects import Effect
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.sim.clients.commits import NOTHING, Commit
from tidelog.sim.clients.other_producers import Habits, producer
from tidelog.sim.clients.process import Process
from tidelog.sim.clients.transactor import Fate, Ledger, WrittenTransaction, transactional
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import MILLI

POLL = (50 * MILLI, 400 * MILLI)
AGAIN = (200 * MILLI, 2_000 * MILLI)
COMMITS = 0.85

Targets = Mapping[TopicPartition, TopicPartition]
"""Target partition of the records of each source partition."""


class PolledRecords(NamedTuple):
    """Records of one poll, the membership as it was before, and the first and next offsets."""

    records: Sequence[ConsumerRecord]
    place: GroupPlace
    begins: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]


class Copier:
    """A consumer and a producer in one process.

    It is a member of the group if `subscribes`; otherwise it reads the partitions of `targets`. Fenced or uncertain, it
    starts a new life.
    """

    def __init__(
        self,
        cluster: Cluster,
        ledger: Ledger,
        name: str,
        transactional_id: str,
        targets: Targets,
        options: ConsumerOptions,
        *,
        subscribes: bool,
        pause: tuple[int, int],
        versions: Versions | None = None,
    ) -> None:
        assert options.group_id is not None
        self.cluster = cluster
        self.world = cluster.world
        self.commits = cluster.commits
        self.ledger = ledger
        self.name = name
        self.transactional_id = transactional_id
        self.targets = targets
        self.options = options
        self.group = options.group_id
        self.subscribes = subscribes
        self.pause = pause
        self.versions = versions
        self.retired = False
        self.lives = 0
        self._values = 0
        self._uncertain: list[Commit] = []
        self._begin_life()

    def __repr__(self) -> str:
        return f"<copier {self.name}, life {self.lives}, {self.machine!r}>"

    @property
    def machine(self) -> TransactionalProducer:
        return self.producer.machine

    @property
    def reader(self) -> Consumer:
        return self.consumer.machine

    # Lives.

    def _begin_life(self) -> None:
        self.lives += 1
        name, options = f"{self.name}-{self.lives}", transactional(self.name, self.transactional_id)
        self._then: tuple[int, Callable[[Done], None]] | None = None
        self._written: WrittenTransaction | None = None
        self._commits: dict[TopicPartition, Commit] = {}
        self._still_owned: set[TopicPartition] = set()
        self._breaks = 0
        self.producer: Process[TransactionalProducer] = Process(
            self.world,
            f"{name}-writes",
            lambda bootstrap, entropy: producer(bootstrap, options, entropy, Habits(self.versions)),
            self._producer_turned,
        )
        self.consumer: Process[Consumer] = Process(
            self.world,
            f"{name}-reads",
            lambda bootstrap, entropy: Consumer(bootstrap, self.options, entropy),
            self._consumer_turned,
        )

    def start(self) -> None:
        """Take the ID over and end its open transaction before anything is read."""
        self._call(self.machine.init_transactions(self.producer.now()), self._initialized)

    def die(self) -> None:
        """End the process where it is; another one replaces it after a while."""
        self.producer.kill()
        self.consumer.kill()
        self._uncertain += self._commits.values()
        if not self.retired:
            self.world.count("copier begins anew")
            self._begin_life()
            self.producer.later(AGAIN, self.start)

    def retire(self) -> None:
        self.retired = True
        self.die()

    def pause_for(self, duration: int) -> None:
        self.producer.pause(duration)
        self.consumer.pause(duration)

    def _initialized(self, done: Done) -> None:
        if done.error:
            self.die()
            return
        for commit in self._uncertain:
            commit.replaceable_at = self.world.micros
        self._uncertain.clear()
        self._breaks = self.producer.breaks
        now = self.consumer.now()
        if self.subscribes:
            self.consumer.carry_out(self.reader.subscribe({name.topic for name in self.targets}, now))
        else:
            self.consumer.carry_out(self.reader.assign(list(self.targets), now))
        self._poll()

    # One transaction.

    def _poll(self) -> None:
        """Poll with the membership from before the call: a group may change its generation within it."""
        if self.versions is not None and self.producer.breaks != self._breaks:
            self.die()
            return
        place = self.reader.group_place
        records, effects = self.reader.poll(self.consumer.now())
        if records:
            polled = polled_records(records, place)
            self._still_owned = set(polled.begins)
            self.consumer.carry_out(effects)
            self._copy(polled)
        else:
            self.consumer.carry_out(effects)
            self.producer.later(POLL, self._poll)

    def _copy(self, polled: PolledRecords) -> None:
        assert polled.place.generation != NOTHING or not self.subscribes, f"{self!r} reads without being a member"
        try:
            self.machine.begin()
            self._written = self.ledger.open(self.machine, reuses=self.versions is not None)
            for record in polled.records:
                self._write(self._written, record)
        except ApiError:
            self.die()
            return
        self.producer.later(self.pause, partial(self._send_positions, polled))

    def _write(self, written: WrittenTransaction, record: ConsumerRecord) -> None:
        source = TopicPartition(record.topic, record.partition)
        target = self.targets[source]
        self._values += 1
        value = f"{source}@{record.offset} {self.name}-{self.lives}-{self._values}".encode()
        written.values.append((target, value))
        now = self.producer.now()
        _, effects = self.machine.send(target.topic, value, now, partition=target.partition)
        self.producer.carry_out(effects)

    def _send_positions(self, polled: PolledRecords) -> None:
        offsets = {name: CommittedOffset(end) for name, end in polled.ends.items()}
        newest = self.commits.generations.get(self.group, NOTHING)
        outranked = self.commits.outranked(self.group, polled.place.generation, self.consumer.name, offsets)
        try:
            started = self.machine.send_offsets(offsets, polled.place, self.producer.now())
        except ApiError:
            self._undo(polled)
            return
        self._call(started, partial(self._sent_positions, polled, newest, outranked))

    def _sent_positions(self, polled: PolledRecords, newest: int, outranked: list[TopicPartition], done: Done) -> None:
        self.world.count(f"positions: {done.error.name}")
        if done.error:
            self._undo(polled)
            return
        if self.subscribes and self.options.group_protocol == "classic":
            self.commits.committed_in(self.group, polled.place.generation, newest)
        elif self.subscribes:
            epoch = polled.place.generation  # a group that was deleted meanwhile counts from the start
            outranked = self.commits.outranked(self.group, epoch, self.consumer.name, outranked)
            right = not outranked or self.commits.is_void
            assert right, f"I29: {self!r} committed in epoch {epoch} what others owned later: {outranked}"
        self.producer.later(self.pause, partial(self._decide, polled))

    def _decide(self, polled: PolledRecords) -> None:
        if self.producer.random.random() >= COMMITS:
            self._undo(polled)
            return
        now = self.world.micros
        self._commits = {name: self.commits.begin(self.group, name, end, now) for name, end in polled.ends.items()}
        try:
            started = self.machine.commit(self.producer.now())
        except ApiError:
            self.die()
            return
        self._call(started, partial(self._committed, polled))

    def _committed(self, polled: PolledRecords, done: Done) -> None:
        if done.error:
            self._undo(polled)
            return
        for name, commit in self._commits.items():
            self.commits.acknowledge(self.group, name, commit, self.world.micros, for_sure=True)
        self._finish(Fate.COMMITTED)

    def _undo(self, polled: PolledRecords) -> None:
        if not self.machine.is_open:
            self.die()
            return
        try:
            started = self.machine.abort(self.producer.now())
        except ApiError:
            self.die()
            return
        self._call(started, partial(self._aborted, polled))

    def _aborted(self, polled: PolledRecords, done: Done) -> None:
        """Seek back in partitions that it still owns; for those that were revoked and assigned again, the group has the
        position.
        """
        if done.error:
            self.die()
            return
        for name, commit in self._commits.items():
            self.commits.withdraw(self.group, name, commit)
        places = self.reader.positions.by_partition
        for name, begin in polled.begins.items():
            if name in self._still_owned and name in places:
                self.consumer.carry_out(self.reader.seek(name, begin, self.consumer.now()))
        self._finish(Fate.ABORTED)

    def _finish(self, fate: Fate) -> None:
        assert self._written is not None
        self._written.fate, self._written, self._commits = fate, None, {}
        self.world.count(f"copies: {fate.value}")
        self.producer.later(self.pause, self._poll)

    # Results and events of the machines.

    def _call(self, started: tuple[int, list[Effect]], then: Callable[[Done], None]) -> None:
        ticket, effects = started
        self._then = (ticket, then)
        self.producer.carry_out(effects)

    def _producer_turned(self) -> None:
        self.machine.take_deliveries()
        for done in self.machine.take_results():
            if self._then is not None and done.ticket == self._then[0]:
                then, self._then = self._then[1], None
                self.producer.note("transaction", f"{done.error.name} {self.machine!r}")
                self.producer.after(0, partial(then, done))

    def _consumer_turned(self) -> None:
        for event in self.reader.take_events():
            match event:
                case Assigned(added, generation):
                    self._still_owned -= added
                    self._joined(generation)
                case Revoked(partitions) | Lost(partitions):
                    self._still_owned -= partitions
                case Truncated(name):
                    self._still_owned.discard(name)
                case Failed(error, message, partitions):
                    self.world.count(f"copier: {error.name}")
                    right = partitions or self.commits.is_void or self._may_be_gone(error)
                    assert right, f"I29: {self!r} lost its membership: {message} ({error.name})"
                    if not partitions:
                        self.consumer.after(0, self.die)

    def _may_be_gone(self, error: ErrorCode) -> bool:
        assert self.reader.group is not None
        member_id = self.reader.group.membership.member_id
        return self.cluster.suite.groups.may_be_gone(self.group, member_id, error)

    def _joined(self, generation: int) -> None:
        groups = self.cluster.suite.groups
        if groups.was_recreated(self.group, is_mixed=False):
            self.commits.reset_generations(self.group)
            groups.reset_generations(self.group)
        self.commits.generation_reached(self.group, generation)
        if not self.commits.is_void:
            name, owned = self.consumer.name, self.reader.assignment
            self.commits.owns(self.group, generation, name, owned)
            groups.joined(self.group, generation, name, owned)


def polled_records(records: Sequence[ConsumerRecord], place: GroupPlace) -> PolledRecords:
    begins: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    for record in records:
        name = TopicPartition(record.topic, record.partition)
        begins.setdefault(name, record.offset)
        ends[name] = record.offset + 1
    return PolledRecords(records, place, begins, ends)


def copied(values: Sequence[bytes]) -> list[tuple[str, int]]:
    """What the copies are of: partition and offset."""
    sources = (value.split(b" ")[0].decode().rpartition("@") for value in values)
    return [(name, int(offset)) for name, _, offset in sources]
