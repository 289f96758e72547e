"""The table of every API served: who may call it, and what an authorizer is asked for. What the API is called, its
versions and the family that its messages and its handler stand in are in `tidelog.wire.messages`.

Dispatch, ApiVersions, the reference page and the fuzz targets derive from it. A handler's module is imported at its
first request, so that a broker starts quickly.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal, NamedTuple

from tidelog.wire.messages import SCHEMAS

Caller = Literal["anyone", "broker", "tidelog"]


class Api(NamedTuple):
    """`low`..`high` are decoded and served; `advertised_low` is what ApiVersions says (KAFKA-18659 for Produce).

    `caller` "broker" is served and advertised on the inter-broker listener only, "tidelog" advertised to Tidelog's own
    clients only: others would not know what it is. `operation` is what an authorizer is asked for. `module` is below
    `tidelog.api`, named as the one of the messages.
    """

    key: int
    name: str
    low: int
    high: int
    module: str
    caller: Caller
    operation: str
    advertised_low: int


def _api(
    key: int, operation: str, *, caller: Caller = "anyone", low: int | None = None, advertised_low: int | None = None
) -> Api:
    """Name, family and versions are those of the messages; `low` where older ones are only decoded."""
    schema = SCHEMAS[key]
    first = schema.min_version if low is None else low
    advertised = first if advertised_low is None else advertised_low
    return Api(key, schema.name, first, schema.max_version, schema.module, caller, operation, advertised)


APIS: dict[int, Api] = {
    api.key: api
    for api in (
        _api(0, "Topic WRITE", advertised_low=0),  # Produce
        _api(1, "Topic READ, or Cluster CLUSTER_ACTION for a replica"),  # Fetch
        _api(2, "Topic DESCRIBE"),  # ListOffsets
        _api(3, "Topic DESCRIBE"),  # Metadata
        _api(4, "Cluster CLUSTER_ACTION", caller="broker"),  # LeaderAndIsr
        _api(5, "Cluster CLUSTER_ACTION", caller="broker"),  # StopReplica
        _api(6, "Cluster CLUSTER_ACTION", caller="broker"),  # UpdateMetadata
        _api(7, "Cluster CLUSTER_ACTION", caller="broker"),  # ControlledShutdown
        _api(8, "Group READ, Topic READ"),  # OffsetCommit
        _api(9, "Group DESCRIBE, Topic DESCRIBE"),  # OffsetFetch
        _api(10, "Group DESCRIBE"),  # FindCoordinator
        _api(11, "Group READ"),  # JoinGroup
        _api(12, "Group READ"),  # Heartbeat
        _api(13, "Group READ"),  # LeaveGroup
        _api(14, "Group READ"),  # SyncGroup
        _api(15, "Group DESCRIBE"),  # DescribeGroups
        _api(16, "Cluster DESCRIBE, or Group DESCRIBE"),  # ListGroups
        _api(18, "none"),  # ApiVersions
        _api(19, "Cluster CREATE, or Topic CREATE"),  # CreateTopics
        _api(20, "Topic DELETE"),  # DeleteTopics
        _api(21, "Topic DELETE"),  # DeleteRecords
        _api(22, "TransactionalId or Topic WRITE, or Cluster IDEMPOTENT_WRITE"),  # InitProducerId
        _api(23, "Topic DESCRIBE"),  # OffsetForLeaderEpoch
        _api(24, "TransactionalId WRITE, Topic WRITE"),  # AddPartitionsToTxn
        _api(25, "TransactionalId WRITE, Group READ"),  # AddOffsetsToTxn
        _api(26, "TransactionalId WRITE"),  # EndTxn
        _api(27, "Cluster ALTER or CLUSTER_ACTION"),  # WriteTxnMarkers
        _api(28, "TransactionalId WRITE, Group and Topic READ"),  # TxnOffsetCommit
        _api(32, "Topic or Cluster DESCRIBE_CONFIGS"),  # DescribeConfigs
        _api(33, "Topic or Cluster ALTER_CONFIGS"),  # AlterConfigs
        _api(34, "Cluster ALTER"),  # AlterReplicaLogDirs
        _api(35, "Cluster DESCRIBE"),  # DescribeLogDirs
        _api(37, "Topic ALTER"),  # CreatePartitions
        _api(42, "Group DELETE"),  # DeleteGroups
        _api(43, "Cluster ALTER"),  # ElectLeaders
        _api(44, "Topic or Cluster ALTER_CONFIGS"),  # IncrementalAlterConfigs
        _api(45, "Cluster ALTER"),  # AlterPartitionReassignments
        _api(46, "Cluster DESCRIBE"),  # ListPartitionReassignments
        _api(47, "Group DELETE, Topic READ"),  # OffsetDelete
        _api(48, "Cluster DESCRIBE_CONFIGS"),  # DescribeClientQuotas
        _api(49, "Cluster ALTER_CONFIGS"),  # AlterClientQuotas
        _api(50, "Cluster DESCRIBE"),  # DescribeUserScramCredentials
        _api(56, "Cluster CLUSTER_ACTION", caller="broker", low=3),  # AlterPartition
        _api(60, "Cluster DESCRIBE"),  # DescribeCluster
        _api(61, "Topic READ"),  # DescribeProducers
        _api(64, "Cluster ALTER"),  # UnregisterBroker
        _api(65, "TransactionalId DESCRIBE"),  # DescribeTransactions
        _api(66, "TransactionalId DESCRIBE"),  # ListTransactions
        _api(68, "Group READ, Topic DESCRIBE"),  # ConsumerGroupHeartbeat
        _api(69, "Group DESCRIBE, Topic DESCRIBE"),  # ConsumerGroupDescribe
        _api(74, "Cluster DESCRIBE_CONFIGS"),  # ListConfigResources
        _api(75, "Topic DESCRIBE"),  # DescribeTopicPartitions
        _api(10000, "Cluster DESCRIBE", caller="tidelog"),  # BrokerReport
    )
}


def handler(api: Api) -> Callable[[Any, Any], Any]:
    """The `handle` function of the API's file."""
    function: Callable[[Any, Any], Any] = import_module(f"tidelog.api.{api.module}").handle
    return function
