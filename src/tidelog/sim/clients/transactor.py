"""A transactional application, and an auditor that reads what is committed.

The application sends values in transactions that it commits or aborts, and records the outcomes. I23, I28 (Q): of a
committed transaction every value is read, once; of an aborted one none; of one with an unknown outcome, all or none.
I22 (S): the auditor reads nothing at or above the last stable offset.

I50 (S): the only owner of a transactional ID is neither fenced nor refused with another error after which it cannot
continue, except by the timeout of its transaction. An InitProducerId request for the ID with an unknown outcome may be
processed late and fence whoever has the ID by then: from then on nothing is checked.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from tidelog.client.consumer import Consumer
from tidelog.client.options import ConsumerOptions, ProducerOptions
from tidelog.client.positions import EARLIEST
from tidelog.client.results import Failed
from tidelog.client.transactional import FATAL_ERRORS, VERSION_2, TransactionalProducer
from tidelog.effects import Effect
from tidelog.errors import RETRIABLE, ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.clients.other_producers import CURRENT, Habits, Skipper, producer
from tidelog.sim.clients.process import Process
from tidelog.sim.faults import MILLI
from tidelog.sim.world import World

PAUSE = (5 * MILLI, 300 * MILLI)
AGAIN = (200 * MILLI, 2_000 * MILLI)
COMMITS = 0.7
EMPTY = 0.3
"""The share of transactions that are aborted before anything is sent, by applications that end such transactions."""

KEYS = 10
POLL = (50 * MILLI, 500 * MILLI)


class Owner:
    """The only application that ever requests the transactional ID, through all of its lives."""

    def __init__(self, ghosts: Ghosts, transactional_id: str) -> None:
        self.ghosts = ghosts
        self.transactional_id = transactional_id
        self.is_uncertain = False
        self._breaks: int | None = None
        self._overdue = 0
        self.contradicts = False
        """Whether it aborts what it may have committed: INVALID_TXN_STATE is the right answer then."""

    def __repr__(self) -> str:
        return f"<owner of {self.transactional_id}{', in doubt' if self.is_uncertain else ''}>"

    def id_requested(self, breaks: int) -> None:
        """The ID was requested, when so many connections had broken."""
        self._breaks, self._overdue = breaks, self.ghosts.overdue[self.transactional_id]

    def id_acquired(self, breaks: int) -> None:
        """The ID was granted; uncertain if it may have been requested more than once."""
        self.is_uncertain |= breaks != self._breaks
        self._breaks = None

    def life_ended(self, error: ErrorCode) -> None:
        """A life is over, with this error or none."""
        self.is_uncertain |= self._breaks is not None
        ghosts = self.ghosts
        excused = self.is_uncertain or ghosts.aged or self._overdue != ghosts.overdue[self.transactional_id]
        excused |= self.contradicts and error == ErrorCode.INVALID_TXN_STATE
        self.contradicts = False
        if error in FATAL_ERRORS and not excused:
            assert ghosts.with_losses(), (
                f"I50: {self.transactional_id} has only one owner, which was refused with {error.name}"
            )


class Fate(Enum):
    UNKNOWN = "unknown"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True, eq=False)
class WrittenTransaction:
    """One transaction: its values, and its outcome as its application knows it."""

    values: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    fate: Fate = Fate.UNKNOWN


class Ledger:
    """All transactions of a run.

    In `compacted` partitions a newer value may have replaced one. `reused` are the (producer ID, epoch) that stand for
    more than one transaction.
    """

    def __init__(self, compacted: Collection[TopicPartition] = (), reused: set[tuple[int, int]] | None = None) -> None:
        self.compacted = compacted
        self.reused = set() if reused is None else reused
        self.transactions: list[WrittenTransaction] = []

    def __repr__(self) -> str:
        return f"<Ledger {Counter(written.fate.value for written in self.transactions)}>"

    def open(self, machine: TransactionalProducer, *, reuses: bool) -> WrittenTransaction:
        """Record that the machine began a transaction; `reuses`: in an epoch that may have had others."""
        written = WrittenTransaction()
        self.transactions.append(written)
        if reuses:
            self.reused.add(machine.identity)
        return written

    def check(self, found: dict[TopicPartition, list[bytes]]) -> None:
        """Check `found`, all committed values by partition, in order."""
        counts = Counter((name, value) for name, values in found.items() for value in values)
        known: set[tuple[TopicPartition, bytes]] = {value for written in self.transactions for value in written.values}
        counts = Counter({key: count for key, count in counts.items() if key[0] not in self.compacted or key in known})
        assert counts.keys() <= known, f"I22: read, but never sent: {sorted(counts.keys() - known)[:3]}"
        for written in self.transactions:
            seen = [counts[value] for value in written.values]
            if written.fate is not Fate.ABORTED:
                seen = [counts[value] for value in written.values if value[0] not in self.compacted]
            assert max(seen, default=0) <= 1, f"I26: read more than once: {written}"
            if written.fate is Fate.COMMITTED:
                assert all(seen), f"I23: committed, but not all is read ({seen}): {written}"
            elif written.fate is Fate.ABORTED:
                assert not any(seen), f"I23: aborted, but read ({seen}): {written}"
            else:
                assert all(seen) or not any(seen), f"I28: neither committed nor aborted ({seen}): {written}"


def transactional(name: str, transactional_id: str) -> ProducerOptions:
    return ProducerOptions(
        client_id=name,
        transactional_id=transactional_id,
        linger_ms=0,
        request_timeout_ms=3_000,
        delivery_timeout_ms=8_000,
        max_block_ms=15_000,
        transaction_timeout_ms=10_000,
    )


class Transactor:
    """Writes as `transactional_id`; fenced, or when it cannot continue, it restarts. `owner` if nobody else ever has
    the ID.
    """

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        name: str,
        transactional_id: str,
        partitions: Sequence[TopicPartition],
        pause: tuple[int, int] = PAUSE,
        habits: Habits = CURRENT,
        owner: Owner | None = None,
    ) -> None:
        self.world = world
        self.ledger = ledger
        self.name = name
        self.transactional_id = transactional_id
        self.partitions = list(partitions)
        self.pause = pause
        self.habits = habits
        self.owner = owner
        self.stopped = False
        self.lives = 0
        self._values = 0
        self._begin_life()

    def __repr__(self) -> str:
        return f"<transactor {self.name}, life {self.lives}, {self.machine!r}>"

    @property
    def idle(self) -> bool:
        return self.stopped and self._ticket is None and self._written is None

    @property
    def machine(self) -> TransactionalProducer:
        return self.process.machine

    def start(self) -> None:
        if not self.stopped:
            if self.owner is not None:
                self.owner.id_requested(self.process.breaks)
            self._call(self.machine.init_transactions(self.process.now()))

    def _begin_life(self) -> None:
        self.lives += 1
        own_id = f"{self.name}-{self.lives}" if self.habits.skips else self.transactional_id
        options = transactional(self.name, own_id)
        self._ticket: int | None = None
        self._written: WrittenTransaction | None = None
        self._ends_as = Fate.UNKNOWN
        self.process: Process[TransactionalProducer] = Process(
            self.world,
            f"{self.name}-{self.lives}",
            lambda bootstrap, entropy: producer(bootstrap, options, entropy, self.habits),
            self._turned,
        )
        self._breaks = 0
        self._has_begun = False

    def _call(self, started: tuple[int, list[Effect]]) -> None:
        self._ticket, effects = started
        self.process.carry_out(effects)

    def _turned(self) -> None:
        self.machine.take_deliveries()
        for done in self.machine.take_results():
            if done.ticket == self._ticket:
                self._ticket = None
                self.process.note("transaction", f"{done.error.name} {self.machine!r}")
                self.world.count(f"transaction: {done.error.name}")
                self.process.later(self.pause, partial(self._call_finished, failed=bool(done.error)))

    def _call_finished(self, *, failed: bool) -> None:
        """Continue after the last call returned."""
        if self.machine.fatal or (failed and not self.machine.is_open):
            self._restart()
        elif failed:
            if self.owner is not None:
                self.owner.contradicts |= self._ends_as is Fate.COMMITTED
            self._end(commit=False)
        elif self._written is not None:
            assert not self._skipped or self._ends_as is Fate.ABORTED, (
                f"I26: {self} began with a gap, but was committed"
            )
            self._written.fate, self._written = self._ends_as, None
            self._begin_transaction()
        else:
            if self.owner is not None:
                self.owner.id_acquired(self.process.breaks)
            self._breaks = self.process.breaks
            self._begin_transaction()

    def _begin_transaction(self) -> None:
        if self.stopped:
            return
        if self.habits.skips and self._has_begun:
            self._restart()
            return
        self._has_begun = True
        if self.habits.versions is not None and self.process.breaks != self._breaks:
            self._restart()
            return
        try:
            self.machine.begin()
        except ApiError:
            self._restart()
            return
        self._skipped = False
        self._written = self.ledger.open(self.machine, reuses=self.habits.versions is not None)
        if self.habits.ends_empty and self.process.random.random() < EMPTY:
            self._end(commit=False)
        else:
            self._write(self.process.random.randint(1, 4))

    def _write(self, left: int) -> None:
        """Send records one after the other, with pauses in which other things may happen."""
        if self._written is None:
            return
        if left == 0:
            self._end(commit=self.process.random.random() < COMMITS)
            return
        name = self.process.random.choice(self.partitions)
        self._values += 1
        value = f"{self.name}-{self.lives}-{self._values}".encode()
        try:
            if isinstance(self.machine, Skipper) and self.machine.version >= VERSION_2:
                self._skipped |= self.machine.skip(name)
            key = self._key(name)
            _, effects = self.machine.send(name.topic, value, self.process.now(), key=key, partition=name.partition)
        except ApiError:
            self._restart()
            return
        self._written.values.append((name, value))
        self.process.carry_out(effects)
        self.process.later(self.pause, lambda: self._write(left - 1))

    def _key(self, name: TopicPartition) -> bytes | None:
        return b"key-%d" % self.process.random.randrange(KEYS) if name in self.ledger.compacted else None

    def _end(self, *, commit: bool) -> None:
        self._ends_as = Fate.COMMITTED if commit else Fate.ABORTED
        try:
            started = self.machine.commit(self.process.now()) if commit else self.machine.abort(self.process.now())
        except ApiError:
            self._restart()
            return
        self._call(started)

    def _restart(self) -> None:
        """End the process where it is; another one replaces it after a while."""
        if self.owner is not None:
            self.owner.life_ended(self.machine.fatal or ErrorCode.NONE)
        self.process.kill()
        self._begin_life()
        if self.stopped:
            return
        self.process.later(AGAIN, self.start)


class Auditor:
    """Reads what is committed, from the first record on."""

    def __init__(
        self, world: World, partitions: Sequence[TopicPartition], ledger: Ledger, name: str = "auditor"
    ) -> None:
        options = ConsumerOptions(
            client_id=name,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            request_timeout_ms=5_000,
        )
        self.partitions = list(partitions)
        self.ledger = ledger
        self.found: dict[TopicPartition, list[bytes]] = {name: [] for name in partitions}
        self.process = Process(
            world, name, lambda bootstrap, entropy: Consumer(bootstrap, options, entropy), self._turned
        )

    def __repr__(self) -> str:
        return f"<auditor { ({str(name): len(values) for name, values in self.found.items()}) }>"

    def start(self) -> None:
        now = self.process.now()
        self.process.carry_out(self.process.machine.assign(self.partitions, now))
        self.process.carry_out(self.process.machine.seek_to(self.partitions, EARLIEST, now))
        self.poll()

    def poll(self) -> None:
        records, effects = self.process.machine.poll(self.process.now())
        for record in records:
            name = TopicPartition(record.topic, record.partition)
            place = self.process.machine.positions.by_partition[name]
            assert record.offset < place.last_stable_offset, f"I22: {record} above {place.last_stable_offset}"
            self.found[name].append(record.value or b"")
        self.process.carry_out(effects)
        self.process.later(POLL, self.poll)

    def has_read(self, name: TopicPartition, end: int) -> bool:
        position = self.process.machine.position(name)
        return position is not None and position >= end

    def _turned(self) -> None:
        for event in self.process.machine.take_events():
            if isinstance(event, Failed):
                self._failed(event)

    def _failed(self, event: Failed) -> None:
        """Look up the first offsets again.

        A partition that never had a leader, because its first one lacks the log directory, has no first offset: the
        look-up times out and is repeated. Its last error was that the leader was unreachable or unknown.
        """
        fresh = all(not self.found[name] for name in event.partitions)
        assert event.error in {*RETRIABLE, ErrorCode.BROKER_NOT_AVAILABLE} and fresh, event  # noqa: PT018
        self.process.after(0, partial(self._begin, event.partitions))

    def _begin(self, names: Sequence[TopicPartition]) -> None:
        self.process.carry_out(self.process.machine.seek_to(list(names), EARLIEST, self.process.now()))
