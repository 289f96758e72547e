"""The answer to a request that the controller refuses: the same code in every field that has one."""

from collections.abc import Callable
from typing import Any

from tidelog.errors import ErrorCode
from tidelog.wire.messages.cluster.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityDataResponse,
    EntryDataResponse,
)
from tidelog.wire.messages.cluster.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tidelog.wire.messages.cluster.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from tidelog.wire.messages.cluster.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tidelog.wire.messages.configs.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from tidelog.wire.messages.configs.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResourceResponse,
)
from tidelog.wire.messages.configs.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.messages.topics.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from tidelog.wire.messages.topics.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from tidelog.wire.messages.topics.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.topics.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tidelog.wire.messages.topics.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from tidelog.wire.messages.topics.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def _create_topics(request: CreateTopicsRequest, code: ErrorCode, message: str | None) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=code, error_message=message, configs=[])
            for topic in request.topics
        ]
    )


def _create_partitions(
    request: CreatePartitionsRequest, code: ErrorCode, message: str | None
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message)
            for topic in request.topics
        ]
    )


def _delete_topics(request: DeleteTopicsRequest, code: ErrorCode, message: str | None) -> DeleteTopicsResponse:
    requests = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=requested.name, topic_id=requested.topic_id, error_code=code, error_message=message
            )
            for requested in requests
        ]
    )


def _elect_leaders(request: ElectLeadersRequest, code: ErrorCode, message: str | None) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=partition, error_code=code, error_message=message)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _alter_quotas(request: AlterClientQuotasRequest, code: ErrorCode, message: str | None) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            EntryDataResponse(
                error_code=code,
                error_message=message,
                entity=[
                    EntityDataResponse(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


def _alter_configs(request: AlterConfigsRequest, code: ErrorCode, message: str | None) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


def _incremental(
    request: IncrementalAlterConfigsRequest, code: ErrorCode, message: str | None
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            IncrementalResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


_REFUSALS: dict[type, Callable[..., Any]] = {
    AlterPartitionRequest: lambda _request, code, _message: AlterPartitionResponse(error_code=code),
    ControlledShutdownRequest: lambda _request, code, _message: ControlledShutdownResponse(error_code=code),
    CreateTopicsRequest: _create_topics,
    CreatePartitionsRequest: _create_partitions,
    DeleteTopicsRequest: _delete_topics,
    ElectLeadersRequest: _elect_leaders,
    AlterPartitionReassignmentsRequest: lambda _request, code, message: AlterPartitionReassignmentsResponse(
        error_code=code, error_message=message
    ),
    ListPartitionReassignmentsRequest: lambda _request, code, message: ListPartitionReassignmentsResponse(
        error_code=code, error_message=message
    ),
    AlterClientQuotasRequest: _alter_quotas,
    UnregisterBrokerRequest: lambda _request, code, message: UnregisterBrokerResponse(
        error_code=code, error_message=message
    ),
    AlterConfigsRequest: _alter_configs,
    IncrementalAlterConfigsRequest: _incremental,
}


def not_controller(response: Any) -> bool:
    """Whether the request came to a broker that is not the controller (any more): it may be retried."""
    parts = (getattr(response, name, None) or () for name in ("topics", "results", "responses", "entries"))
    codes = {getattr(response, "error_code", 0), *(getattr(part, "error_code", 0) for found in parts for part in found)}
    return ErrorCode.NOT_CONTROLLER in codes


def refuse(request: Any, code: ErrorCode, message: str | None = None) -> Any:
    """The response to any request that the controller serves, with this code everywhere."""
    return _REFUSALS[type(request)](request, code, message)
