"""DescribeLogDirs (35): this broker's log folders, the replicas in them, their size and lag (KIP-113, 827)."""

from tidelog.api.context import Context
from tidelog.errors import DiskFailed, ErrorCode
from tidelog.partition.partition import Partition
from tidelog.wire.messages.cluster.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse:
    wanted = (
        None
        if request.topics is None
        else {(topic.topic, partition) for topic in request.topics for partition in topic.partitions}
    )
    held: dict[str, list[Partition]] = {folder: [] for folder in context.broker.config.folders}
    for partition in context.broker.replicas:
        if wanted is None or tuple(partition.name) in wanted:
            held.setdefault(context.broker.replicas.folder_of(partition.name), []).append(partition)
    return DescribeLogDirsResponse(results=[_folder(folder, found, context) for folder, found in held.items()])


def _folder(folder: str, partitions: list[Partition], context: Context) -> DescribeLogDirsResult:
    usage = _usage(folder, context)
    if usage is None:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=folder)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.name.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=partition.name.partition,
                partition_size=partition.log.size,
                offset_lag=max(0, partition.high_watermark - partition.log.log_end_offset),
            )
        )
    return DescribeLogDirsResult(
        log_dir=folder,
        topics=[DescribeLogDirsTopic(name=name, partitions=found) for name, found in topics.items()],
        total_bytes=usage[0],
        usable_bytes=usage[1],
    )


def _usage(folder: str, context: Context) -> tuple[int, int] | None:
    """(total, usable) bytes, None for a folder that failed."""
    try:
        return context.broker.replicas.usage(folder)
    except (DiskFailed, FileNotFoundError):
        return None
