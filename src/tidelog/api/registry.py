"""The table of every API served: key, versions, handler, who may call.

Dispatch, ApiVersions, the reference page and the fuzz targets derive from it. A handler's module is imported at its
first request, so that a broker starts quickly.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal, NamedTuple

Caller = Literal["anyone", "broker", "tidelog"]


class Api(NamedTuple):
    """`low`..`high` are decoded and served; `advertised_low` is what ApiVersions says (KAFKA-18659 for Produce).

    `caller` "broker" is served and advertised on the inter-broker listener only, "tidelog" advertised to Tidelog's own
    clients only: others would not know what it is. `operation` is what an
    authorizer is asked for.
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
    key: int,
    name: str,
    low: int,
    high: int,
    module: str,
    operation: str,
    *,
    caller: Caller = "anyone",
    advertised_low: int | None = None,
) -> Api:
    return Api(key, name, low, high, module, caller, operation, low if advertised_low is None else advertised_low)


APIS: dict[int, Api] = {
    api.key: api
    for api in (
        _api(0, "Produce", 3, 13, "records.produce", "Topic WRITE", advertised_low=0),
        _api(1, "Fetch", 4, 18, "records.fetch", "Topic READ, or Cluster CLUSTER_ACTION for a replica"),
        _api(2, "ListOffsets", 1, 11, "records.list_offsets", "Topic DESCRIBE"),
        _api(3, "Metadata", 0, 13, "cluster.metadata", "Topic DESCRIBE"),
        _api(4, "LeaderAndIsr", 7, 7, "cluster.leader_and_isr", "Cluster CLUSTER_ACTION", caller="broker"),
        _api(5, "StopReplica", 4, 4, "cluster.stop_replica", "Cluster CLUSTER_ACTION", caller="broker"),
        _api(6, "UpdateMetadata", 8, 8, "cluster.update_metadata", "Cluster CLUSTER_ACTION", caller="broker"),
        _api(7, "ControlledShutdown", 3, 3, "cluster.controlled_shutdown", "Cluster CLUSTER_ACTION", caller="broker"),
        _api(8, "OffsetCommit", 2, 10, "groups.offset_commit", "Group READ, Topic READ"),
        _api(9, "OffsetFetch", 1, 10, "groups.offset_fetch", "Group DESCRIBE, Topic DESCRIBE"),
        _api(10, "FindCoordinator", 0, 6, "groups.find_coordinator", "Group DESCRIBE"),
        _api(11, "JoinGroup", 0, 9, "groups.join_group", "Group READ"),
        _api(12, "Heartbeat", 0, 4, "groups.heartbeat", "Group READ"),
        _api(13, "LeaveGroup", 0, 5, "groups.leave_group", "Group READ"),
        _api(14, "SyncGroup", 0, 5, "groups.sync_group", "Group READ"),
        _api(15, "DescribeGroups", 0, 6, "groups.describe_groups", "Group DESCRIBE"),
        _api(16, "ListGroups", 0, 5, "groups.list_groups", "Cluster DESCRIBE, or Group DESCRIBE"),
        _api(18, "ApiVersions", 0, 4, "cluster.api_versions", "none"),
        _api(19, "CreateTopics", 2, 7, "topics.create_topics", "Cluster CREATE, or Topic CREATE"),
        _api(20, "DeleteTopics", 1, 6, "topics.delete_topics", "Topic DELETE"),
        _api(21, "DeleteRecords", 0, 2, "records.delete_records", "Topic DELETE"),
        _api(
            22,
            "InitProducerId",
            0,
            5,
            "transactions.init_producer_id",
            "TransactionalId or Topic WRITE, or Cluster IDEMPOTENT_WRITE",
        ),
        _api(23, "OffsetForLeaderEpoch", 2, 4, "records.offset_for_leader_epoch", "Topic DESCRIBE"),
        _api(
            24, "AddPartitionsToTxn", 0, 5, "transactions.add_partitions_to_txn", "TransactionalId WRITE, Topic WRITE"
        ),
        _api(25, "AddOffsetsToTxn", 0, 4, "transactions.add_offsets_to_txn", "TransactionalId WRITE, Group READ"),
        _api(26, "EndTxn", 0, 5, "transactions.end_txn", "TransactionalId WRITE"),
        _api(27, "WriteTxnMarkers", 1, 2, "transactions.write_txn_markers", "Cluster ALTER or CLUSTER_ACTION"),
        _api(
            28, "TxnOffsetCommit", 0, 5, "transactions.txn_offset_commit", "TransactionalId WRITE, Group and Topic READ"
        ),
        _api(32, "DescribeConfigs", 1, 4, "topics.describe_configs", "Topic or Cluster DESCRIBE_CONFIGS"),
        _api(33, "AlterConfigs", 0, 2, "topics.alter_configs", "Topic or Cluster ALTER_CONFIGS"),
        _api(34, "AlterReplicaLogDirs", 1, 2, "cluster.alter_replica_log_dirs", "Cluster ALTER"),
        _api(35, "DescribeLogDirs", 1, 5, "cluster.describe_log_dirs", "Cluster DESCRIBE"),
        _api(37, "CreatePartitions", 0, 3, "topics.create_partitions", "Topic ALTER"),
        _api(42, "DeleteGroups", 0, 2, "groups.delete_groups", "Group DELETE"),
        _api(43, "ElectLeaders", 0, 2, "cluster.elect_leaders", "Cluster ALTER"),
        _api(44, "IncrementalAlterConfigs", 0, 1, "topics.incremental_alter_configs", "Topic or Cluster ALTER_CONFIGS"),
        _api(45, "AlterPartitionReassignments", 0, 1, "topics.alter_partition_reassignments", "Cluster ALTER"),
        _api(46, "ListPartitionReassignments", 0, 0, "topics.list_partition_reassignments", "Cluster DESCRIBE"),
        _api(47, "OffsetDelete", 0, 0, "groups.offset_delete", "Group DELETE, Topic READ"),
        _api(48, "DescribeClientQuotas", 0, 1, "cluster.describe_client_quotas", "Cluster DESCRIBE_CONFIGS"),
        _api(49, "AlterClientQuotas", 0, 1, "cluster.alter_client_quotas", "Cluster ALTER_CONFIGS"),
        _api(50, "DescribeUserScramCredentials", 0, 0, "security.describe_user_scram_credentials", "Cluster DESCRIBE"),
        _api(56, "AlterPartition", 3, 3, "cluster.alter_partition", "Cluster CLUSTER_ACTION", caller="broker"),
        _api(60, "DescribeCluster", 0, 2, "cluster.describe_cluster", "Cluster DESCRIBE"),
        _api(61, "DescribeProducers", 0, 0, "transactions.describe_producers", "Topic READ"),
        _api(64, "UnregisterBroker", 0, 0, "cluster.unregister_broker", "Cluster ALTER"),
        _api(65, "DescribeTransactions", 0, 0, "transactions.describe_transactions", "TransactionalId DESCRIBE"),
        _api(66, "ListTransactions", 0, 2, "transactions.list_transactions", "TransactionalId DESCRIBE"),
        _api(68, "ConsumerGroupHeartbeat", 0, 1, "groups.consumer_group_heartbeat", "Group READ, Topic DESCRIBE"),
        _api(69, "ConsumerGroupDescribe", 0, 1, "groups.consumer_group_describe", "Group DESCRIBE, Topic DESCRIBE"),
        _api(74, "ListConfigResources", 0, 1, "topics.list_config_resources", "Cluster DESCRIBE_CONFIGS"),
        _api(75, "DescribeTopicPartitions", 0, 0, "cluster.describe_topic_partitions", "Topic DESCRIBE"),
        _api(10000, "BrokerReport", 0, 0, "insight.broker_report", "Cluster DESCRIBE", caller="tidelog"),
    )
}


def handler(api: Api) -> Callable[[Any, Any], Any]:
    """The `handle` function of the API's file."""
    function: Callable[[Any, Any], Any] = import_module(f"tidelog.api.{api.module}").handle
    return function
