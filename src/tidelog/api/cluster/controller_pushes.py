"""What the controller pushes to brokers: LeaderAndIsr (4), StopReplica (5) and UpdateMetadata (6), inter-broker.

`check_controller` comes first in each: it refuses a push of an older controller, or one that a newer push overtook.
"""

from collections.abc import Collection
from functools import partial

from tidelog.api.context import Context, Pending
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.wire.messages.cluster.controller_pushes import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)


def leader_and_isr(request: LeaderAndIsrRequest, context: Context) -> LeaderAndIsrResponse | Pending:
    """Which replicas this broker leads and follows."""
    code = context.broker.check_controller(request)
    if code:
        return LeaderAndIsrResponse(error_code=code)
    return context.broker.apply_assignments(request, context)


def stop_replica(request: StopReplicaRequest, context: Context) -> StopReplicaResponse | Pending:
    """Stop following, and delete the replica where the topic is deleted or the replica was moved away."""
    code = context.broker.check_controller(request)
    if code:
        return StopReplicaResponse(error_code=code)
    errors = [
        StopReplicaPartitionError(
            topic_name=topic.topic_name,
            partition_index=state.partition_index,
            error_code=context.broker.stop_replica(
                TopicPartition(topic.topic_name, state.partition_index),
                topic.topic_id,
                state.leader_epoch,
                delete=state.delete_partition,
            ),
        )
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    names = [TopicPartition(error.topic_name, error.partition_index) for error in errors]
    return context.broker.answer_when_durable(context, names, partial(_stopped, errors))


def _stopped(errors: list[StopReplicaPartitionError], failed: Collection[TopicPartition]) -> StopReplicaResponse:
    for error in errors:
        if (error.topic_name, error.partition_index) in failed:
            error.error_code = error.error_code or ErrorCode.KAFKA_STORAGE_ERROR
    return StopReplicaResponse(partition_errors=errors)


def update_metadata(request: UpdateMetadataRequest, context: Context) -> UpdateMetadataResponse:
    """What the cluster is: brokers, topics, partitions and their leaders."""
    code = context.broker.check_controller(request)
    if not code:
        try:
            context.broker.apply_metadata(request, context.now)
        except ApiError as error:
            code = error.code
    return UpdateMetadataResponse(error_code=code)
