"""I29 (S): an acknowledged commit is what OffsetFetch returns after a failover of the group's coordinator.

One client commits ever higher offsets for a group without members, and reads them back. What it reads must be the last
that was acknowledged, or one whose answer it never got: such a commit may come through late. An answer counts only
from a broker that led the group's partition, in one epoch, from the question to the answer; others may be of the past.
"""

from functools import partial
from typing import Any

from tidelog.errors import ErrorCode
from tidelog.model import GROUP_TOPIC, TopicPartition
from tidelog.sim.checks.suite import Suite
from tidelog.sim.client import Client
from tidelog.sim.faults import MILLI
from tidelog.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

COMMIT, COMMIT_VERSION = 8, 7
FETCH, FETCH_VERSION = 9, 7
FIND, FIND_VERSION = 10, 3
GROUPS = TopicPartition(GROUP_TOPIC, 0)
GROUP = "readers"
NOTHING = -1


class Committer:
    def __init__(self, client: Client, suite: Suite, topic: str) -> None:
        self.client = client
        self.world = client.world
        self.suite = suite
        self.topic = topic
        self.coordinator = -1
        self.offset = 0
        self.acked = NOTHING
        self.unknown: set[int] = set()
        self.commits = 0
        self.reads = 0
        self.stopped = False

    def __repr__(self) -> str:
        return f"<committer at {self.offset}, {self.commits} commits and {self.reads} reads>"

    def start(self) -> None:
        broker = self.client.random.randrange(len(self.world.hosts))
        request = FindCoordinatorRequest(key=GROUP, key_type=0)
        self.client.ask(broker, FIND, FIND_VERSION, request, self._found)

    def _found(self, response: Any) -> None:
        if response is None or response.error_code or response.node_id < 0:
            self._later(self.start, 300 * MILLI)
            return
        self.coordinator = response.node_id
        self._go_on()

    def _later(self, action: Any, delay: int) -> None:
        self.world.after(self.client.random.randint(delay // 4, delay), action)

    def _go_on(self) -> None:
        if self.stopped or self.client.random.random() < 0.3:
            self._read()
        else:
            self._commit()

    def _commit(self) -> None:
        self.offset += 1
        self.unknown.add(self.offset)
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=self.offset, committed_metadata="")
        topic = OffsetCommitRequestTopic(name=self.topic, partitions=[partition])
        request = OffsetCommitRequest(group_id=GROUP, topics=[topic])
        self.client.ask(self.coordinator, COMMIT, COMMIT_VERSION, request, partial(self._committed, self.offset))

    def _committed(self, offset: int, response: Any) -> None:
        code: int = ErrorCode.NETWORK_EXCEPTION if response is None else response.topics[0].partitions[0].error_code
        self.world.count(f"commit: {ErrorCode(code).name}")
        if code:
            self._later(self.start, 200 * MILLI)
            return
        self.acked = offset
        self.unknown.discard(offset)
        self.commits += 1
        self._later(self._go_on, 100 * MILLI)

    def _epoch(self) -> int:
        """The leader epoch in which the coordinator leads the group's partition, -1 where it does not."""
        state = self.suite.ghosts.states.get(GROUPS)
        return state.leader_epoch if state is not None and state.leader == self.coordinator else -1

    def _read(self) -> None:
        wanted = OffsetFetchRequestTopic(name=self.topic, partition_indexes=[0])
        request = OffsetFetchRequest(group_id=GROUP, topics=[wanted])
        answered = partial(self._was_read, self._epoch())
        self.client.ask(self.coordinator, FETCH, FETCH_VERSION, request, answered)

    def _was_read(self, epoch: int, response: Any) -> None:
        if response is None or response.error_code:
            self._later(self.start, 200 * MILLI)
            return
        found = response.topics[0].partitions[0].committed_offset
        counts = epoch >= 0 and epoch == self._epoch() and not self.suite.ghosts.of(GROUPS).loss_allowed
        if counts:
            self.reads += 1
            right = found == self.acked or found in self.unknown
            assert right, f"I29: {GROUP} committed {self.acked}, but reads {found}"
        if not (self.stopped and counts):
            self._later(self._go_on, 100 * MILLI)
