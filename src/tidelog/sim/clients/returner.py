"""An old consumer in a group without members that requests its positions by the topic's name (I29).

I29 (S): a position that was committed for a topic is never read for a later topic of the same name. The topic is
deleted and recreated all the time; each commit names it by its ID, so it is known which one was meant. OffsetFetch
before version 10 cannot do that: it means the topic that has the name.

A broker may learn late of the new topic. So a read counts only if the answering broker knew the current topic before
the request, did not restart, and the topic still exists when the response arrives.
"""

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

from tidelog.client.admin import Coordinator, error_codes
from tidelog.errors import ErrorCode
from tidelog.model import NO_ID
from tidelog.node.node import Node
from tidelog.sim.clients.admin import Admin
from tidelog.sim.clients.commits import GROUPS, NOTHING
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import MILLI
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

GROUP = "returners"
PAUSE = (50 * MILLI, 500 * MILLI)
READS, ALL_TOPICS = 0.3, 0.3
OLDEST, NEWEST_BY_NAME = 1, 9
"""Versions of OffsetFetch."""
ALL_TOPICS_VERSION = 2
MOST_PARTITIONS = 4
"""An earlier topic may have had more partitions than the current one."""


class Returner:
    """Commits ever higher offsets, each for one topic of the name; when the name returns, it reads first."""

    def __init__(self, cluster: Cluster, topic: str, dice: Random) -> None:
        self.cluster = cluster
        self.ghosts = cluster.suite.ghosts
        self.topic = topic
        self.dice = dice
        self.admin = Admin(cluster.world, "returner")
        self.process = self.admin.process
        self.offset = 0
        self.reads = 0
        self.stopped = False
        self.is_over = False
        """Whether it has read once more after it was stopped, or the topic is gone."""
        self._committed: dict[int, bytes] = {}
        """Offset → ID of the topic for which it was committed, whatever the response was."""
        self._last_topic_id = NO_ID
        """The ID of the last topic for which it read positions."""

    def __repr__(self) -> str:
        return f"<returner to {self.topic} at {self.offset}, {self.reads} reads>"

    def stop(self) -> None:
        """Only read from now on, until one read succeeds."""
        self.stopped = True

    def start(self) -> None:
        topic_id, state = self._topic_id(), self.ghosts.states.get(GROUPS)
        reads = self.stopped or topic_id != self._last_topic_id or self.dice.random() < READS
        self.is_over = self.stopped and topic_id == NO_ID
        if self.is_over:
            return
        if topic_id == NO_ID:
            self._later()
        elif state is not None and reads:
            self._read(topic_id, state.leader)
        else:
            self._commit(topic_id)

    def _later(self) -> None:
        self.process.later(PAUSE, self.start)

    def _topic_id(self) -> bytes:
        return self.ghosts.topic_ids.get(self.topic, NO_ID)

    # Commits.

    def _commit(self, topic_id: bytes) -> None:
        """Commit in all partitions. The first commit of all creates the groups' topic."""
        self.offset += 1
        self._committed[self.offset] = topic_id
        numbers = sorted(name.partition for name in self.ghosts.assignments if name.topic == self.topic)
        partitions = [OffsetCommitRequestPartition(partition_index=n, committed_offset=self.offset) for n in numbers]
        topic = OffsetCommitRequestTopic(topic_id=topic_id, partitions=partitions)
        self.admin.ask(OffsetCommitRequest(group_id=GROUP, topics=[topic]), Coordinator(GROUP), self._was_committed)

    def _was_committed(self, response: Any) -> None:
        codes = [ErrorCode.NETWORK_EXCEPTION] if response is None else list(error_codes(response))
        self.process.note("commit", f"{self.offset} {codes[0].name}")
        self.process.world.count(f"commit by id: {codes[0].name}")
        self._later()

    # Reads.

    def _read(self, topic_id: bytes, coordinator: int) -> None:
        if coordinator < 0:
            self._later()
            return
        version, numbers = self.dice.randint(OLDEST, NEWEST_BY_NAME), list(range(MOST_PARTITIONS))
        names_none = version >= ALL_TOPICS_VERSION and self.dice.random() < ALL_TOPICS
        request = OffsetFetchRequest(group_id=GROUP, groups=[OffsetFetchRequestGroup(group_id=GROUP)])
        request.topics = request.groups[0].topics = None
        if not names_none:
            request.topics = [OffsetFetchRequestTopic(name=self.topic, partition_indexes=numbers)]
            request.groups[0].topics = [OffsetFetchRequestTopics(name=self.topic, partition_indexes=numbers)]
        answered = partial(self._was_read, topic_id, coordinator, self._node_that_knows(coordinator, topic_id))
        self.admin.ask(request, coordinator, answered, retries=False, newest=version)

    def _node_that_knows(self, broker: int, topic_id: bytes) -> Node | None:
        """Return the broker's current node, or None if it is down or does not know this topic."""
        node = self.cluster.world.hosts[broker].node
        if not isinstance(node, Node) or topic_id != self._topic_id():
            return None
        known = node.broker.image.topics.get(self.topic)
        return node if known is not None and known.id == topic_id else None

    def _was_read(self, topic_id: bytes, broker: int, life: Node | None, response: Any) -> None:
        counts = response is not None and not any(error_codes(response))
        counts = counts and life is not None and life is self._node_that_knows(broker, topic_id)
        if counts:
            self.reads += 1
            self._last_topic_id = topic_id
            for number, offset in self._positions(response):
                right = offset == NOTHING or self._committed.get(offset) == topic_id
                assert right, f"I29: {self!r} reads {offset} in partition {number}, committed for an earlier topic"
        self.is_over = self.stopped and counts
        if not self.is_over:
            self._later()

    def _positions(self, response: Any) -> Iterator[tuple[int, int]]:
        topics = response.groups[0].topics if response.groups else response.topics
        for topic in topics:
            assert topic.name == self.topic, f"I29: {self!r} reads positions of {topic.name}"
            for partition in topic.partitions:
                yield partition.partition_index, partition.committed_offset
