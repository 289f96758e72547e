"""AlterReplicaLogDirs (34): move this broker's replicas to other log folders, or choose the folder of new ones
(KIP-113)."""

from tidelog.api.context import Context
from tidelog.errors import ApiError, DiskFailed, ErrorCode
from tidelog.model import TopicPartition
from tidelog.wire.messages.cluster.log_dirs import (
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


def _not_here(name: TopicPartition, context: Context) -> ErrorCode:
    """NONE where the replica is about to be created here: it goes to the requested folder. While a folder is offline,
    the replica may already be in it."""
    broker = context.broker
    known = broker.image.partition(*name)
    if known is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    is_due = broker.broker_id in known.replicas and len(broker.replicas.live_folders) == len(broker.config.folders)
    return ErrorCode.NONE if is_due else ErrorCode.REPLICA_NOT_AVAILABLE


def _move(name: TopicPartition, folder: str, context: Context) -> ErrorCode:
    try:
        context.broker.move_replica(name, folder)
    except ApiError as error:
        return _not_here(name, context) if error.code == ErrorCode.REPLICA_NOT_AVAILABLE else error.code
    except DiskFailed as failure:
        context.broker.disk_failed(failure)
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE
