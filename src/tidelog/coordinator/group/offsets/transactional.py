"""TxnOffsetCommit: positions that count once a producer's transaction is committed."""

from collections.abc import Iterator

from tidelog.coordinator.contract import Result, Transaction
from tidelog.coordinator.group.consumer import commits
from tidelog.coordinator.group.consumer.topic_partitions import Place
from tidelog.coordinator.group.consumer.topics import id_of
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.offsets.commit import change_of
from tidelog.coordinator.group.state import GroupState
from tidelog.errors import ApiError, ErrorCode
from tidelog.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def commit(machine: GroupMachine, request: TxnOffsetCommitRequest) -> Result:
    """ApiError with the code for every partition."""
    _check_transactional(machine, request)
    result = Result(TxnOffsetCommitResponse())
    result.transaction = Transaction(request.producer_id, request.producer_epoch)
    for topic in request.topics:
        answer = TxnOffsetCommitResponseTopic(name=topic.name)
        result.response.topics.append(answer)
        topic_id = id_of(machine.cluster, topic.name)
        for partition in topic.partitions:
            change = change_of(machine, request.group_id, topic.name, partition, topic_id=topic_id)
            code = ErrorCode.OFFSET_METADATA_TOO_LARGE if change is None else ErrorCode.NONE
            if change is not None:
                result.changes.append(change)
            answer.partitions.append(
                TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
            )
    return result


def _check_transactional(machine: GroupMachine, request: TxnOffsetCommitRequest) -> None:
    """A producer that names no generation is believed; one that does must be the member that it says (KIP-447)."""
    generation = request.generation_id
    consumer_group = machine.consumers.newest.get(request.group_id)
    if consumer_group is not None:
        member_id, instance_id = request.member_id, request.group_instance_id
        commits.check_transactional(consumer_group, member_id, instance_id, generation, _places(machine, request))
        return
    group = machine.groups.get(request.group_id)
    if group is None:
        if generation >= 0:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        return
    if generation < 0 and group.is_in(GroupState.EMPTY):
        return
    if generation >= 0 or request.member_id or request.group_instance_id is not None:
        group.check_member(request.member_id, request.group_instance_id)
        if generation != group.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)


def _places(machine: GroupMachine, request: TxnOffsetCommitRequest) -> Iterator[Place]:
    """Those of topics that are gone are nobody's."""
    for topic in request.topics:
        for partition in topic.partitions:
            yield id_of(machine.cluster, topic.name), partition.partition_index


def commit_error(request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    """The code for every partition of the request."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
