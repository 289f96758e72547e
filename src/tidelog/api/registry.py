"""The table of every API served: who may call it, what an authorizer is asked for, and which function handles it. The
API's name, its versions and the module of its messages are in `tidelog.wire.messages`.

Dispatch, ApiVersions, the reference page and the fuzz targets derive from it. A handler's module is imported at its
first request, so that a broker starts quickly.
"""

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal, NamedTuple

from tidelog.wire.messages import SCHEMAS

Caller = Literal["anyone", "broker", "tidelog", "sasl", "secured", "features", "quorum"]


class Api(NamedTuple):
    """`low`..`high` are decoded and served; `advertised_low` is what ApiVersions reports (KAFKA-18659 for Produce).

    `caller` "broker" is served and advertised on the inter-broker listener only, "tidelog" advertised to Tidelog's own
    clients only: others would not know what it is. "sasl" is served to anyone and advertised by brokers with a SASL
    listener, "secured" also by brokers with an authorizer, "features" by brokers with features whose level may change
    (all but some simulated ones). "quorum" is served and advertised where the metadata is in a quorum. `operation` is
    what an authorizer is asked for. `module` is below `tidelog.api`, and `function` in it.
    """

    key: int
    name: str
    low: int
    high: int
    module: str
    function: str
    caller: Caller
    operation: str
    advertised_low: int


def _api(
    key: int,
    operation: str,
    handler: str = "",
    *,
    caller: Caller = "anyone",
    low: int | None = None,
    advertised_low: int | None = None,
) -> Api:
    """`handler` is `module:function`; by default `handle` in the module with the API's name, in the family of its
    messages. Name and versions are those of the messages; `low` where older ones are only decoded."""
    schema = SCHEMAS[key]
    family = schema.module.partition(".")[0]
    module, _, function = (handler or f"{family}.{_snake_case(schema.name)}:handle").partition(":")
    first = schema.min_version if low is None else low
    advertised = first if advertised_low is None else advertised_low
    return Api(key, schema.name, first, schema.max_version, module, function, caller, operation, advertised)


def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


_TO_CONTROLLER = "to_controller:submit"
_QUORUM, _TO_QUORUM = "cluster.metadata_quorum:submit", "cluster.metadata_quorum:forward"
_ACLS = "security.acls:submit"
_PUSHES = "cluster.controller_pushes"
_CONFIGS = "configs.alter_configs"
_GROUPS = "groups.group_requests"
_TOKENS = "security.delegation_tokens"
_TOPICS = "topics.mutations"
_TRANSACTIONS = "transactions.transaction_requests"

APIS: dict[int, Api] = {
    api.key: api
    for api in (
        _api(0, "Topic WRITE", advertised_low=0),  # Produce
        _api(1, "Topic READ, or Cluster CLUSTER_ACTION for a replica"),  # Fetch
        _api(2, "Topic DESCRIBE"),  # ListOffsets
        _api(3, "Topic DESCRIBE"),  # Metadata
        _api(4, "Cluster CLUSTER_ACTION", f"{_PUSHES}:leader_and_isr", caller="broker"),  # LeaderAndIsr
        _api(5, "Cluster CLUSTER_ACTION", f"{_PUSHES}:stop_replica", caller="broker"),  # StopReplica
        _api(6, "Cluster CLUSTER_ACTION", f"{_PUSHES}:update_metadata", caller="broker"),  # UpdateMetadata
        _api(7, "Cluster CLUSTER_ACTION", _TO_CONTROLLER, caller="broker"),  # ControlledShutdown
        _api(8, "Group READ, Topic READ"),  # OffsetCommit
        _api(9, "Group DESCRIBE, Topic DESCRIBE"),  # OffsetFetch
        _api(10, "Group DESCRIBE"),  # FindCoordinator
        _api(11, "Group READ", f"{_GROUPS}:join_group"),  # JoinGroup
        _api(12, "Group READ", f"{_GROUPS}:request_now"),  # Heartbeat
        _api(13, "Group READ", f"{_GROUPS}:leave_group"),  # LeaveGroup
        _api(14, "Group READ", f"{_GROUPS}:sync_group"),  # SyncGroup
        _api(15, "Group DESCRIBE", f"{_GROUPS}:describe_groups"),  # DescribeGroups
        _api(16, "Cluster DESCRIBE, or Group DESCRIBE", f"{_GROUPS}:submit"),  # ListGroups
        _api(17, "none", "security.sasl:handshake", caller="sasl"),  # SaslHandshake
        _api(18, "none"),  # ApiVersions
        _api(19, "Cluster CREATE, or Topic CREATE", f"{_TOPICS}:create_topics"),  # CreateTopics
        _api(20, "Topic DELETE", f"{_TOPICS}:delete_topics"),  # DeleteTopics
        _api(21, "Topic DELETE"),  # DeleteRecords
        _api(22, "TransactionalId or Topic WRITE, or Cluster IDEMPOTENT_WRITE"),  # InitProducerId
        _api(23, "Topic DESCRIBE"),  # OffsetForLeaderEpoch
        _api(24, "TransactionalId WRITE, Topic WRITE"),  # AddPartitionsToTxn
        _api(25, "TransactionalId WRITE, Group READ", f"{_TRANSACTIONS}:add_offsets_to_txn"),  # AddOffsetsToTxn
        _api(26, "TransactionalId WRITE", f"{_TRANSACTIONS}:end_txn"),  # EndTxn
        _api(27, "Cluster ALTER or CLUSTER_ACTION"),  # WriteTxnMarkers
        _api(28, "TransactionalId WRITE, Group and Topic READ"),  # TxnOffsetCommit
        _api(29, "Cluster DESCRIBE", _ACLS, caller="secured"),  # DescribeAcls
        _api(30, "Cluster ALTER", _ACLS, caller="secured"),  # CreateAcls
        _api(31, "Cluster ALTER", _ACLS, caller="secured"),  # DeleteAcls
        _api(32, "Topic or Cluster DESCRIBE_CONFIGS"),  # DescribeConfigs
        _api(33, "Topic or Cluster ALTER_CONFIGS", f"{_CONFIGS}:alter_configs"),  # AlterConfigs
        _api(34, "Cluster ALTER"),  # AlterReplicaLogDirs
        _api(35, "Cluster DESCRIBE"),  # DescribeLogDirs
        _api(36, "none", "security.sasl:authenticate", caller="sasl"),  # SaslAuthenticate
        _api(37, "Topic ALTER", f"{_TOPICS}:create_partitions"),  # CreatePartitions
        _api(38, "User CREATE_TOKENS for another owner", f"{_TOKENS}:create", caller="sasl"),  # CreateDelegationToken
        _api(39, "none", f"{_TOKENS}:renew", caller="sasl"),  # RenewDelegationToken
        _api(40, "none", f"{_TOKENS}:expire", caller="sasl"),  # ExpireDelegationToken
        _api(41, "DelegationToken DESCRIBE", f"{_TOKENS}:describe", caller="sasl"),  # DescribeDelegationToken
        _api(42, "Group DELETE", f"{_GROUPS}:submit"),  # DeleteGroups
        _api(43, "Cluster ALTER", _TO_CONTROLLER),  # ElectLeaders
        _api(44, "Topic or Cluster ALTER_CONFIGS", f"{_CONFIGS}:incremental_alter_configs"),  # IncrementalAlterConfigs
        _api(45, "Cluster ALTER", _TO_CONTROLLER),  # AlterPartitionReassignments
        _api(46, "Cluster DESCRIBE", _TO_CONTROLLER),  # ListPartitionReassignments
        _api(47, "Group DELETE, Topic READ"),  # OffsetDelete
        _api(48, "Cluster DESCRIBE_CONFIGS"),  # DescribeClientQuotas
        _api(49, "Cluster ALTER_CONFIGS", _TO_CONTROLLER),  # AlterClientQuotas
        _api(50, "Cluster DESCRIBE", "security.scram_credentials:handle"),  # DescribeUserScramCredentials
        _api(51, "Cluster ALTER", _TO_CONTROLLER, caller="sasl"),  # AlterUserScramCredentials
        _api(55, "Cluster DESCRIBE", _TO_QUORUM, caller="quorum"),  # DescribeQuorum
        _api(56, "Cluster CLUSTER_ACTION", _TO_CONTROLLER, caller="broker", low=3),  # AlterPartition
        _api(57, "Cluster ALTER", _TO_CONTROLLER, caller="features"),  # UpdateFeatures
        _api(60, "none"),  # DescribeCluster
        _api(61, "Topic READ"),  # DescribeProducers
        _api(64, "Cluster ALTER", _TO_CONTROLLER),  # UnregisterBroker
        _api(65, "TransactionalId DESCRIBE", f"{_TRANSACTIONS}:describe_transactions"),  # DescribeTransactions
        _api(66, "TransactionalId DESCRIBE", f"{_TRANSACTIONS}:list_transactions"),  # ListTransactions
        _api(68, "Group READ, Topic DESCRIBE", f"{_GROUPS}:consumer_group_heartbeat"),  # ConsumerGroupHeartbeat
        _api(69, "Group DESCRIBE, Topic DESCRIBE", f"{_GROUPS}:consumer_group_describe"),  # ConsumerGroupDescribe
        _api(74, "Cluster DESCRIBE_CONFIGS", "configs.describe_configs:list_resources"),  # ListConfigResources
        _api(75, "Topic DESCRIBE"),  # DescribeTopicPartitions
        _api(80, "Cluster ALTER", _TO_QUORUM, caller="quorum"),  # AddRaftVoter
        _api(81, "Cluster ALTER", _TO_QUORUM, caller="quorum"),  # RemoveRaftVoter
        _api(10000, "Cluster DESCRIBE", caller="tidelog"),  # BrokerReport
    )
}


_FORWARDED = (19, 20, 29, 30, 31, 33, 37, 38, 39, 40, 41, 43, 44, 45, 46, 49, 51, 64)
"""What brokers forward to a controller that is no broker; as in Kafka, its listener takes it from others, too."""

CONTROLLER_APIS: dict[int, Api] = {
    api.key: api
    for api in (
        _api(1, "Cluster CLUSTER_ACTION", _QUORUM, low=18, advertised_low=18),  # Fetch, of the metadata log
        _api(17, "none", "security.sasl:handshake", caller="sasl"),  # SaslHandshake
        _api(18, "none"),  # ApiVersions
        _api(36, "none", "security.sasl:authenticate", caller="sasl"),  # SaslAuthenticate
        _api(52, "Cluster CLUSTER_ACTION", _QUORUM),  # Vote
        _api(53, "Cluster CLUSTER_ACTION", _QUORUM),  # BeginQuorumEpoch
        _api(54, "Cluster CLUSTER_ACTION", _QUORUM),  # EndQuorumEpoch
        _api(55, "Cluster DESCRIBE", _QUORUM),  # DescribeQuorum
        _api(57, "Cluster ALTER", _TO_CONTROLLER),  # UpdateFeatures
        _api(59, "Cluster CLUSTER_ACTION", _QUORUM),  # FetchSnapshot
        _api(60, "Cluster ALTER", "cluster.describe_cluster:controllers"),  # DescribeCluster
        _api(80, "Cluster ALTER", _QUORUM),  # AddRaftVoter
        _api(81, "Cluster ALTER", _QUORUM),  # RemoveRaftVoter
        _api(82, "Cluster CLUSTER_ACTION", _QUORUM),  # UpdateRaftVoter
        _api(10001, "Cluster CLUSTER_ACTION", _QUORUM),  # MetadataWrite
        _api(7, "Cluster CLUSTER_ACTION", _TO_CONTROLLER),  # ControlledShutdown
        _api(56, "Cluster CLUSTER_ACTION", _TO_CONTROLLER, low=3),  # AlterPartition
        *(APIS[key] for key in _FORWARDED),
    )
}
"""What is served on the listeners of controllers, and there only."""

OF_QUORUM = frozenset(key for key, api in CONTROLLER_APIS.items() if f"{api.module}:{api.function}" == _QUORUM)
"""What nodes and administrators request of the quorum itself there: nothing that a broker forwards for its client."""


def handler(api: Api) -> Callable[[Any, Any], Any]:
    """The function that answers the API's requests."""
    function: Callable[[Any, Any], Any] = getattr(import_module(f"tidelog.api.{api.module}"), api.function)
    return function
