"""OffsetForLeaderEpoch (23): where an epoch ended (rule 6, KIP-101, KIP-279, KIP-320)."""

from tidelog.api.context import Context
from tidelog.api.records.leaders import find
from tidelog.errors import ApiError
from tidelog.wire.messages.records.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(request: OffsetForLeaderEpochRequest, context: Context) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_answer(context, topic.topic, asked) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _answer(context: Context, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = find(context.broker, topic, asked.partition)
        partition.check_epoch(asked.current_leader_epoch)
        partition.leading()
        found = partition.epoch_end(asked.leader_epoch)
    except ApiError as error:
        return EpochEndOffset(partition=asked.partition, error_code=error.code)
    return EpochEndOffset(partition=asked.partition, leader_epoch=found.epoch, end_offset=found.end_offset)
