"""An application that keeps its place in a group without members, and reads it back (I29).

A read counts only where the answer came from a broker that led the group's partition, in one epoch, from the question
to the answer; others may be of the past.
"""

from functools import partial

from tidelog.client.consumer import Consumer
from tidelog.client.network import COORDINATOR_LINKS
from tidelog.client.options import ConsumerOptions
from tidelog.client.results import CommittedOffset, Done
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.clients.commits import GROUPS, NOTHING, Commit, Commits
from tidelog.sim.clients.process import Process
from tidelog.sim.faults import MILLI
from tidelog.sim.world import World

GROUP = "keepers"
PAUSE = (50 * MILLI, 500 * MILLI)
READS = 0.3


def epoch_of_coordinator(ghosts: Ghosts, process: Process[Consumer]) -> int:
    """The leader epoch in which the coordinator that the consumer knows leads the groups' partition, or NOTHING."""
    state, group = ghosts.states.get(GROUPS), process.machine.group
    if state is None or group is None or not group.finder.is_known:
        return NOTHING
    return state.leader_epoch if group.finder.node(process.now()) == COORDINATOR_LINKS + state.leader else NOTHING


class Keeper:
    """It commits ever higher offsets, one at a time."""

    def __init__(self, world: World, commits: Commits, name: str, partition: TopicPartition) -> None:
        options = ConsumerOptions(
            client_id=name,
            group_id=GROUP,
            enable_auto_commit=False,
            request_timeout_ms=3_000,
            default_api_timeout_ms=9_000,
        )
        self.process = Process(
            world, name, lambda bootstrap, entropy: Consumer(bootstrap, options, entropy), self._turned
        )
        self.commits = commits
        self.partition = partition
        self.offset = 0
        self.reads = 0
        self.stopped = False
        self._under_way: dict[int, partial[None]] = {}

    def __repr__(self) -> str:
        return f"<keeper at {self.offset}, {self.reads} reads>"

    def start(self) -> None:
        if self.stopped or self.process.random.random() < READS:
            self._read()
        else:
            self._commit()

    def _commit(self) -> None:
        self.offset += 1
        machine, now = self.process.machine, self.process.now()
        commit = self.commits.begin(GROUP, self.partition, self.offset, self.process.world.micros)
        ticket, effects = machine.commit(now, {self.partition: CommittedOffset(self.offset)})
        self._under_way[ticket] = partial(self._committed, commit, self.process.breaks)
        self.process.carry_out(effects)

    def _committed(self, commit: Commit, breaks: int, done: Done) -> None:
        self.process.note("commit", f"{commit.offset} {done.error.name}")
        self.process.world.count(f"commit: {done.error.name}")
        if not done.error:
            sure = breaks == self.process.breaks
            self.commits.acknowledge(GROUP, self.partition, commit, self.process.world.micros, for_sure=sure)
        self.process.later(PAUSE, self.start)

    def _read(self) -> None:
        ticket, effects = self.process.machine.committed([self.partition], self.process.now())
        epoch = epoch_of_coordinator(self.commits.ghosts, self.process)
        self._under_way[ticket] = partial(self._was_read, self.process.world.micros, epoch)
        self.process.carry_out(effects)

    def _was_read(self, since: int, epoch: int, done: Done) -> None:
        counts = epoch != NOTHING and epoch == epoch_of_coordinator(self.commits.ghosts, self.process)
        if not done.error and counts:
            self.reads += 1
            found = done.value[self.partition].offset if self.partition in done.value else NOTHING
            self.commits.read(GROUP, self.partition, found, since, self.process.world.micros)
        if done.error is not ErrorCode.NONE or not (self.stopped and counts):
            self.process.later(PAUSE, self.start)

    def _turned(self) -> None:
        for done in self.process.machine.take_results():
            self._under_way.pop(done.ticket)(done)
