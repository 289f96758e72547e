"""An operator at work while faults occur: a topic is deleted and created again under the same name, grows, has records
deleted and its configuration changed, and gets preferred or unclean leaders.

Most of it is done to the operator's own topic, for which nothing is promised; the check is that it is deleted, comes
back empty and converges. The clients' topic is only reconfigured.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from tidelog.client.admin import ANY, Leader
from tidelog.client.options import ProducerOptions
from tidelog.config import alter
from tidelog.effects import CONTROLLER
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.sim.clients.admin import Admin
from tidelog.sim.clients.producer import Producer
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import MILLI, SECOND
from tidelog.wire.messages.configs import alter_configs as legacy
from tidelog.wire.messages.records.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.topics.reassignments import ElectLeadersRequest, TopicPartitions
from tidelog.wire.messages.topics.topic_changes import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    DeleteTopicsRequest,
    DeleteTopicState,
)

TOPIC = "fleeting"
MOST_PARTITIONS = 4
PAUSE = (100 * MILLI, 3 * SECOND)
PREFERRED, UNCLEAN = 0, 1
UP_TO_THE_HIGH_WATERMARK = -1

HARMLESS: dict[str, tuple[str, ...]] = {
    "segment.ms": ("1000", "604800000"),
    "flush.messages": ("1", "10", str(2**63 - 1)),
    "index.interval.bytes": ("100", "4096"),
}
"""Options that change no promise, with their values."""

OWN: dict[str, tuple[str, ...]] = {
    **HARMLESS,
    "min.insync.replicas": ("1", "2", "3"),
    "retention.ms": ("1000", "604800000"),
    "retention.bytes": ("5000", "-1"),
    "unclean.leader.election.enable": ("true", "false"),
}
"""Options of the operator's own topic."""


class Operator:
    """`acts` are its actions, drawn per seed. `over`: the last request was answered, and the topic exists."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.topic = topic
        self.admin = Admin(cluster.world, "operator")
        self.process = self.admin.process
        self.random = self.process.random
        everything: list[Callable[[], None]] = [
            self._recreate,
            self._grow,
            self._configure,
            self._configure_twice,
            self._delete_records,
            self._elect_preferred,
            self._elect_unclean,
        ]
        self.acts = self.random.sample(everything, self.random.randint(2, len(everything)))
        self.producer: Producer | None = None
        self.partitions = 0
        self.stopping = False
        self.over = True
        cluster.seen_records.free.add(TOPIC)

    def __repr__(self) -> str:
        return f"<operator, {self.partitions} partitions of {TOPIC}>"

    def start(self) -> None:
        """Create the topic, then continue with some action."""
        self.over = False
        self.admin.created.discard(TOPIC)
        self.partitions = self.random.randint(1, 2)
        replicas = self.random.randint(1, len(self.world.hosts))
        configs = {name: self.random.choice(OWN[name]) for name in self.random.sample(list(OWN), 2)}
        self.admin.create(TOPIC, self.partitions, replicas, configs)
        self._await_topic()

    def stop(self) -> None:
        self.stopping = True
        if self.producer is not None:
            self.producer.stopped = True

    def _await_topic(self) -> None:
        if TOPIC not in self.admin.created:
            self.process.after(100 * MILLI, self._await_topic)
            return
        self._produce()
        self._later()

    def _produce(self) -> None:
        """Produce records for which nothing is promised."""
        names = [TopicPartition(TOPIC, number) for number in range(self.partitions)]
        if self.producer is None:
            options = ProducerOptions(client_id=TOPIC, delivery_timeout_ms=8_000, max_block_ms=5_000)
            self.producer = self.cluster.produce(*names, options=options)
        self.producer.partitions = names

    def _later(self) -> None:
        self.over = self.stopping
        if not self.over:
            self.process.later(PAUSE, self._act)

    def _act(self) -> None:
        if self.stopping:
            self.over = True
            return
        self.random.choice(self.acts)()

    def _done(self, what: str, code: int | None) -> ErrorCode:
        found = ErrorCode.NETWORK_EXCEPTION if code is None else ErrorCode(code)
        self.world.count(f"{what}: {found.name}")
        return found

    # Topics.

    def _recreate(self) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=3_000)

        def answered(response: Any) -> None:
            code = self._done("delete", response.responses[0].error_code if response is not None else None)
            if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                self.start()
            else:
                self.process.later((50 * MILLI, SECOND), self._recreate)

        self.admin.ask(request, CONTROLLER, answered)

    def _grow(self) -> None:
        wanted = min(self.partitions + 1, MOST_PARTITIONS)
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=TOPIC, count=wanted, assignments=None)], timeout_ms=3_000
        )

        def answered(response: Any) -> None:
            if self._done("grow", response.results[0].error_code if response is not None else None) is ErrorCode.NONE:
                self.partitions = wanted
                self._produce()
            self._later()

        self.admin.ask(request, CONTROLLER, answered)

    # Configuration.

    def _configure(self) -> None:
        self._change(*self._drawn(), then=self._later)

    def _configure_twice(self) -> None:
        """Send two requests at once, one of which replaces all options that were set."""
        topic, name, value = self._drawn()
        config = legacy.AlterableConfig(name=name, value=value)
        resource = legacy.AlterConfigsResource(resource_type=alter.TOPIC, resource_name=topic, configs=[config])
        replaced = partial(self._configured, "replace configs", lambda: None)
        self.admin.ask(legacy.AlterConfigsRequest(resources=[resource]), ANY, replaced)
        self._configure()

    def _drawn(self) -> tuple[str, str, str]:
        """Return a topic, one of its options, and the new value."""
        topic = self.random.choice((TOPIC, self.topic))
        options = OWN if topic == TOPIC else HARMLESS
        name = self.random.choice(list(options))
        return topic, name, self.random.choice(options[name])

    def _change(self, topic: str, name: str, value: str, *, then: Callable[[], None]) -> None:
        target = self.random.choice((ANY, CONTROLLER))
        self.admin.configure(topic, name, value, partial(self._configured, "change config", then), target)

    def _configured(self, what: str, then: Callable[[], None], response: Any) -> None:
        self._done(what, response.responses[0].error_code if response is not None else None)
        then()

    # Records and leaders.

    def _delete_records(self) -> None:
        number = self.random.randrange(self.partitions)
        offset = self.random.choice((UP_TO_THE_HIGH_WATERMARK, 1, 5, 20))
        wanted = DeleteRecordsPartition(partition_index=number, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=TOPIC, partitions=[wanted])], timeout_ms=2_000)

        def answered(response: Any) -> None:
            found = response.topics[0].partitions[0] if response is not None else None
            self._done("delete records", found.error_code if found is not None else None)
            self._later()

        self.admin.ask(request, Leader(TOPIC, number), answered)

    def _elect_preferred(self) -> None:
        self._elect(PREFERRED, None)

    def _elect_unclean(self) -> None:
        """Request unclean elections: loss is allowed where no replica in sync can lead."""
        everywhere = TopicPartitions(topic=TOPIC, partitions=list(range(self.partitions)))
        self._elect(UNCLEAN, [everywhere])

    def _elect(self, how: int, partitions: list[TopicPartitions] | None) -> None:
        request = ElectLeadersRequest(election_type=how, topic_partitions=partitions, timeout_ms=2_000)

        def answered(response: Any) -> None:
            kind = "elect leaders" if how == PREFERRED else "elect at any price"
            self._done(kind, response.error_code if response is not None else None)
            self._later()

        self.admin.ask(request, CONTROLLER, answered)
