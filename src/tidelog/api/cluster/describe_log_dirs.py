"""DescribeLogDirs (35): this broker's log folders, the replicas in them, their size and lag (KIP-113, 827)."""

from tidelog.api.context import Context
from tidelog.errors import DiskFailed, ErrorCode
from tidelog.log.log import Log
from tidelog.model import TopicPartition
from tidelog.slices import SLICE, Sliced
from tidelog.wire.messages.cluster.log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

Topics = dict[str, list[DescribeLogDirsPartition]]


def handle(request: DescribeLogDirsRequest, context: Context) -> Sliced[DescribeLogDirsResponse]:
    replicas = context.broker.replicas
    wanted = (
        None
        if request.topics is None
        else {(topic.topic, partition) for topic in request.topics for partition in topic.partitions}
    )
    held: dict[str, Topics] = {folder: {} for folder in context.broker.config.folders}
    for count, partition in enumerate(list(replicas), 1):
        name = partition.name
        if not count % SLICE:
            yield
        if wanted is not None and tuple(name) not in wanted:
            continue
        if replicas.get(*name) is not partition:
            continue  # deleted during a pause
        lag = max(0, partition.high_watermark - partition.log.log_end_offset)
        _add(held.setdefault(replicas.folder_of(name), {}), name, partition.log, lag)
        if name in replicas.futures:
            copy, folder = replicas.futures[name]
            lag = max(0, partition.log.log_end_offset - copy.log_end_offset)
            _add(held.setdefault(folder, {}), name, copy, lag, is_future=True)
    return DescribeLogDirsResponse(results=[_folder(folder, found, context) for folder, found in held.items()])


def _add(topics: Topics, name: TopicPartition, log: Log, lag: int, *, is_future: bool = False) -> None:
    topics.setdefault(name.topic, []).append(
        DescribeLogDirsPartition(
            partition_index=name.partition, partition_size=log.size, offset_lag=lag, is_future_key=is_future
        )
    )


def _folder(folder: str, topics: Topics, context: Context) -> DescribeLogDirsResult:
    usage = _usage(folder, context)
    if usage is None:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=folder)
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
