"""What every broker knows about the cluster, from the controller's UpdateMetadata pushes.

Metadata answers come from here. A push always names every live broker; its partitions are all (type full) or
those that changed. A partition whose leader is `LEADER_DURING_DELETE` is deleted.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidelog.model import NO_ID, NO_LEADER, Endpoint, TopicPartition, id_text
from tidelog.wire.messages.cluster.controller_pushes import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

LEADER_DURING_DELETE = -2
INCREMENTAL = 1
FULL = 2
SECURITY_NAMES = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
SECURITY_NUMBERS = {name: number for number, name in SECURITY_NAMES.items()}


@dataclass(slots=True)
class BrokerImage:
    """A live broker. `epoch` is -1 if unknown: UpdateMetadata does not carry it."""

    id: int
    epoch: int = -1
    rack: str | None = None
    endpoints: dict[str, Endpoint] = field(default_factory=dict)


@dataclass(slots=True)
class PartitionImage:
    leader: int = NO_LEADER
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: list[int] = field(default_factory=list)
    replicas: list[int] = field(default_factory=list)
    offline: list[int] = field(default_factory=list)
    elr: list[int] = field(default_factory=list)
    last_leader: int = NO_LEADER


@dataclass(slots=True)
class TopicImage:
    name: str
    id: bytes = NO_ID
    partitions: dict[int, PartitionImage] = field(default_factory=dict)


class ClusterImage:
    """Brokers and topics as last pushed. `topic_names` finds a topic by its id; `controller_id` is -1 before a push."""

    def __init__(self, cluster_id: str = "") -> None:
        self.cluster_id = cluster_id
        self.controller_id = -1
        self.controller_epoch = 0
        self.features: dict[str, int] = {}
        self.features_epoch = 0
        self.brokers: dict[int, BrokerImage] = {}
        self.topics: dict[str, TopicImage] = {}
        self.topic_names: dict[bytes, str] = {}

    def __repr__(self) -> str:
        return (
            f"ClusterImage(controller={self.controller_id} epoch={self.controller_epoch} "
            f"brokers={sorted(self.brokers)} topics={len(self.topics)})"
        )

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        found = self.topics.get(topic)
        return found.partitions.get(partition) if found else None

    def has_epoch_of(self, office: TopicPartition, epoch: int) -> bool:
        """Whether it has the partition in this leader epoch, and so every topic that existed before. Roles come before
        metadata: a new coordinator may not know the topics yet that its members subscribe to."""
        held = self.partition(*office)
        return held is not None and held.leader_epoch >= epoch

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def apply(self, request: UpdateMetadataRequest) -> set[str]:
        """Take in an UpdateMetadataRequest that passed the epoch checks; the names of the topics it touched."""
        self.controller_id = request.controller_id
        self.controller_epoch = request.controller_epoch
        self.features = {feature.name: feature.level for feature in request.features}
        self.features_epoch = request.features_epoch
        self.brokers = {broker.id: self._broker(broker) for broker in request.live_brokers}
        touched = {state.topic_name for state in request.topic_states}
        if request.type == FULL:
            touched.update(self.topics)
            self.topics.clear()
            self.topic_names.clear()
        for state in request.topic_states:
            self._apply_topic(state)
        return touched

    def _broker(self, broker: UpdateMetadataBroker) -> BrokerImage:
        old = self.brokers.get(broker.id)
        endpoints = {endpoint.listener: _endpoint(endpoint) for endpoint in broker.endpoints}
        return BrokerImage(broker.id, old.epoch if old else -1, broker.rack, endpoints)

    def _apply_topic(self, state: UpdateMetadataTopicState) -> None:
        topic = self.topics.get(state.topic_name)
        if topic is None or topic.id != state.topic_id:
            if all(partition.leader == LEADER_DURING_DELETE for partition in state.partition_states):
                return  # the end of a topic that is not known here, or was replaced already
            topic = self._replace(state.topic_name, state.topic_id)
        _apply_partitions(topic.partitions, state.partition_states)
        if not topic.partitions:
            self._forget(topic)

    def _replace(self, name: str, topic_id: bytes) -> TopicImage:
        """The same name with another id is another topic: forget everything about the old one."""
        old = self.topics.get(name)
        if old is not None:
            self._forget(old)
        topic = self.topics[name] = TopicImage(name, topic_id)
        self.topic_names[topic_id] = name
        return topic

    def _forget(self, topic: TopicImage) -> None:
        del self.topics[topic.name]
        self.topic_names.pop(topic.id, None)

    def check_invariants(self) -> None:
        assert {topic.id: name for name, topic in self.topics.items()} == self.topic_names
        for name, topic in self.topics.items():
            assert topic.partitions, f"{name} ({id_text(topic.id)}) has no partition"
            for index, partition in topic.partitions.items():
                assert set(partition.isr) <= set(partition.replicas), f"{name}-{index}: ISR outside the replicas"


def _endpoint(endpoint: UpdateMetadataEndpoint) -> Endpoint:
    security = SECURITY_NAMES.get(endpoint.security_protocol, "PLAINTEXT")
    return Endpoint(endpoint.listener, security, endpoint.host, endpoint.port)


def _apply_partitions(partitions: dict[int, PartitionImage], states: Iterable[UpdateMetadataPartitionState]) -> None:
    for state in states:
        if state.leader == LEADER_DURING_DELETE:
            partitions.pop(state.partition_index, None)
            continue
        partitions[state.partition_index] = PartitionImage(
            state.leader,
            state.leader_epoch,
            state.zk_version,
            state.isr,
            state.replicas,
            state.offline_replicas,
            state.elr,
            state.last_leader,
        )
