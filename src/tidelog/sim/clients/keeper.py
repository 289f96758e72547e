"""An application that commits offsets in a group without members, and reads back what groups committed (I29).

A read counts only if the answering broker led the group's partition, in one epoch, from the request to the response;
other responses may be stale.
"""

from collections.abc import Sequence
from functools import partial

from tidelog.client.consumer import Consumer
from tidelog.client.network import COORDINATOR_LINKS
from tidelog.client.options import ConsumerOptions
from tidelog.client.results import CommittedOffset, Done
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
    """Return the epoch in which the coordinator known to the consumer leads the groups' partition, or NOTHING."""
    state, group = ghosts.states.get(GROUPS), process.machine.group
    if state is None or group is None or not group.finder.is_known:
        return NOTHING
    return state.leader_epoch if group.finder.node(process.now()) == COORDINATOR_LINKS + state.leader else NOTHING


class Keeper:
    """Commits ever higher offsets, one at a time, and reads them; or only reads what the members of `group` commit."""

    def __init__(
        self,
        world: World,
        commits: Commits,
        name: str,
        partitions: Sequence[TopicPartition],
        *,
        group: str = GROUP,
        writes: bool = True,
    ) -> None:
        options = ConsumerOptions(
            client_id=name,
            group_id=group,
            enable_auto_commit=False,
            request_timeout_ms=3_000,
            default_api_timeout_ms=9_000,
        )
        self.process = Process(
            world, name, lambda bootstrap, entropy: Consumer(bootstrap, options, entropy), self._turned
        )
        self.commits = commits
        self.partitions = list(partitions)
        self.group = group
        self.writes = writes
        self.offset = 0
        self.reads = 0
        self.stopped = False
        self.is_over = False
        """Whether it has read once more after it was stopped."""
        self._under_way: dict[int, partial[None]] = {}

    def __repr__(self) -> str:
        return f"<keeper of {self.group} at {self.offset}, {self.reads} reads>"

    def stop(self) -> None:
        """Only read from now on, until one read succeeds."""
        self.stopped = True

    def start(self) -> None:
        if self.stopped or not self.writes or self.process.random.random() < READS:
            self._read()
        else:
            self._commit()

    def _commit(self) -> None:
        self.offset += 1
        machine, name = self.process.machine, self.process.random.choice(self.partitions)
        commit = self.commits.begin(self.group, name, self.offset, self.process.world.micros)
        ticket, effects = machine.commit(self.process.now(), {name: CommittedOffset(self.offset)})
        self._under_way[ticket] = partial(self._committed, name, commit, self.process.breaks)
        self.process.carry_out(effects)

    def _committed(self, name: TopicPartition, commit: Commit, breaks: int, done: Done) -> None:
        self.process.note("commit", f"{name} {commit.offset} {done.error.name}")
        self.process.world.count(f"commit: {done.error.name}")
        if not done.error:
            sure = breaks == self.process.breaks
            self.commits.acknowledge(self.group, name, commit, self.process.world.micros, for_sure=sure)
        self.process.later(PAUSE, self.start)

    def _read(self) -> None:
        ticket, effects = self.process.machine.committed(self.partitions, self.process.now())
        epoch = epoch_of_coordinator(self.commits.ghosts, self.process)
        self._under_way[ticket] = partial(self._was_read, self.process.world.micros, epoch)
        self.process.carry_out(effects)

    def _was_read(self, since: int, epoch: int, done: Done) -> None:
        counts = not done.error and epoch != NOTHING
        counts = counts and epoch == epoch_of_coordinator(self.commits.ghosts, self.process)
        if counts:
            self.reads += 1
            for name in self.partitions:
                found = done.value[name].offset if name in done.value else NOTHING
                self.commits.read(self.group, name, found, since)
        self.is_over = self.stopped and counts
        if not self.is_over:
            self.process.later(PAUSE, self.start)

    def _turned(self) -> None:
        for done in self.process.machine.take_results():
            self._under_way.pop(done.ticket)(done)
