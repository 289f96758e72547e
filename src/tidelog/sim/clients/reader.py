"""Consuming applications without a group.

I22 (S): a `Reader` gets records below the high watermark, one offset after the other, and the same as everybody; the
log that it has read is not truncated below it.

I24 (S): for an `OffsetLister`, ListOffsets never goes back: neither the first offset nor the end that consumers may
read to.
"""

from collections.abc import Sequence
from functools import partial

from tidelog.client.consumer import Consumer
from tidelog.client.options import ConsumerOptions
from tidelog.client.positions import EARLIEST, LATEST
from tidelog.client.results import ConsumerRecord, Done, Failed, Truncated
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.clients.process import Process
from tidelog.sim.clients.seen_records import SeenRecords
from tidelog.sim.faults import MILLI
from tidelog.sim.world import World

POLL = (20 * MILLI, 300 * MILLI)
ANYWHERE = -1
PAUSE = (100 * MILLI, 1_500 * MILLI)


class Reader:
    """Reads partitions from their first record on, with read_uncommitted.

    `positions` are the offsets of the next records, by partition.
    """

    def __init__(
        self,
        world: World,
        seen_records: SeenRecords,
        name: str,
        partitions: Sequence[TopicPartition],
        *,
        options: ConsumerOptions | None = None,
    ) -> None:
        self.options = options or ConsumerOptions(client_id=name, auto_offset_reset="none", request_timeout_ms=5_000)
        self.process = Process(
            world, name, lambda bootstrap, entropy: Consumer(bootstrap, self.options, entropy), self._turned
        )
        self.seen_records = seen_records
        self.positions = dict.fromkeys(partitions, 0)

    def __repr__(self) -> str:
        return f"<reader {self.process.name} at { ({str(name): at for name, at in self.positions.items()}) }>"

    def start(self) -> None:
        machine, now = self.process.machine, self.process.now()
        self.process.carry_out(machine.assign(list(self.positions), now))
        for name in self.positions:
            self.process.carry_out(machine.seek(name, 0, now))
        self.poll()

    def poll(self) -> None:
        records, effects = self.process.machine.poll(self.process.now())
        for record in records:
            self._consume(record)
        self.process.carry_out(effects)
        self.process.later(POLL, self.poll)

    def _consume(self, record: ConsumerRecord) -> None:
        name = TopicPartition(record.topic, record.partition)
        expected, place = self.positions[name], self.process.machine.positions.by_partition[name]
        skips = name.topic in self.seen_records.free and record.offset > expected
        in_order = expected in (ANYWHERE, record.offset) or skips
        assert in_order, f"I22: {self!r} received {record.offset} of {name} after {expected - 1}"
        assert record.offset < place.high_watermark, f"I22: {self!r} received {record} above {place.high_watermark}"
        self.positions[name] = record.offset + 1
        self.seen_records.read(name, record)

    def has_read(self, name: TopicPartition, end: int) -> bool:
        position = self.process.machine.position(name)
        return position is not None and position >= end

    def _turned(self) -> None:
        for event in self.process.machine.take_events():
            self.process.note("event", event)
            if isinstance(event, Truncated):
                self.seen_records.cut(event.partition, event.position)
                self.positions[event.partition] = event.offset
            elif isinstance(event, Failed):
                self._failed(event)

    def _failed(self, event: Failed) -> None:
        """Start over at the first offset where records may be gone."""
        self.process.world.count(f"fetch: {event.error.name}")
        for name in event.partitions:
            if event.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self.seen_records.cut(name, self.positions[name])
                self.positions[name] = ANYWHERE
                self.process.after(0, partial(self._seek_to_start, name))

    def _seek_to_start(self, name: TopicPartition) -> None:
        self.process.carry_out(self.process.machine.seek_to([name], EARLIEST, self.process.now()))


class OffsetLister:
    """Sends one ListOffsets request at a time, each for one partition."""

    def __init__(self, world: World, ghosts: Ghosts, name: str, partitions: list[TopicPartition]) -> None:
        options = ConsumerOptions(client_id=name, request_timeout_ms=3_000, default_api_timeout_ms=6_000)
        self.process = Process(
            world, name, lambda bootstrap, entropy: Consumer(bootstrap, options, entropy), self._turned
        )
        self.ghosts = ghosts
        self.partitions = partitions
        self.answers = 0
        self.stopped = False
        self._last: dict[tuple[TopicPartition, int], int] = {}
        self._under_way: dict[int, partial[None]] = {}

    def __repr__(self) -> str:
        return f"<asker {self.process.name}, {self.answers} answers>"

    def start(self) -> None:
        if self.stopped:
            return
        name = self.process.random.choice(self.partitions)
        timestamp = self.process.random.choice((EARLIEST, LATEST, LATEST, LATEST))
        ticket, effects = self.process.machine.look_up({name: timestamp}, self.process.now())
        self._under_way[ticket] = partial(self._answered, name, timestamp)
        self.process.carry_out(effects)

    def _answered(self, name: TopicPartition, timestamp: int, done: Done) -> None:
        self.process.world.count(f"list offsets: {done.error.name}")
        self.process.later(PAUSE, self.start)
        if done.error:
            return
        self.answers += 1
        found = done.value[name].offset
        last = self._last.get((name, timestamp), 0)
        which = "first" if timestamp == EARLIEST else "end"
        right = found >= last or self.ghosts.of(name).loss_allowed
        right = right or (timestamp == EARLIEST and self.ghosts.aged)  # each replica expires records by its own clock
        assert right, f"I24: the {which} of {name} is {found}, after {last} was returned before"
        self._last[name, timestamp] = found

    def _turned(self) -> None:
        for done in self.process.machine.take_results():
            self._under_way.pop(done.ticket)(done)
