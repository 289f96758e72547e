"""A client's metadata of the cluster: brokers, controller, topics and the leaders of their partitions."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tidelog.client.results import code_of
from tidelog.errors import ErrorCode
from tidelog.model import NO_EPOCH, NO_ID, NO_LEADER, TopicPartition
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse


class Broker(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition as of the last response; `leader` is NO_LEADER while there is none."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic; `error` is NONE if it can be used."""

    name: str
    id: bytes = NO_ID
    error: ErrorCode = ErrorCode.NONE
    is_internal: bool = False
    partitions: dict[int, PartitionInfo] = field(default_factory=dict)


class Metadata:
    """The newest metadata, and which topics it covers: those of interest, or all of them.

    The leader epoch of a partition never decreases, whatever brokers answer: a broker that has just started has no
    topics, and one that was paused during an election still reports the leader before.
    """

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller: int = -1
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, TopicInfo] = {}
        self.interest: set[str] = set()
        self.wants_all = False
        self.updates = 0
        """The number of updates; state derived from the metadata compares it."""
        self._epochs: dict[str, dict[int, int]] = {}
        self._ids: dict[str, bytes] = {}

    def __repr__(self) -> str:
        return f"<Metadata {len(self.brokers)} brokers, {len(self.topics)} topics>"

    def request(self, *, creates_topics: bool) -> MetadataRequest:
        """The metadata request for the topics of interest."""
        topics = None if self.wants_all else [MetadataRequestTopic(name=name) for name in sorted(self.interest)]
        return MetadataRequest(topics=topics, allow_auto_topic_creation=creates_topics)

    def update(self, response: MetadataResponse) -> None:
        """Apply the response; partitions with an older epoch than the known one keep what is known."""
        self.updates += 1
        self.cluster_id = response.cluster_id
        self.controller = response.controller_id
        self.brokers = {b.node_id: Broker(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        topics = {topic.name: self._topic(topic) for topic in response.topics if topic.name is not None}
        self.topics = topics if self.wants_all else {**self._still_of_interest(), **topics}

    def _still_of_interest(self) -> dict[str, TopicInfo]:
        for name in self._epochs.keys() - self.interest:
            del self._epochs[name]
        return {name: topic for name, topic in self.topics.items() if name in self.interest}

    def _topic(self, answer: Any) -> TopicInfo:
        name = answer.name
        known = self.topics.get(name)
        if answer.topic_id != NO_ID and self._ids.get(name) != answer.topic_id:
            self._ids[name] = answer.topic_id  # a different topic with this name
            self._epochs.pop(name, None)
            known = None
        partitions = {
            partition.partition_index: self._partition(name, known, partition) for partition in answer.partitions
        }
        return TopicInfo(name, answer.topic_id, code_of(answer.error_code), answer.is_internal, partitions)

    def _partition(self, topic: str, known: TopicInfo | None, answer: Any) -> PartitionInfo:
        epochs = self._epochs.setdefault(topic, {})
        last = epochs.get(answer.partition_index, NO_EPOCH)
        found = PartitionInfo(
            answer.leader_id,
            answer.leader_epoch,
            tuple(answer.replica_nodes),
            tuple(answer.isr_nodes),
            tuple(answer.offline_replicas),
        )
        if found.leader_epoch == NO_EPOCH or found.leader_epoch >= last:
            epochs[answer.partition_index] = max(last, found.leader_epoch)
            return found
        before = None if known is None else known.partitions.get(answer.partition_index)
        return replace(found, leader=NO_LEADER) if before is None else before

    def learn_epoch(self, partition: TopicPartition, leader_epoch: int) -> bool:
        """Take a leader epoch from elsewhere (a committed offset has its record's epoch); leaders of older epochs are
        stale. Returns whether that makes the metadata stale."""
        epochs = self._epochs.setdefault(partition.topic, {})
        if leader_epoch <= epochs.get(partition.partition, NO_EPOCH):
            return False
        epochs[partition.partition] = leader_epoch
        topic = self.topics.get(partition.topic)
        info = None if topic is None else topic.partitions.get(partition.partition)
        if topic is not None and info is not None:
            topic.partitions[partition.partition] = replace(info, leader=NO_LEADER)
        return True

    def learn_leader(self, partition: TopicPartition, leader: int, leader_epoch: int) -> bool:
        """Take the current leader from a response (KIP-951); returns whether it is newer."""
        topic = self.topics.get(partition.topic)
        info = None if topic is None else topic.partitions.get(partition.partition)
        if topic is None or info is None or leader_epoch <= info.leader_epoch or leader not in self.brokers:
            return False
        epochs = self._epochs.setdefault(partition.topic, {})
        if leader_epoch < epochs.get(partition.partition, NO_EPOCH):
            return False
        epochs[partition.partition] = leader_epoch
        topic.partitions[partition.partition] = replace(info, leader=leader, leader_epoch=leader_epoch)
        return True

    def learn_brokers(self, brokers: Iterable[Broker]) -> None:
        for broker in brokers:
            self.brokers[broker.id] = broker

    def partition(self, partition: TopicPartition) -> PartitionInfo | None:
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def leader(self, partition: TopicPartition) -> int | None:
        """The broker that leads, if both the leader and its address are known."""
        info = self.partition(partition)
        return None if info is None or info.leader == NO_LEADER or info.leader not in self.brokers else info.leader

    def leader_epoch(self, partition: TopicPartition) -> int:
        info = self.partition(partition)
        return NO_EPOCH if info is None else info.leader_epoch

    def topic_id(self, topic: str) -> bytes:
        info = self.topics.get(topic)
        return NO_ID if info is None else info.id

    def last_id(self, topic: str) -> bytes:
        """The topic's last known ID, although the topic may be deleted by now: the records that were read came from
        that topic."""
        return self._ids.get(topic, NO_ID)

    def is_incomplete(self) -> bool:
        """Whether a topic of interest is missing, has an error, or has a partition without leader."""
        for name in self.topics if self.wants_all else self.interest:
            topic = self.topics.get(name)
            if topic is None or topic.error is not ErrorCode.NONE:
                return True
            if any(partition.leader not in self.brokers for partition in topic.partitions.values()):
                return True
        return False
