"""Parts of a fetch's answer: refusals, and what a reader of committed records must leave out."""

from tidelog.api.context import Context
from tidelog.api.records.leaders import MOVED, find, present_leader
from tidelog.api.records.sessions import UnknownPartition, Wanted
from tidelog.effects import FileSlice
from tidelog.errors import ApiError, ErrorCode
from tidelog.log.integrity.soundness import Unsound
from tidelog.partition.partition import Partition
from tidelog.wire.messages.records.fetch import AbortedTransaction, LeaderIdAndEpoch, PartitionData

LEADER_TOLD_SINCE = 16
NOT_READ = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""Refused before anything was read: the list of aborted transactions is then empty, otherwise null."""


def refusal(context: Context, wanted: Wanted, code: ErrorCode) -> PartitionData:
    answer = PartitionData(
        partition_index=wanted.name.partition,
        error_code=code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=[] if code in NOT_READ else None,
        records=b"",
    )
    if isinstance(wanted.name, UnknownPartition):
        return answer
    if code == ErrorCode.OFFSET_OUT_OF_RANGE and context.listener == context.broker.inter_broker_listener:
        partition = find(context.broker, *wanted.name)
        answer.log_start_offset = partition.log.log_start_offset
    if code in MOVED and context.version >= LEADER_TOLD_SINCE:
        leader, epoch = present_leader(context.broker, *wanted.name)
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    return answer


def piece(
    context: Context, partition: Partition, wanted: Wanted, max_bytes: int, limit: int, *, first: bool
) -> FileSlice | None:
    """What the fetcher reads; None where there is nothing, or not yet: it is being examined for rot."""
    try:
        return partition.read(wanted.offset, max_bytes, limit, at_least_one=first)
    except Unsound as unsound:
        code = context.broker.examine(partition, unsound)
        if code:
            raise ApiError(code) from unsound
        return None


def aborted(partition: Partition, offset: int, piece: FileSlice, limit: int) -> list[AbortedTransaction]:
    """The aborted transactions in what is read, in the order of the transaction index."""
    return [
        AbortedTransaction(producer_id=found.producer_id, first_offset=found.first_offset)
        for found in partition.log.aborted(offset, piece, limit)
    ]
