"""An operator at work while things break: topics are deleted and created again under the same name, leaders elected.

What is written to such a topic is nobody's promise; that it goes, comes back empty and settles is what is looked at.
"""

from collections.abc import Mapping
from typing import Any

from tidelog.client.options import ProducerOptions
from tidelog.effects import CONTROLLER
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.sim.clients.admin import Admin
from tidelog.sim.clients.producer import Producer
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import MILLI, SECOND
from tidelog.wire.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.wire.messages.topics.elect_leaders import ElectLeadersRequest

TOPIC = "fleeting"
NO_CONFIGS: Mapping[str, str] = {}


class Operator:
    """`over`: the last wish was carried out and no other comes."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.admin = Admin(cluster.world, "operator")
        self.process = self.admin.process
        self.random = self.process.random
        self.producer: Producer | None = None
        self.stopping = False
        self.over = True
        self.deleted = 0
        cluster.told.free.add(TOPIC)

    def __repr__(self) -> str:
        return f"<operator, {self.deleted} deletions>"

    def start(self) -> None:
        self.over = False
        self.admin.created.discard(TOPIC)
        replicas = self.random.randint(1, len(self.world.hosts))
        self.admin.create(TOPIC, self.random.randint(1, 2), replicas, NO_CONFIGS)
        self._await_topic()

    def _await_topic(self) -> None:
        if TOPIC not in self.admin.created:
            self.process.after(100 * MILLI, self._await_topic)
            return
        if self.stopping:
            self.over = True
            return
        if self.producer is None:
            options = ProducerOptions(client_id="fleeting", linger_ms=5, delivery_timeout_ms=8_000)
            self.producer = self.cluster.produce(TopicPartition(TOPIC, 0), options=options)
        self._elect()
        self.process.later((100 * MILLI, 4 * SECOND), self._delete)

    def _elect(self) -> None:
        request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=2_000)
        self.admin.ask(request, CONTROLLER, self._elected)

    def _elected(self, response: Any) -> None:
        self.world.count(
            "elect leaders: " + ("unanswered" if response is None else ErrorCode(response.error_code).name)
        )

    def _delete(self) -> None:
        if self.stopping:
            self.over = True
            return
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=3_000)
        self.admin.ask(request, CONTROLLER, self._deleted)

    def _deleted(self, response: Any) -> None:
        code = response.responses[0].error_code if response is not None else ErrorCode.NETWORK_EXCEPTION
        self.world.count(f"delete: {ErrorCode(code).name}")
        if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            self.deleted += 1
            self.start()
        else:
            self.process.later((50 * MILLI, SECOND), self._delete)

    def stop(self) -> None:
        self.stopping = True
        if self.producer is not None:
            self.producer.stopped = True
