"""Topics that are created because a client requested them: `auto.create.topics.enable`, and the internal topics."""

from collections.abc import Iterable

from tidelog.api.context import Context
from tidelog.api.to_controller import send
from tidelog.config.broker import BrokerConfig
from tidelog.model import GROUP_TOPIC, TRANSACTION_TOPIC
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

RETRY_MS = 100
"""The minimum time between two requests to the controller for the same topic."""


def auto_create(names: Iterable[str], context: Context) -> None:
    """Request these topics from the controller; clients retry until they exist."""
    requested, now = context.broker.topics_requested, context.now.mono
    for name in [name for name, moment in requested.items() if now - moment >= RETRY_MS]:
        del requested[name]
    topics = [creatable(name, context.broker.config) for name in names if name not in requested]
    requested.update((topic.name, now) for topic in topics)
    if topics:
        send(CreateTopicsRequest(topics=topics, timeout_ms=context.broker.config.request_timeout_ms), context)


def creatable(name: str, config: BrokerConfig) -> CreatableTopic:
    """The topic as it is made on demand: the internal ones by options of their own."""
    if name == GROUP_TOPIC:
        segment = config.offsets_topic_segment_bytes
        return _internal(name, config.offsets_topic_num_partitions, config.offsets_topic_replication_factor, segment)
    if name == TRANSACTION_TOPIC:
        return _internal(
            name,
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            config.transaction_state_log_segment_bytes,
            {"min.insync.replicas": str(config.transaction_state_log_min_isr)},
        )
    return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)


def _internal(
    name: str, partitions: int, factor: int, segment_bytes: int, more: dict[str, str] | None = None
) -> CreatableTopic:
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(segment_bytes),
        **(more or {}),
    }
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[CreatableTopicConfig(name=option, value=value) for option, value in configs.items()],
    )
