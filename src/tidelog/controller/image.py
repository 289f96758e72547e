"""What every broker knows about the cluster, from the controller's UpdateMetadata pushes.

Metadata answers come from here. A push always names every live broker; its partitions are all (type full) or
those that changed. A partition whose leader is `LEADER_DURING_DELETE` is deleted. A push of thousands of partitions
comes in parts, and nobody sees any of it before the last one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.errors import ApiError, ErrorCode
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


class Changed(NamedTuple):
    """Names of topics: those that a push touched, and those that are other topics than before, by their id."""

    touched: set[str]
    replaced: set[str]


class StagedTopics:
    """The topics of one push: those that it changes (`topics`, and `names` by id) or deletes (`gone`)."""

    def __init__(self, image: "ClusterImage", request: UpdateMetadataRequest) -> None:
        self.controller_epoch = request.controller_epoch
        self.parts = 0
        self.topics: dict[str, TopicImage] = {}
        self.names: dict[bytes, str] = {}
        self.gone: set[str] = set()
        self.touched: set[str] = set()
        self.replaced: set[str] = set()
        """Changed topics that are other topics than those that the image has under their names."""
        self.is_full = request.type == FULL
        self._image = image
        self._is_whole = not request.has_more

    def add(self, states: Iterable[UpdateMetadataTopicState]) -> None:
        """The next part."""
        self.parts += 1
        for state in states:
            name = state.topic_name
            self.touched.add(name)
            topic = self._changeable(name)
            if topic is None or topic.id != state.topic_id:
                if all(partition.leader == LEADER_DURING_DELETE for partition in state.partition_states):
                    continue  # the end of a topic that is not known here, or was replaced already
                topic = self._begin(name, state.topic_id)
            _apply_partitions(topic.partitions, state.partition_states)
            if topic.partitions:
                self.topics[name], self.names[topic.id] = topic, name
            else:
                self._end(topic)

    def _changeable(self, name: str) -> TopicImage | None:
        """The topic as this push leaves it so far. Others still see it as it was, unless all of the push is here."""
        found = self.topics.get(name)
        if found is not None or self.is_full or name in self.gone:
            return found
        known = self._image.topics.get(name)
        if known is None or self._is_whole:
            return known
        return TopicImage(name, known.id, dict(known.partitions))

    def _begin(self, name: str, topic_id: bytes) -> TopicImage:
        """The same name with another id is another topic: nothing of the old one stays."""
        replaced = self.topics.get(name)
        if replaced is not None:
            del self.names[replaced.id]
        known = self._image.topics.get(name)
        if known is not None and known.id != topic_id:
            self.replaced.add(name)
        self.gone.discard(name)
        return TopicImage(name, topic_id)

    def _end(self, topic: TopicImage) -> None:
        self.topics.pop(topic.name, None)
        self.names.pop(topic.id, None)
        self.gone.add(topic.name)
        self.replaced.discard(topic.name)


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
        self._staged: StagedTopics | None = None
        """While parts of a push are outstanding."""

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

    def apply(self, request: UpdateMetadataRequest) -> Changed | None:
        """Take in an UpdateMetadataRequest that passed the epoch checks; None if more parts of it follow. ApiError
        (INVALID_REQUEST) if an earlier part is missing."""
        if request.part == 0:
            self._staged = StagedTopics(self, request)
        staged = self._staged
        if staged is None or (staged.parts, staged.controller_epoch) != (request.part, request.controller_epoch):
            raise ApiError(ErrorCode.INVALID_REQUEST, "an earlier part of this push is missing")
        staged.add(request.topic_states)
        if request.has_more:
            return None
        self._staged = None
        self.controller_id = request.controller_id
        self.controller_epoch = request.controller_epoch
        self.features = {feature.name: feature.level for feature in request.features}
        self.features_epoch = request.features_epoch
        self.brokers = {broker.id: self._broker(broker) for broker in request.live_brokers}
        return self._replace_all(staged) if staged.is_full else self._update(staged)

    def _broker(self, broker: UpdateMetadataBroker) -> BrokerImage:
        old = self.brokers.get(broker.id)
        endpoints = {endpoint.listener: _endpoint(endpoint) for endpoint in broker.endpoints}
        return BrokerImage(broker.id, old.epoch if old else -1, broker.rack, endpoints)

    def _replace_all(self, staged: StagedTopics) -> Changed:
        staged.touched.update(self.topics)
        self.topics, self.topic_names = staged.topics, staged.names
        return Changed(staged.touched, staged.replaced)

    def _update(self, staged: StagedTopics) -> Changed:
        for name in staged.gone | staged.replaced:
            if name in self.topics:
                self._forget(self.topics[name])
        self.topics.update(staged.topics)
        self.topic_names.update(staged.names)
        return Changed(staged.touched, staged.replaced)

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
