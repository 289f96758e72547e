"""The topics that a pipeline writes to, made where they are missing."""

from collections.abc import Iterable, Mapping

from tidelog.errors import ApiError, ErrorCode
from tidelog.shell.transport import Admin
from tidelog.wire.messages.topics.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic

BY_THE_BROKER = -1


def partitions_of(admin: Admin, topics: Iterable[str]) -> dict[str, int]:
    """How many partitions each has. ApiError UNKNOWN_TOPIC_OR_PARTITION where one is not there."""
    wanted = [MetadataRequestTopic(name=name) for name in topics]
    found = admin.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False)).topics
    for topic in found:
        if topic.error_code:
            raise ApiError(ErrorCode(topic.error_code), f"there is no topic {topic.name}")
    return {str(topic.name): len(topic.partitions) for topic in found}


def make(admin: Admin, topics: Mapping[str, int], configs: Mapping[str, Mapping[str, str]] | None = None) -> None:
    """Create those that are not there, with so many partitions and the broker's own number of replicas."""
    wanted = [
        CreatableTopic(
            name=name,
            num_partitions=count,
            replication_factor=BY_THE_BROKER,
            configs=[
                CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).get(name, {}).items()
            ],
        )
        for name, count in topics.items()
    ]
    for result in admin.ask(CreateTopicsRequest(topics=wanted)).topics:
        if result.error_code not in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise ApiError(ErrorCode(result.error_code), f"topic {result.name}: {result.error_message}")


def make_like(bootstrap: str, topic: str, wanted: Iterable[str]) -> None:
    """Create topics with as many partitions as another one has."""
    with Admin(bootstrap) as admin:
        count = partitions_of(admin, [topic])[topic]
        make(admin, dict.fromkeys(wanted, count))
