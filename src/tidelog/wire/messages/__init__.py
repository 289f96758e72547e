"""Declarations of every message that a broker or a client reads or writes; no behaviour.

`SCHEMAS` is the table of the APIs. A message's module is imported when its request or response class is first asked
for, because a broker that starts needs a dozen of the sixty.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any


@dataclass(eq=False, repr=False)
class Schema:
    """One API: its key, its name, the versions that the codec knows, and where flexible versions begin."""

    key: int
    name: str
    module: str
    min_version: int
    max_version: int
    flexible_since: int | None

    def __repr__(self) -> str:
        return f"<{self.name} ({self.key}) {self.min_version}-{self.max_version}>"

    def is_flexible(self, version: int) -> bool:
        return self.flexible_since is not None and version >= self.flexible_since

    def has(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    @cached_property
    def request(self) -> type[Any]:
        return self._class("Request")

    @cached_property
    def response(self) -> type[Any]:
        return self._class("Response")

    def _class(self, suffix: str) -> type[Any]:
        found: type[Any] = getattr(import_module(f"{__name__}.{self.module}"), self.name + suffix)
        return found


# key, name, module, lowest and highest version, the first flexible version. Keys 4-7 exist in the one version that
# brokers speak among themselves; from 10000 on the APIs are Tidelog's own.
_TABLE = (
    (0, "Produce", "records.produce", 3, 13, 9),
    (1, "Fetch", "records.fetch", 4, 18, 12),
    (2, "ListOffsets", "records.offsets", 1, 11, 6),
    (3, "Metadata", "topics.metadata", 0, 13, 9),
    (4, "LeaderAndIsr", "cluster.controller_pushes", 7, 7, 4),
    (5, "StopReplica", "cluster.controller_pushes", 4, 4, 2),
    (6, "UpdateMetadata", "cluster.controller_pushes", 8, 8, 6),
    (7, "ControlledShutdown", "cluster.brokers", 3, 3, 3),
    (8, "OffsetCommit", "groups.committed_offsets", 2, 10, 8),
    (9, "OffsetFetch", "groups.committed_offsets", 1, 10, 6),
    (10, "FindCoordinator", "groups.find_coordinator", 0, 6, 3),
    (11, "JoinGroup", "groups.classic_group", 0, 9, 6),
    (12, "Heartbeat", "groups.classic_group", 0, 4, 4),
    (13, "LeaveGroup", "groups.classic_group", 0, 5, 4),
    (14, "SyncGroup", "groups.classic_group", 0, 5, 4),
    (15, "DescribeGroups", "groups.group_admin", 0, 6, 5),
    (16, "ListGroups", "groups.group_admin", 0, 5, 3),
    (17, "SaslHandshake", "security.sasl", 0, 1, None),
    (18, "ApiVersions", "cluster.features", 0, 4, 3),
    (19, "CreateTopics", "topics.topic_changes", 2, 7, 5),
    (20, "DeleteTopics", "topics.topic_changes", 1, 6, 4),
    (21, "DeleteRecords", "records.offsets", 0, 2, 2),
    (22, "InitProducerId", "transactions.transaction_requests", 0, 5, 2),
    (23, "OffsetForLeaderEpoch", "records.offsets", 2, 4, 4),
    (24, "AddPartitionsToTxn", "transactions.transaction_requests", 0, 5, 3),
    (25, "AddOffsetsToTxn", "transactions.transaction_requests", 0, 4, 3),
    (26, "EndTxn", "transactions.transaction_requests", 0, 5, 3),
    (27, "WriteTxnMarkers", "transactions.write_txn_markers", 1, 2, 1),
    (28, "TxnOffsetCommit", "transactions.transaction_requests", 0, 5, 3),
    (29, "DescribeAcls", "security.acls", 1, 3, 2),
    (30, "CreateAcls", "security.acls", 1, 3, 2),
    (31, "DeleteAcls", "security.acls", 1, 3, 2),
    (32, "DescribeConfigs", "configs.describe_configs", 1, 4, 4),
    (33, "AlterConfigs", "configs.alter_configs", 0, 2, 2),
    (34, "AlterReplicaLogDirs", "cluster.log_dirs", 1, 2, 2),
    (35, "DescribeLogDirs", "cluster.log_dirs", 1, 5, 2),
    (36, "SaslAuthenticate", "security.sasl", 0, 2, 2),
    (37, "CreatePartitions", "topics.topic_changes", 0, 3, 2),
    (38, "CreateDelegationToken", "security.delegation_tokens", 1, 3, 2),
    (39, "RenewDelegationToken", "security.delegation_tokens", 1, 2, 2),
    (40, "ExpireDelegationToken", "security.delegation_tokens", 1, 2, 2),
    (41, "DescribeDelegationToken", "security.delegation_tokens", 1, 3, 2),
    (42, "DeleteGroups", "groups.group_admin", 0, 2, 2),
    (43, "ElectLeaders", "topics.reassignments", 0, 2, 2),
    (44, "IncrementalAlterConfigs", "configs.incremental_alter_configs", 0, 1, 1),
    (45, "AlterPartitionReassignments", "topics.reassignments", 0, 1, 0),
    (46, "ListPartitionReassignments", "topics.reassignments", 0, 0, 0),
    (47, "OffsetDelete", "groups.committed_offsets", 0, 0, None),
    (48, "DescribeClientQuotas", "cluster.client_quotas", 0, 1, 1),
    (49, "AlterClientQuotas", "cluster.client_quotas", 0, 1, 1),
    (50, "DescribeUserScramCredentials", "security.scram_credentials", 0, 0, 0),
    (51, "AlterUserScramCredentials", "security.scram_credentials", 0, 0, 0),
    (52, "Vote", "cluster.quorum_elections", 0, 2, 0),
    (53, "BeginQuorumEpoch", "cluster.quorum_elections", 0, 1, 1),
    (54, "EndQuorumEpoch", "cluster.quorum_elections", 0, 1, 1),
    (55, "DescribeQuorum", "cluster.describe_quorum", 0, 2, 0),
    (56, "AlterPartition", "cluster.alter_partition", 2, 3, 0),
    (57, "UpdateFeatures", "cluster.features", 0, 2, 0),
    (59, "FetchSnapshot", "cluster.fetch_snapshot", 0, 1, 0),
    (60, "DescribeCluster", "cluster.brokers", 0, 2, 0),
    (61, "DescribeProducers", "transactions.transaction_admin", 0, 0, 0),
    (64, "UnregisterBroker", "cluster.brokers", 0, 0, 0),
    (65, "DescribeTransactions", "transactions.transaction_admin", 0, 0, 0),
    (66, "ListTransactions", "transactions.transaction_admin", 0, 2, 0),
    (68, "ConsumerGroupHeartbeat", "groups.consumer_group_heartbeat", 0, 1, 0),
    (69, "ConsumerGroupDescribe", "groups.consumer_group_describe", 0, 1, 0),
    (74, "ListConfigResources", "configs.describe_configs", 0, 1, 0),
    (75, "DescribeTopicPartitions", "topics.metadata", 0, 0, 0),
    (80, "AddRaftVoter", "cluster.quorum_voters", 0, 1, 0),
    (81, "RemoveRaftVoter", "cluster.quorum_voters", 0, 0, 0),
    (82, "UpdateRaftVoter", "cluster.quorum_voters", 0, 0, 0),
    (10000, "BrokerReport", "cluster.brokers", 0, 0, 0),
    (10001, "MetadataWrite", "cluster.metadata_write", 0, 0, 0),
)


SCHEMAS: Mapping[int, Schema] = {row[0]: Schema(*row) for row in _TABLE}
"""Every API by its key, in the order of the keys."""
