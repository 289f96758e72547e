"""Metadata (3): brokers, topics and their partitions, from this broker's image (KIP-516, KIP-526).

Addresses are those of the listener that received the request. A missing topic may be created; the answer to this
request is still UNKNOWN_TOPIC_OR_PARTITION, and the client retries.

An answer with many partitions is made with pauses: it may be that of a request of a few bytes.
"""

from collections.abc import Generator, Iterable, Iterator

from tidelog.api import authorized_operations as operations
from tidelog.api.context import Context
from tidelog.api.topics.auto_create import auto_create
from tidelog.controller import topic_names
from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.errors import ErrorCode
from tidelog.model import INTERNAL_TOPICS, NO_ID, NO_LEADER
from tidelog.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.slices import SLICE
from tidelog.wire.messages.topics.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

Described = tuple[MetadataResponseTopic, TopicImage | None]
"""A topic without its partitions, which are to follow from the image, if there is any."""


def handle(request: MetadataRequest, context: Context) -> Generator[None, None, MetadataResponse]:
    if request.topics and not _is_sound(request.topics, context.version):
        return _refused(request.topics, context.version)
    broker, image = context.broker, context.broker.image
    response = MetadataResponse(
        brokers=alive(image, context.listener), cluster_id=broker.cluster_id, controller_id=shown_controller(image)
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = operations.of_cluster(context)
    count = 0
    for described, topic in _topics(request, context):
        response.topics.append(described)
        count += 1
        partitions = sorted(topic.partitions.items()) if topic is not None else []
        for first in range(0, len(partitions), SLICE):
            portion = partitions[first : first + SLICE]
            described.partitions += _described_partitions(portion, context)
            count += len(portion)
            if count >= SLICE:
                count = 0
                yield
        if count >= SLICE:
            count = 0
            yield
    if request.include_topic_authorized_operations:
        for count, described in enumerate(response.topics, 1):
            if described.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                described.topic_authorized_operations = operations.of_topic(context, described.name or "")
            if not count % (SLICE // 10):
                yield
    return response


def alive(image: ClusterImage, listener: str) -> list[MetadataResponseBroker]:
    """The brokers that can be reached on this listener."""
    return [
        MetadataResponseBroker(node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
        for broker in image.brokers.values()
        if (endpoint := broker.endpoints.get(listener)) is not None
    ]


def shown_controller(image: ClusterImage) -> int:
    """A live broker in any case: each takes what is for the controller."""
    if image.controller_id in image.brokers:
        return image.controller_id
    return min(image.brokers, default=-1)


def _topics(request: MetadataRequest, context: Context) -> Iterable[Described]:
    """What the client may not describe is not shown, or is refused where it is named, and is never created."""
    image = context.broker.image
    if request.topics is None or (context.version == 0 and not request.topics):
        existing = list(image.topics.values())
        return (_described(topic) for topic in existing if may_describe(topic.name, context, ""))
    ids = dict.fromkeys(topic.topic_id for topic in request.topics if topic.topic_id != NO_ID)
    if ids:
        return (_by_id(topic_id, context) for topic_id in ids)
    wanted = dict.fromkeys(topic.name for topic in request.topics if topic.name is not None)
    hidden = {name for name in wanted if not may_describe(name, context)}
    missing = [name for name in wanted if name not in hidden and name not in image.topics]
    hidden |= _make_missing(request, missing, context)
    return ((forbidden(name), None) if name in hidden else _by_name(name, context) for name in wanted)


def may_describe(name: str, context: Context, api: str = "Metadata") -> bool:
    """A denial is logged if `api` is given."""
    access = context.access
    return access is None or access.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name, api)


def forbidden(name: str | None, topic_id: bytes = NO_ID) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS,
    )


def _is_sound(topics: list[MetadataRequestTopic], version: int) -> bool:
    """Topics are named, or from version 12 on all found by id (then names do not matter)."""
    by_id = any(topic.topic_id != NO_ID for topic in topics)
    named = all(topic.name is not None for topic in topics)
    return named and not by_id if version < 12 else named or by_id


def _refused(topics: list[MetadataRequestTopic], version: int) -> MetadataResponse:
    """Only the error, as Kafka does it: from version 12 on even with a vague code."""
    code = ErrorCode.INVALID_REQUEST if version < 12 else ErrorCode.UNKNOWN_SERVER_ERROR
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id) for topic in topics
        ],
        error_code=code,
    )


def _make_missing(request: MetadataRequest, missing: list[str], context: Context) -> set[str]:
    """Create them if that is requested; those that the client may not create."""
    broker = context.broker
    if not (
        missing
        and request.allow_auto_topic_creation
        and broker.config.auto_create_topics_enable
        and broker.image.brokers
    ):
        return set()
    denied = {name for name in missing if not _may_create(name, context)}
    auto_create([name for name in missing if name not in denied and topic_names.fault(name) is None], context)
    return denied


def _may_create(name: str, context: Context) -> bool:
    access, create = context.access, AclOperation.CREATE
    if access is None or access.allows(create, ResourceType.CLUSTER, CLUSTER_NAME):
        return True
    return access.allows(create, ResourceType.TOPIC, name, "Metadata")


def _by_id(topic_id: bytes, context: Context) -> Described:
    topic = context.broker.image.topic_by_id(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id), None
    return _described(topic) if may_describe(topic.name, context) else (forbidden(None, topic_id), None)


def _by_name(name: str, context: Context) -> Described:
    topic = context.broker.image.topics.get(name)
    if topic is None:
        code = (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if topic_names.fault(name) is None
            else ErrorCode.INVALID_TOPIC_EXCEPTION
        )
        return MetadataResponseTopic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS), None
    return _described(topic)


def _described(topic: TopicImage) -> Described:
    return MetadataResponseTopic(name=topic.name, topic_id=topic.id, is_internal=topic.name in INTERNAL_TOPICS), topic


def _described_partitions(
    partitions: Iterable[tuple[int, PartitionImage]], context: Context
) -> Iterator[MetadataResponsePartition]:
    image = context.broker.image
    reachable = {broker.id for broker in image.brokers.values() if context.listener in broker.endpoints}
    return (_partition(index, partition, image, reachable, context.version) for index, partition in partitions)


def _partition(
    index: int, partition: PartitionImage, image: ClusterImage, reachable: set[int], version: int
) -> MetadataResponsePartition:
    replicas, isr = partition.replicas, partition.isr
    code = ErrorCode.NONE
    if version == 0:
        replicas = [broker for broker in replicas if broker in reachable]
        isr = [broker for broker in isr if broker in reachable]
        if len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
            code = ErrorCode.REPLICA_NOT_AVAILABLE
    leader = partition.leader
    if leader not in reachable:
        hidden = leader in image.brokers and version >= 6
        code = ErrorCode.LISTENER_NOT_FOUND if hidden else ErrorCode.LEADER_NOT_AVAILABLE
        leader = NO_LEADER
    return MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=unreachable(partition, reachable),
    )


def unreachable(partition: PartitionImage, reachable: set[int]) -> list[int]:
    """Replicas that are offline, or on brokers without the listener of the request."""
    return [broker for broker in partition.replicas if broker in partition.offline or broker not in reachable]
