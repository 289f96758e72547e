"""OffsetForLeaderEpoch (23): where an epoch ended (rule 6, KIP-101, KIP-279, KIP-320).

On the inter-broker listener the controller uses it, with a replica id of its own, to get the log end of any replica,
for elections where no member of the ISR counts (rule 8).
"""

from tidelog.api.context import Context
from tidelog.api.records.leaders import find
from tidelog.controller.commands.elections import LOG_END_QUERY
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import NO_EPOCH
from tidelog.wire.messages.records.offsets import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(request: OffsetForLeaderEpochRequest, context: Context) -> OffsetForLeaderEpochResponse:
    by_controller = request.replica_id == LOG_END_QUERY and context.listener == context.broker.inter_broker_listener
    answer = _log_end if by_controller else _answer
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[answer(context, topic.topic, requested) for requested in topic.partitions],
            )
            for topic in request.topics
        ],
        broker_epoch=context.broker.broker_epoch if by_controller else NO_EPOCH,
    )


def _log_end(context: Context, topic: str, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    """(last epoch, log end offset) of this replica, once it knows the epoch in which it is final."""
    replica = context.broker.replicas.get(topic, requested.partition)
    if replica is None or replica.failed:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if replica is None else ErrorCode.KAFKA_STORAGE_ERROR
        return EpochEndOffset(partition=requested.partition, error_code=code)
    try:
        replica.check_epoch(requested.current_leader_epoch)
    except ApiError as error:
        return EpochEndOffset(partition=requested.partition, error_code=error.code)
    log = replica.log
    return EpochEndOffset(partition=requested.partition, leader_epoch=log.epochs.latest, end_offset=log.log_end_offset)


def _answer(context: Context, topic: str, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = find(context.broker, topic, requested.partition)
        partition.check_epoch(requested.current_leader_epoch)
        partition.leading()
        found = partition.epoch_end(requested.leader_epoch)
    except ApiError as error:
        return EpochEndOffset(partition=requested.partition, error_code=error.code)
    return EpochEndOffset(partition=requested.partition, leader_epoch=found.epoch, end_offset=found.end_offset)
