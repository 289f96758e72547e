"""AlterPartition (KIP-497, 841, 903): a leader changes its in-sync set, by compare-and-set on both epochs.

A retry of a change that already holds succeeds with the current partition epoch. A replica may not join with another
broker epoch than its own, nor while it shuts down, nor while its log folder is offline.
"""

from collections.abc import Sequence

from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.journal import Steps
from tidelog.controller.leaders import Life, with_elr
from tidelog.controller.state import Partition
from tidelog.controller.tree import LeadershipState
from tidelog.errors import ErrorCode
from tidelog.model import NO_EPOCH
from tidelog.wire.messages.cluster.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    PartitionDataResponse,
    TopicDataResponse,
)


def alter_partitions(term: ControllerTerm, request: AlterPartitionRequest) -> Steps[AlterPartitionResponse]:
    life = term.cluster.lives.get(request.broker_id)
    if life is None or request.broker_epoch not in (NO_EPOCH, life.epoch):
        return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    changes: dict[Partition, LeadershipState] = {}
    accepted: list[tuple[PartitionDataResponse, Partition]] = []
    response = AlterPartitionResponse()
    for topic in request.topics:
        answers = []
        for proposed in topic.partitions:
            code, partition = _decide(term, request.broker_id, topic.topic_id, proposed, changes)
            answer = PartitionDataResponse(partition_index=proposed.partition_index, error_code=code)
            answers.append(answer)
            if partition is not None:
                accepted.append((answer, partition))
        response.topics.append(TopicDataResponse(topic_id=topic.topic_id, partitions=answers))
    yield from term.commit(list(changes.items()), "alter partition", roles=False)
    for answer, partition in accepted:
        _fill(answer, partition)
    return response


def _fill(answer: PartitionDataResponse, partition: Partition) -> None:
    state = partition.state
    answer.leader_id = state.leader
    answer.leader_epoch = state.leader_epoch
    answer.isr = list(state.isr)
    answer.partition_epoch = partition.version
    answer.elr = list(state.elr)


def _decide(
    term: ControllerTerm,
    broker: int,
    topic_id: bytes,
    proposed: PartitionData,
    changes: dict[Partition, LeadershipState],
) -> tuple[ErrorCode, Partition | None]:
    """The partition where the proposed in-sync set holds, already or with the change that is added to `changes`."""
    topic = term.cluster.topic_ids.get(topic_id)
    if topic is None or topic.deleted:
        return ErrorCode.UNKNOWN_TOPIC_ID, None
    partition = topic.partitions.get(proposed.partition_index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    if partition in changes:
        return ErrorCode.INVALID_REQUEST, None
    code = check_epochs(partition.state, partition.version, broker, proposed)
    lives, state = term.cluster.lives, partition.state
    # An answer that was lost is given again, but only over that one change: the leader takes our version with it, and
    # would refuse the other changes that were pushed, new replicas among them, as stale.
    again = code == ErrorCode.INVALID_UPDATE_VERSION and proposed.partition_epoch == partition.version - 1
    if (again or not code) and _holds(state, proposed.new_isr_with_epochs):
        return ErrorCode.NONE, partition
    code = code or check_isr(state, partition.replicas, proposed, lives)
    code = code or check_online(partition, proposed)
    if code:
        return code, None
    # The controller's order: the epochs recorded are those of the registrations, which the request was checked against.
    isr = tuple(member.broker_id for member in proposed.new_isr_with_epochs)
    after = state._replace(isr=isr, isr_epochs=tuple(lives[member].epoch for member in isr))
    changes[partition] = with_elr(state, after, partition.replicas, lives, term.min_in_sync(partition))
    return ErrorCode.NONE, partition


def check_epochs(state: LeadershipState, version: int, broker: int, proposed: PartitionData) -> ErrorCode:
    """Epochs ahead of ours mean that we were deposed and do not know it yet."""
    if proposed.leader_epoch > state.leader_epoch or proposed.partition_epoch > version:
        return ErrorCode.NOT_CONTROLLER
    if proposed.leader_epoch < state.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker != state.leader:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.INVALID_UPDATE_VERSION if proposed.partition_epoch < version else ErrorCode.NONE


def check_isr(
    state: LeadershipState, replicas: Sequence[int], proposed: PartitionData, lives: dict[int, Life]
) -> ErrorCode:
    isr = [member.broker_id for member in proposed.new_isr_with_epochs]
    if not isr or len(set(isr)) < len(isr) or not set(isr) <= set(replicas) or state.leader not in isr:
        return ErrorCode.INVALID_REQUEST
    if proposed.leader_recovery_state != 0:
        return ErrorCode.INVALID_REQUEST
    eligible = all(_eligible(member, lives) for member in proposed.new_isr_with_epochs)
    return ErrorCode.NONE if eligible else ErrorCode.INELIGIBLE_REPLICA


def check_online(partition: Partition, proposed: PartitionData) -> ErrorCode:
    """A replica whose log folder failed does not fetch any more: in the ISR it would block commits until it lags."""
    joining = {member.broker_id for member in proposed.new_isr_with_epochs} - set(partition.state.isr)
    return ErrorCode.INELIGIBLE_REPLICA if joining & partition.offline else ErrorCode.NONE


def _eligible(member: BrokerState, lives: dict[int, Life]) -> bool:
    life = lives.get(member.broker_id)
    return life is not None and not life.leaving and member.broker_epoch in (NO_EPOCH, life.epoch)


def _holds(state: LeadershipState, members: Sequence[BrokerState]) -> bool:
    recorded = state.members
    return len(members) == len(recorded) and all(
        member.broker_id in recorded and member.broker_epoch in (NO_EPOCH, recorded[member.broker_id])
        for member in members
    )
