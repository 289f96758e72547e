"""StopReplica (5), inter-broker: stop following, and delete where the topic is deleted."""

from tidelog.api.context import Context
from tidelog.model import TopicPartition
from tidelog.wire.messages.cluster.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)


def handle(request: StopReplicaRequest, context: Context) -> StopReplicaResponse:
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
    code = context.broker.sync_folders()
    for error in errors:
        error.error_code = error.error_code or code
    return StopReplicaResponse(partition_errors=errors)
