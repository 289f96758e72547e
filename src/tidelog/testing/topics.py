"""Topics of a cluster in the caller's process: created, deleted, and whom their partitions have as leader."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from tidelog.errors import ApiError, ErrorCode
from tidelog.shell.transport import Admin
from tidelog.testing.broker import START_S, Broker
from tidelog.testing.lifecycle import RETRY_S, Lifecycle, as_text, dotted
from tidelog.wire.messages.topics.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.messages.topics.topic_changes import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

ASK_MS = 1_000
"""How long one broker has to answer before it is asked again."""


class Topics(Lifecycle):
    """What `Cluster` can do with topics."""

    def create_topic(self, name: str, partitions: int = 1, *, replicas: int | None = None, **options: object) -> None:
        """Create a topic, and return when every running broker knows it and its leaders.

        By default it has a replica on every running broker, up to 3. Options are keywords with '_' for '.'. Raises
        ApiError if the cluster rejects the request.
        """
        running = self._answering
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=min(3, len(running)) if replicas is None else replicas,
            configs=[CreatableTopicConfig(name=dotted(key), value=as_text(value)) for key, value in options.items()],
        )
        with self.admin() as admin:
            result = admin.ask(CreateTopicsRequest(topics=[topic])).topics[0]
            if result.error_code:
                raise ApiError(ErrorCode(result.error_code), result.error_message)
            for broker in running:
                self._wait_until(partial(_is_known, admin, name, broker), lambda: f"all brokers know topic {name}")

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete these topics. Raises ApiError if the cluster rejects one."""
        topics = list(names)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in topics], topic_names=topics, timeout_ms=int(START_S * 1000)
        )
        with self.admin() as admin:
            for result in admin.ask(request).responses:
                if result.error_code:
                    raise ApiError(ErrorCode(result.error_code), f"{result.name}: {result.error_message}")

    def leader(self, topic: str, partition: int = 0) -> int:
        """The broker that leads the partition, -1 if none does.

        >>> cluster.kill(cluster.leader("orders"))
        """
        return self._partition(topic, partition).leader_id

    def in_sync(self, topic: str, partition: int = 0) -> set[int]:
        """The brokers in the partition's in-sync set."""
        return set(self._partition(topic, partition).isr_nodes)

    def _partition(self, topic: str, partition: int, broker: int | None = None) -> MetadataResponsePartition:
        """The partition as this broker knows it, or the first one that answers and is not cut off."""
        with self.admin() as admin:
            asked = self._reachable[0].id if broker is None else broker
            found = _described(admin, topic, asked).partitions
        numbers = [each.partition_index for each in found]
        if not numbers:
            raise ValueError(f"topic {topic!r} does not exist")
        if partition not in numbers:
            last = len(numbers) - 1
            raise ValueError(f"partition {partition!r} of {topic!r} does not exist; expected 0 to {last}")
        return next(each for each in found if each.partition_index == partition)

    def _wait_until(self, holds: Callable[[], bool], what: Callable[[], str], within_s: float = START_S) -> None:
        deadline = time.monotonic() + within_s
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {within_s:g} s: {what()}")
            time.sleep(RETRY_S)


def _described(admin: Admin, topic: str, broker: int, *, timeout_ms: int | None = None) -> MetadataResponseTopic:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    found: MetadataResponseTopic = admin.ask(request, broker, timeout_ms=timeout_ms).topics[0]
    return found


def _is_known(admin: Admin, topic: str, broker: Broker) -> bool:
    """Whether the broker has leaders of all partitions; a broker that ended meanwhile is not waited for."""
    if not broker.is_running:
        return True
    with suppress(ApiError):  # it may be ending
        return _has_leaders(_described(admin, topic, broker.id, timeout_ms=ASK_MS))
    return False


def _has_leaders(topic: MetadataResponseTopic) -> bool:
    return bool(topic.partitions) and all(partition.leader_id >= 0 for partition in topic.partitions)
