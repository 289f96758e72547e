"""The topics that a pipeline writes to, created if they are missing."""

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidelog.client.results import code_of
from tidelog.errors import RETRIABLE, ApiError, ErrorCode
from tidelog.shell.transport import Admin
from tidelog.spark.access import Access
from tidelog.spark.pipelines.plan import WrongOption
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

VISIBLE_WITHIN_S = 10.0
"""How long a new topic may take to be known."""
EXISTING_WITHIN_S = 2.0
"""The same for one that should have been there before."""


class TopicShape(NamedTuple):
    """The partitions, replicas and options of a new topic; `configs` by Kafka's names."""

    partitions: int
    replicas: int
    configs: Mapping[str, str] = {}


def describe_topics(admin: Admin, topics: Iterable[str], within_s: float = EXISTING_WITHIN_S) -> MetadataResponse:
    """What the cluster reports about topics. ApiError if it does not know one, or a leader of it, within this time:
    a broker learns of a new topic later than the broker at which it was created."""
    wanted, until = [MetadataRequestTopic(name=name) for name in topics], time.monotonic() + within_s
    while True:
        answer: MetadataResponse = admin.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
        failed = next((topic for topic in answer.topics if topic.error_code), None)
        if failed is None:
            return answer
        code = code_of(failed.error_code)
        if code not in RETRIABLE or time.monotonic() > until:
            raise ApiError(code, f"there is no topic {failed.name}")
        time.sleep(0.1)


def topic_shapes(admin: Admin, topics: Iterable[str], within_s: float = EXISTING_WITHIN_S) -> dict[str, TopicShape]:
    """The shapes of existing topics; errors as in `describe_topics`."""
    return {
        str(topic.name): TopicShape(len(topic.partitions), len(topic.partitions[0].replica_nodes))
        for topic in describe_topics(admin, topics, within_s).topics
    }


def existing_topics(admin: Admin, option: str, topics: Iterable[str]) -> dict[str, TopicShape]:
    """The shapes of the topics that an option names. WrongOption if one does not exist."""
    try:
        return topic_shapes(admin, topics)
    except ApiError as error:
        if error.code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            raise
        raise WrongOption(f"option {option!r}: {error.message}; name one that is there, or create it first") from None


def create_topics(admin: Admin, topics: Mapping[str, TopicShape]) -> None:
    """Create those that do not exist. ApiError if the cluster refuses."""
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


def wait_for_topics(admin: Admin, topics: Iterable[str]) -> dict[str, TopicShape]:
    """The shapes of topics that were just created."""
    return topic_shapes(admin, topics, VISIBLE_WITHIN_S)


def create_topics_like(access: Access, option: str, topic: str, wanted: Iterable[str]) -> None:
    """Create topics with as many partitions and replicas as the topic that the option names."""
    with access.lookup_admin() as admin:
        names = list(wanted)
        create_topics(admin, dict.fromkeys(names, existing_topics(admin, option, [topic])[topic]))
        wait_for_topics(admin, names)
