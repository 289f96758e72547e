"""AlterReplicaLogDirs (34): move this broker's replicas to other log folders, or say where new ones go (KIP-113)."""

from tidelog.api.context import Context
from tidelog.errors import ApiError, DiskFailed, ErrorCode
from tidelog.model import TopicPartition
from tidelog.wire.messages.cluster.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(request: AlterReplicaLogDirsRequest, context: Context) -> AlterReplicaLogDirsResponse:
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for folder in request.dirs:
        for topic in folder.topics:
            for partition in topic.partitions:
                code = _move(TopicPartition(topic.name, partition), folder.path, context)
                result = AlterReplicaLogDirPartitionResult(partition_index=partition, error_code=code)
                results.setdefault(topic.name, []).append(result)
    return AlterReplicaLogDirsResponse(
        results=[AlterReplicaLogDirTopicResult(topic_name=name, partitions=found) for name, found in results.items()]
    )


def _is_known(name: TopicPartition, context: Context) -> bool:
    topic = context.broker.image.topics.get(name.topic)
    return topic is not None and name.partition in topic.partitions


def _move(name: TopicPartition, folder: str, context: Context) -> ErrorCode:
    try:
        context.broker.move_replica(name, folder)
    except ApiError as error:
        is_here_later = error.code == ErrorCode.REPLICA_NOT_AVAILABLE
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_here_later and not _is_known(name, context) else error.code
    except DiskFailed as failure:
        context.broker.disk_refused(failure)
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE
