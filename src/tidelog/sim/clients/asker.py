"""I24 (S): ListOffsets never goes back: neither the first offset nor the end that consumers may read to."""

from functools import partial

from tidelog.client.consumer import Consumer
from tidelog.client.options import ConsumerOptions
from tidelog.client.positions import EARLIEST, LATEST
from tidelog.client.results import Done
from tidelog.model import TopicPartition
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.clients.process import Process
from tidelog.sim.faults import MILLI
from tidelog.sim.world import World

PAUSE = (100 * MILLI, 1_500 * MILLI)


class Asker:
    """It asks one question at a time, of one partition after the other."""

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
        right = right or (timestamp == EARLIEST and self.ghosts.aged)  # each replica deletes by its own clock
        assert right, f"I24: the {which} of {name} is {found}, after {last} had been answered"
        self._last[name, timestamp] = found

    def _turned(self) -> None:
        for done in self.process.machine.take_results():
            self._under_way.pop(done.ticket)(done)
