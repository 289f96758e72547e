"""The target of a workload: topics of its own, each partition of which is a key of the history."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidelog.client.results import code_of
from tidelog.effects import CONTROLLER
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.topics.topic_changes import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

MOST_REPLICAS = 3
TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class WorkloadTarget:
    """`partitions[key]` is the partition of a key; `group` is the group of subscribing workers. `client` are options
    of every client, such as TLS and SASL."""

    bootstrap: str
    partitions: Sequence[TopicPartition]
    group: str
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def admin(self) -> Admin:
        return _admin(self.bootstrap, self.client)

    @property
    def topics(self) -> list[str]:
        return sorted({partition.topic for partition in self.partitions})

    def key_of(self, topic: str, partition: int) -> int:
        return self.partitions.index(TopicPartition(topic, partition))

    def keys_of(self, topics: Sequence[str]) -> list[int]:
        return [key for key, partition in enumerate(self.partitions) if partition.topic in topics]


def create_topics(
    bootstrap: str, topics: int, partitions: int, client: Mapping[str, Any] | None = None
) -> WorkloadTarget:
    """Create topics with unused names and up to three replicas. ApiError if the cluster refuses or does not answer."""
    run = os.urandom(4).hex()
    names = [f"tidelog-check-{run}-{number}" for number in range(topics)]
    with _admin(bootstrap, client or {}) as admin:
        replicas = min(MOST_REPLICAS, len(admin.ask(MetadataRequest(topics=[])).brokers))
        wanted = [_topic(name, partitions, replicas) for name in names]
        for result in admin.ask(CreateTopicsRequest(topics=wanted), CONTROLLER).topics:
            if result.error_code:
                raise ApiError(ErrorCode(code_of(result.error_code)), result.error_message)
        _await_leaders(admin, names, partitions)
    partitions_of_keys = [TopicPartition(name, partition) for name in names for partition in range(partitions)]
    return WorkloadTarget(bootstrap, partitions_of_keys, f"tidelog-check-{run}", client or {})


def delete_topics(target: WorkloadTarget) -> None:
    """Delete the topics. ApiError if the cluster does not answer."""
    states = [DeleteTopicState(name=name, topic_id=bytes(16)) for name in target.topics]
    request = DeleteTopicsRequest(topics=states, topic_names=target.topics)
    with target.admin() as admin:
        admin.ask(request, CONTROLLER)


def _admin(bootstrap: str, client: Mapping[str, Any]) -> Admin:
    return Admin(bootstrap, **{**client, "default_api_timeout_ms": TIMEOUT_MS})


def _topic(name: str, partitions: int, replicas: int) -> CreatableTopic:
    least = CreatableTopicConfig(name="min.insync.replicas", value=str(min(2, replicas)))
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=[least])


def _await_leaders(admin: Admin, names: Sequence[str], partitions: int) -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
    )
    while True:
        found = admin.ask(request).topics
        led = [each for topic in found for each in topic.partitions if each.leader_id >= 0]
        if len(led) == len(names) * partitions:
            return
