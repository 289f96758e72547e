"""The topics that a pipeline writes to, made where they are missing."""

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidelog.errors import ApiError, ErrorCode
from tidelog.shell.transport import Admin
from tidelog.spark.access import Access
from tidelog.spark.pipelines.plan import WrongOption
from tidelog.wire.messages.topics.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic

TOLD_WITHIN_S = 10.0


class Shape(NamedTuple):
    """What a topic is made with; `configs` by Kafka's names."""

    partitions: int
    replicas: int
    configs: Mapping[str, str] = {}


def shapes(admin: Admin, topics: Iterable[str]) -> dict[str, Shape]:
    """Those of topics that are there. ApiError UNKNOWN_TOPIC_OR_PARTITION where one is not."""
    wanted = [MetadataRequestTopic(name=name) for name in topics]
    found = admin.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False)).topics
    for topic in found:
        if topic.error_code:
            raise ApiError(ErrorCode(topic.error_code), f"there is no topic {topic.name}")
    return {str(topic.name): Shape(len(topic.partitions), len(topic.partitions[0].replica_nodes)) for topic in found}


def existing(admin: Admin, option: str, topics: Iterable[str]) -> dict[str, Shape]:
    """Shapes of topics that an option names. WrongOption where one is not there."""
    try:
        return shapes(admin, topics)
    except ApiError as error:
        if error.code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            raise
        raise WrongOption(f"option {option!r}: {error.message}; name one that is there, or create it first") from None


def make(admin: Admin, topics: Mapping[str, Shape]) -> None:
    """Create those that are not there. ApiError where the cluster refuses."""
    wanted = [
        CreatableTopic(
            name=name,
            num_partitions=shape.partitions,
            replication_factor=shape.replicas,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in shape.configs.items()],
        )
        for name, shape in topics.items()
    ]
    for result in admin.ask(CreateTopicsRequest(topics=wanted)).topics:
        if result.error_code not in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise ApiError(ErrorCode(result.error_code), f"topic {result.name}: {result.error_message}")


def wait_for(admin: Admin, topics: Iterable[str]) -> dict[str, Shape]:
    """Their shapes, once the cluster tells of all of them; the last error after TOLD_WITHIN_S."""
    names, until = list(topics), time.monotonic() + TOLD_WITHIN_S
    while True:
        try:
            return shapes(admin, names)
        except ApiError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def make_like(access: Access, option: str, topic: str, wanted: Iterable[str]) -> None:
    """Create topics with as many partitions and replicas as the one has that the option names."""
    with access.looking() as admin:
        names = list(wanted)
        make(admin, dict.fromkeys(names, existing(admin, option, [topic])[topic]))
        wait_for(admin, names)
