"""An operator at work while things break: topics are deleted and created again under the same name, leaders elected.

What is written to such a topic is nobody's promise; that it goes, comes back empty and settles is what is looked at.
"""

from typing import Any

from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.sim.checks.suite import Suite
from tidelog.sim.client import Client
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.workload import Admin, Producer
from tidelog.sim.world import World
from tidelog.wire.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.wire.messages.topics.elect_leaders import ElectLeadersRequest

DELETE_TOPICS, DELETE_TOPICS_VERSION = 20, 6
ELECT_LEADERS, ELECT_LEADERS_VERSION = 43, 2
TOPIC = "fleeting"


class Nobody(Suite):
    """Takes what clients of a fleeting topic saw, and holds nobody to it."""

    def acknowledged(self, name: TopicPartition, base: int, count: int, crc: int) -> None:
        """An acknowledgement may be of the topic that is gone."""

    def refused(self, world: World, name: TopicPartition, code: ErrorCode, *, is_new: bool) -> None:
        """Its sequence began in the topic that is gone."""


class Operator:
    """`over`: the last wish was carried out and no other comes."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.world = client.world
        self.random = client.random
        self.admin = Admin(client)
        self.producer: Producer | None = None
        self.stopping = False
        self.over = True
        self.deleted = 0

    def __repr__(self) -> str:
        return f"<operator, {self.deleted} deletions>"

    def start(self) -> None:
        self.over = False
        self.admin.created.discard(TOPIC)
        self.admin.create(TOPIC, self.random.randint(1, 2), 3, {})
        self._await_topic()

    def _await_topic(self) -> None:
        if TOPIC not in self.admin.created:
            self.world.after(100 * MILLI, self._await_topic)
            return
        if self.stopping:
            self.over = True
            return
        if self.producer is None:
            name = TopicPartition(TOPIC, 0)
            client = Client(self.world, "fleeting")
            self.producer = Producer(client, Nobody(), name, (20 * MILLI, 100 * MILLI))
            client.refresh(TOPIC, self.producer.start)
        self._elect()
        self.world.after(self.random.randint(100 * MILLI, 4 * SECOND), self._delete)

    def _elect(self) -> None:
        request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=2_000)
        self.client.ask(self._broker(), ELECT_LEADERS, ELECT_LEADERS_VERSION, request, self._elected)

    def _elected(self, response: Any) -> None:
        self.world.count(
            "elect leaders: " + ("unanswered" if response is None else ErrorCode(response.error_code).name)
        )

    def _broker(self) -> int:
        return self.random.randrange(len(self.world.hosts))

    def _delete(self) -> None:
        if self.stopping:
            self.over = True
            return
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=3_000)
        self.client.ask(self._broker(), DELETE_TOPICS, DELETE_TOPICS_VERSION, request, self._deleted)

    def _deleted(self, response: Any) -> None:
        code = response.responses[0].error_code if response is not None else ErrorCode.NETWORK_EXCEPTION
        self.world.count(f"delete: {ErrorCode(code).name}")
        if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            self.deleted += 1
            self.start()
        else:
            self.world.after(self.random.randint(50 * MILLI, SECOND), self._delete)

    def stop(self) -> None:
        self.stopping = True
        if self.producer is not None:
            self.producer.stopped = True
