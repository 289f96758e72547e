"""For each API that clients may send: the rights that it needs, and a minimal valid request.

A right is "TYPE:NAME OPERATION". `needs` are alternatives; all rights of one of them are needed. Resources have names of
their own where a request changes what the next one would find.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.compatibility.differential.batches import batch
from tests.compatibility.differential.group_requests import (
    commit,
    fetch_groups,
    join,
    leave,
    offset_delete,
    sync,
)
from tests.compatibility.differential.groups_script import await_coordinator
from tests.compatibility.differential.side import Side
from tests.compatibility.differential.transactions_script import adding, await_id, batched, begun, ending, init
from tidelog.wire.records import TRANSACTIONAL

CLUSTER = "Cluster:kafka-cluster"
TOPIC, BROKER, GROUP = 2, 4, 32
"""What DescribeConfigs and AlterConfigs call resources."""
MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"
STRANGER = 1 << 40


@dataclass
class Ground:
    """What the super user made on one side: topics, and a producer in a transaction."""

    side: Side
    ids: dict[str, bytes] = field(default_factory=dict)
    producer: tuple[int, int] = (0, 0)


class Row(NamedTuple):
    """`hides`: what is not allowed is left out of the answer, which has no code for it. `once`: only the first of its
    needs is tried, because the second would find what the first has changed."""

    api: str
    needs: tuple[frozenset[str], ...]
    values: Callable[[Ground], dict[str, Any]]
    version: int | None = None
    label: str = ""
    hides: bool = False
    once: bool = False

    @property
    def name(self) -> str:
        return f"{self.api} {self.label}".strip()


def row(
    api: str, needs: str, values: Callable[[Ground], dict[str, Any]] | dict[str, Any], label: str = "", **more: Any
) -> Row:
    """`needs`: rights joined with " + ", alternatives with " | "."""
    alternatives = tuple(frozenset(each.split(" + ")) for each in needs.split(" | "))
    return Row(api, alternatives, values if callable(values) else lambda _: values, label=label, **more)


def prepared(side: Side) -> Ground:
    ground = Ground(side)
    for name in ("t", "gone"):
        ground.ids[name] = side.topic(name)
    await_coordinator(side, "g")
    for name in ("x", "plain"):
        await_id(side, name)
    ground.producer = begun(side, "x")
    return ground


def _produce(ground: Ground, name: str | None = None) -> dict[str, Any]:
    who, epoch = ground.producer
    transactional = {"attributes": TRANSACTIONAL, "producer_id": who, "producer_epoch": epoch, "base_sequence": 0}
    records = batch(b"v", **(transactional if name else {}))
    data = [{"name": "t", "topic_id": ground.ids["t"], "partition_data": [{"index": 0, "records": records}]}]
    return {"transactional_id": name, "acks": 1, "timeout_ms": 10_000, "topic_data": data}


def _fetch(ground: Ground) -> dict[str, Any]:
    one = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": -1}
    topics = [{"topic": "t", "topic_id": ground.ids["t"], "partitions": [one]}]
    return {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1000, "session_epoch": -1, "topics": topics}


def _partition(**fields: Any) -> dict[str, Any]:
    """The topic t with one partition, which has these fields."""
    return {"topics": [{"name": "t", "partitions": [fields]}]}


def _transaction(ground: Ground, **more: Any) -> dict[str, Any]:
    producer_id, epoch = ground.producer
    return {"transactional_id": "x", "producer_id": producer_id, "producer_epoch": epoch, **more}


def _offsets_in_transaction(ground: Ground) -> dict[str, Any]:
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}]}]
    return _transaction(ground, group_id="g", topics=topics)


def _markers(_ground: Ground) -> dict[str, Any]:
    topics = [{"name": "t", "partition_indexes": [0]}]
    marker = {"producer_id": STRANGER, "producer_epoch": 0, "transaction_result": True, "topics": topics}
    return {"markers": [marker]}


def _configs(kind: int, name: str, option: str) -> dict[str, Any]:
    return {"resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": [option]}]}


def _alter(kind: int, name: str, option: str, value: str) -> dict[str, Any]:
    configs = [{"name": option, "value": value}]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    return {"resources": [resource], "validate_only": True}


_ACL = {"resource_type": 2, "resource_name": "z", "resource_pattern_type": 3, "principal": "User:zoe", "host": "*"}
_ACLS = {"resource_type_filter": 2, "resource_name_filter": "z", "pattern_type_filter": 3}
_ACLS |= {"principal_filter": "User:zoe", "host_filter": None, "operation": 1, "permission_type": 1}
_EPOCH = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
_QUOTA = {
    "entity": [{"entity_type": "user", "entity_name": "zoe"}],
    "ops": [{"key": "producer_byte_rate", "value": 1e6, "remove": False}],
}

ROWS = (
    row("Produce", "Topic:t WRITE", _produce),
    row(
        "Produce",
        "TransactionalId:x WRITE + Topic:t WRITE",
        lambda ground: _produce(ground, "x"),
        "in a transaction",
        version=12,
    ),
    row("Fetch", "Topic:t READ", _fetch),
    row("ListOffsets", "Topic:t DESCRIBE", {"replica_id": -1, **_partition(partition_index=0, timestamp=-1)}),
    row("Metadata", "Topic:t DESCRIBE", {"topics": [{"name": "t"}], "allow_auto_topic_creation": False}),
    row("Metadata", "Topic:t DESCRIBE", {"topics": None, "allow_auto_topic_creation": False}, "of all", hides=True),
    row(
        "Metadata",
        "Topic:made DESCRIBE + Topic:made CREATE",
        {"topics": [{"name": "made"}], "allow_auto_topic_creation": True},
        "that creates by the topic",
    ),
    row(
        "Metadata",
        f"Topic:also DESCRIBE + {CLUSTER} CREATE | Topic:also DESCRIBE + Topic:also CREATE",
        {"topics": [{"name": "also"}], "allow_auto_topic_creation": True},
        "that creates by the cluster",
        once=True,
    ),
    row("OffsetCommit", "Group:g READ + Topic:t READ", lambda g: commit(g.ids, "g", {"t": {0: 0}})),
    row("OffsetFetch", "Group:g DESCRIBE + Topic:t DESCRIBE", lambda g: fetch_groups(g.ids, {"g": {"t": [0]}})),
    row("FindCoordinator", "Group:g DESCRIBE", {"key_type": 0, "coordinator_keys": ["g"]}, "of a group"),
    row("FindCoordinator", "TransactionalId:x DESCRIBE", {"key_type": 1, "coordinator_keys": ["x"]}, "of an id"),
    row("JoinGroup", "Group:joined READ", join("joined")),
    row("Heartbeat", "Group:g READ", {"group_id": "g", "generation_id": 1, "member_id": "nobody"}),
    row("LeaveGroup", "Group:g READ", leave("g", ("nobody", None))),
    row("SyncGroup", "Group:g READ", sync("g", "nobody", 1, kind="consumer", protocol="range")),
    row("DescribeGroups", "Group:g DESCRIBE", {"groups": ["g"]}),
    row("ListGroups", f"{CLUSTER} DESCRIBE | Group:g DESCRIBE", {}, hides=True),
    row(
        "CreateTopics",
        f"{CLUSTER} CREATE | Topic:new CREATE",
        {"topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}], "validate_only": True},
    ),
    row("DeleteTopics", "Topic:gone DELETE", {"topics": [{"name": "gone"}], "timeout_ms": 20_000}),
    row("DeleteRecords", "Topic:t DELETE", _partition(partition_index=0, offset=0)),
    row("InitProducerId", "TransactionalId:plain WRITE", init("plain"), "of an id"),
    row("InitProducerId", f"{CLUSTER} IDEMPOTENT_WRITE | Topic:t WRITE", init(None)),
    row(
        "OffsetForLeaderEpoch",
        f"Topic:t DESCRIBE | {CLUSTER} CLUSTER_ACTION",
        {"replica_id": -1, "topics": [{"topic": "t", "partitions": [_EPOCH]}]},
    ),
    row(
        "AddPartitionsToTxn",
        "TransactionalId:x WRITE + Topic:t WRITE",
        lambda g: adding("x", g.producer, {"t": [0]}),
        version=3,
    ),
    row(
        "AddPartitionsToTxn",
        f"{CLUSTER} CLUSTER_ACTION",
        lambda g: batched("x", g.producer, {"t": [0]}, verify=True),
        "of brokers",
    ),
    row("AddOffsetsToTxn", "TransactionalId:x WRITE + Group:g READ", lambda g: _transaction(g, group_id="g")),
    row("TxnOffsetCommit", "TransactionalId:x WRITE + Group:g READ + Topic:t READ", _offsets_in_transaction),
    row("EndTxn", "TransactionalId:x WRITE", lambda g: ending("x", g.producer, commit=True)),
    row("WriteTxnMarkers", f"{CLUSTER} ALTER | {CLUSTER} CLUSTER_ACTION", _markers),
    row("DescribeAcls", f"{CLUSTER} DESCRIBE", _ACLS),
    row("CreateAcls", f"{CLUSTER} ALTER", {"creations": [{**_ACL, "operation": 3, "permission_type": 3}]}),
    row("DeleteAcls", f"{CLUSTER} ALTER", {"filters": [_ACLS]}),
    row("DescribeConfigs", "Topic:t DESCRIBE_CONFIGS", _configs(TOPIC, "t", "retention.ms"), "of a topic"),
    row("DescribeConfigs", f"{CLUSTER} DESCRIBE_CONFIGS", _configs(BROKER, "0", "log.retention.ms"), "of a broker"),
    row(
        "DescribeConfigs",
        "Group:g DESCRIBE_CONFIGS",
        _configs(GROUP, "g", "consumer.session.timeout.ms"),
        "of a group",
    ),
    row("AlterConfigs", "Topic:t ALTER_CONFIGS", _alter(TOPIC, "t", "retention.ms", "5"), "of a topic"),
    row("AlterConfigs", f"{CLUSTER} ALTER_CONFIGS", _alter(BROKER, "0", "log.cleaner.threads", "2"), "of a broker"),
    row("IncrementalAlterConfigs", "Topic:t ALTER_CONFIGS", _alter(TOPIC, "t", "retention.ms", "5"), "of a topic"),
    row(
        "IncrementalAlterConfigs",
        f"{CLUSTER} ALTER_CONFIGS",
        _alter(BROKER, "", "log.retention.ms", "5"),
        "of brokers",
    ),
    row(
        "IncrementalAlterConfigs",
        "Group:g ALTER_CONFIGS",
        _alter(GROUP, "g", "consumer.session.timeout.ms", "50000"),
        "of a group",
    ),
    row(
        "AlterReplicaLogDirs",
        f"{CLUSTER} ALTER",
        {"dirs": [{"path": "/nowhere", "topics": [{"name": "t", "partitions": [0]}]}]},
    ),
    row("DescribeLogDirs", f"{CLUSTER} DESCRIBE", {"topics": []}),
    row(
        "CreatePartitions",
        "Topic:t ALTER",
        {"topics": [{"name": "t", "count": 2, "assignments": None}], "timeout_ms": 20_000, "validate_only": True},
    ),
    row("DeleteGroups", "Group:missing DELETE", {"groups_names": ["missing"]}),
    row(
        "ElectLeaders",
        f"{CLUSTER} ALTER",
        {"election_type": 0, "topic_partitions": [{"topic": "t", "partitions": [0]}], "timeout_ms": 20_000},
    ),
    row(
        "AlterPartitionReassignments",
        f"{CLUSTER} ALTER",
        {"timeout_ms": 20_000, "topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": None}]}]},
    ),
    row("ListPartitionReassignments", f"{CLUSTER} DESCRIBE", {"timeout_ms": 20_000, "topics": None}),
    row("OffsetDelete", "Group:g DELETE + Topic:t READ", offset_delete("g", t=[0])),
    row("DescribeClientQuotas", f"{CLUSTER} DESCRIBE_CONFIGS", {"components": [], "strict": False}),
    row("AlterClientQuotas", f"{CLUSTER} ALTER_CONFIGS", {"entries": [_QUOTA], "validate_only": True}),
    row("DescribeUserScramCredentials", f"{CLUSTER} DESCRIBE", {"users": [{"name": "nobody"}]}),
    row(
        "AlterUserScramCredentials",
        f"{CLUSTER} ALTER",
        {"deletions": [{"name": "nobody", "mechanism": 1}], "upsertions": []},
    ),
    row("DescribeProducers", "Topic:t READ", {"topics": [{"name": "t", "partition_indexes": [0]}]}),
    row("UnregisterBroker", f"{CLUSTER} ALTER", {"broker_id": 77}),
    row(
        "UpdateFeatures",
        f"{CLUSTER} ALTER",
        {
            "feature_updates": [
                {"feature": "eligible.leader.replicas.version", "max_version_level": 1, "upgrade_type": 1}
            ],
            "validate_only": True,
        },
    ),
    row("DescribeTransactions", "TransactionalId:x DESCRIBE", {"transactional_ids": ["x"]}),
    row("ListTransactions", "TransactionalId:x DESCRIBE", {}, hides=True),
    row(
        "ConsumerGroupHeartbeat",
        "Group:c READ + Topic:t DESCRIBE",
        {
            "group_id": "c",
            "member_id": MEMBER,
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": ["t"],
            "topic_partitions": [],
        },
    ),
    row("ConsumerGroupDescribe", "Group:c DESCRIBE + Topic:t DESCRIBE", {"group_ids": ["c"]}),
    row("ListConfigResources", f"{CLUSTER} DESCRIBE_CONFIGS", {"resource_types": []}),
    row("DescribeTopicPartitions", "Topic:t DESCRIBE", {"topics": [{"name": "t"}], "response_partition_limit": 100}),
    row(
        "DescribeTopicPartitions",
        "Topic:t DESCRIBE",
        {"topics": [], "response_partition_limit": 100},
        "of all",
        hides=True,
    ),
    row(
        "CreateDelegationToken",
        "User:User:bob CREATE_TOKENS",
        {"owner_principal_type": "User", "owner_principal_name": "bob", "renewers": [], "max_lifetime_ms": -1},
    ),
)

OPEN = frozenset(
    {
        "ApiVersions",
        "SaslHandshake",
        "SaslAuthenticate",
        "DescribeCluster",
        "RenewDelegationToken",
        "ExpireDelegationToken",
        "DescribeDelegationToken",
    }
)
"""Open to every client, or (tokens) decided by who owns what."""
