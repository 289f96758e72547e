"""What the audit lines say of each administrative request, and that no secret is in them."""

from types import SimpleNamespace

import pytest

from tests.api.fake_context import add_topic, context, image
from tidelog.api import change_audit
from tidelog.api.change_audit import HIDDEN, changes
from tidelog.api.registry import APIS
from tidelog.wire.message import key_of
from tidelog.wire.messages.cluster.brokers import UnregisterBrokerRequest
from tidelog.wire.messages.cluster.client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tidelog.wire.messages.cluster.features import FeatureUpdateKey, UpdateFeaturesRequest
from tidelog.wire.messages.cluster.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tidelog.wire.messages.cluster.quorum_voters import AddRaftVoterRequest, Listener, RemoveRaftVoterRequest
from tidelog.wire.messages.configs.alter_configs import AlterableConfig as AlterableConfigOfAll
from tidelog.wire.messages.configs.alter_configs import AlterConfigsRequest, AlterConfigsResource
from tidelog.wire.messages.configs.incremental_alter_configs import AlterableConfig, IncrementalAlterConfigsRequest
from tidelog.wire.messages.configs.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.wire.messages.groups.group_admin import DeleteGroupsRequest
from tidelog.wire.messages.records.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.security.acls import AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest
from tidelog.wire.messages.security.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from tidelog.wire.messages.security.scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tidelog.wire.messages.topics.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from tidelog.wire.messages.topics.topic_changes import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

SECRET = "hunter2"


@pytest.fixture
def where():
    found = image()
    add_topic(found, "t", 0, 1)
    made = context(found)
    made.broker.topic_name = found.topic_names.get
    made.broker.levels = {}
    token = SimpleNamespace(id="abc", expires_ms=8)
    made.broker.tokens = SimpleNamespace(table=SimpleNamespace(by_hmac={SECRET.encode(): token}.get))
    return made


def altered(kind, name, *configs):
    listed = [AlterableConfig(name=each[0], config_operation=each[1], value=each[2]) for each in configs]
    return IncrementalAlterConfigsRequest(
        resources=[IncrementalResource(resource_type=kind, resource_name=name, configs=listed)]
    )


def quota(user, **values):
    ops = [OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()]
    return AlterClientQuotasRequest(
        entries=[EntryData(entity=[EntityData(entity_type="user", entity_name=user)], ops=ops)]
    )


CASES = [
    (
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name="new",
                    num_partitions=3,
                    replication_factor=2,
                    configs=[
                        CreatableTopicConfig(name="retention.ms", value="1"),
                        CreatableTopicConfig(name="ssl.key.password", value=SECRET),
                    ],
                )
            ]
        ),
        [
            (
                "Topic:new",
                None,
                {"partitions": 3, "replication_factor": 2, "retention.ms": "1", "ssl.key.password": HIDDEN},
            )
        ],
    ),
    (DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), [("Topic:t", {"partitions": 2}, None)]),
    (DeleteTopicsRequest(topic_names=["t"]), [("Topic:t", {"partitions": 2}, None)]),
    (
        DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=b"t...............")]),
        [("Topic:t", {"partitions": 2}, None)],
    ),
    (
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=5)]),
        [("Topic:t", {"partitions": 2}, {"partitions": 5})],
    ),
    (
        DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=1, offset=9)])]
        ),
        [("Topic:t-1", None, {"start_offset": 9})],
    ),
    (
        AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[2, 1])])]
        ),
        [("Topic:t-0", {"replicas": [0, 1, 2]}, {"replicas": [2, 1]})],
    ),
    (
        altered(4, "0", ("ssl.keystore.password", 0, SECRET), ("log.retention.ms", 0, "5"), ("no.such", 0, SECRET)),
        [("Broker:0", {}, {"ssl.keystore.password": HIDDEN, "log.retention.ms": "5", "no.such": HIDDEN})],
    ),
    (
        altered(2, "t", ("retention.ms", 1, None), ("cleanup.policy", 2, "x"), ("cleanup.policy.", 3, "y")),
        [("Topic:t", {}, {"retention.ms": None, "cleanup.policy": "+x", "cleanup.policy.": HIDDEN})],
    ),
    (altered(2, "t", ("sasl.jaas.config", 0, SECRET)), [("Topic:t", {}, {"sasl.jaas.config": HIDDEN})]),
    (
        altered(8, "0", ("access", 0, "DEBUG"), ("sasl.jaas.config", 0, SECRET)),
        [("BrokerLogger:0", {}, {"access": "DEBUG", "sasl.jaas.config": HIDDEN})],
    ),
    (
        altered(32, "g", ("consumer.session.timeout.ms", 0, "5"), ("password", 0, SECRET)),
        [("Group:g", {}, {"consumer.session.timeout.ms": "5", "password": HIDDEN})],
    ),
    (
        AlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=4,
                    resource_name="",
                    configs=[AlterableConfigOfAll(name=name, value=SECRET) for name in ("ssl.key.password", "x")],
                )
            ]
        ),
        [("Broker:", {}, {"ssl.key.password": HIDDEN, "x": HIDDEN})],
    ),
    (DeleteGroupsRequest(groups_names=["g"]), [("Group:g", "exists", None)]),
    (ElectLeadersRequest(election_type=1, topic_partitions=None), [("Topic:*", None, {"election": "unclean"})]),
    (
        ElectLeadersRequest(election_type=0, topic_partitions=[TopicPartitions(topic="t", partitions=[1])]),
        [("Topic:t-1", None, {"election": "preferred"})],
    ),
    (
        OffsetDeleteRequest(
            group_id="g",
            topics=[
                OffsetDeleteRequestTopic(
                    name="t", partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in (0, 2)]
                )
            ],
        ),
        [("Group:g", {"offsets of t": [0, 2]}, None)],
    ),
    (
        AlterReplicaLogDirsRequest(
            dirs=[AlterReplicaLogDir(path="/b", topics=[AlterReplicaLogDirTopic(name="t", partitions=[0])])]
        ),
        [("Topic:t-0", None, {"log_dir": "/b"})],
    ),
    (UnregisterBrokerRequest(broker_id=7), [("Broker:7", "registered", None)]),
    (
        AddRaftVoterRequest(
            voter_id=7, voter_directory_id=bytes(16), listeners=[Listener(name="CONTROLLER", host="h", port=9)]
        ),
        [("Voter:7", None, {"directory": "AAAAAAAAAAAAAAAAAAAAAA", "listeners": ["CONTROLLER://h:9"]})],
    ),
    (
        RemoveRaftVoterRequest(voter_id=7, voter_directory_id=bytes(16)),
        [("Voter:7", {"directory": "AAAAAAAAAAAAAAAAAAAAAA"}, None)],
    ),
    (
        UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature="f", max_version_level=2)]),
        [("Feature:f", None, 2)],
    ),
    (
        DeleteAclsRequest(filters=[DeleteAclsFilter(resource_type_filter=2, resource_name_filter="t", operation=1)]),
        [
            (
                "Acl",
                {
                    "resource_type_filter": 2,
                    "resource_name_filter": "t",
                    "pattern_type_filter": 3,
                    "principal_filter": "",
                    "host_filter": "",
                    "operation": 1,
                    "permission_type": 0,
                },
                None,
            )
        ],
    ),
    (
        CreateDelegationTokenRequest(
            owner_principal_type="User",
            owner_principal_name="a",
            renewers=[CreatableRenewers(principal_type="User", principal_name="b")],
            max_lifetime_ms=9,
        ),
        [("DelegationToken", None, {"owner": "User:a", "renewers": ["User:b"], "max_lifetime_ms": 9})],
    ),
    (
        RenewDelegationTokenRequest(hmac=SECRET.encode(), renew_period_ms=7),
        [("DelegationToken:abc", {"expires_ms": 8}, {"renew_period_ms": 7})],
    ),
    (
        ExpireDelegationTokenRequest(hmac=b"another", expiry_time_period_ms=-1),
        [("DelegationToken:unknown", None, {"expiry_time_period_ms": -1})],
    ),
    (
        CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
                )
            ]
        ),
        [
            (
                "Acl",
                None,
                {
                    "resource_type": 2,
                    "resource_name": "t",
                    "resource_pattern_type": 3,
                    "principal": "User:a",
                    "host": "*",
                    "operation": 3,
                    "permission_type": 3,
                },
            )
        ],
    ),
    (
        quota("u", producer_byte_rate=5.0),
        [("Quota:users/u", {"producer_byte_rate": None}, {"producer_byte_rate": 5.0})],
    ),
    (
        AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name="u", mechanism=1)],
            upsertions=[
                ScramCredentialUpsertion(
                    name="v", mechanism=2, iterations=4096, salt=SECRET.encode(), salted_password=SECRET.encode()
                )
            ],
        ),
        [
            ("User:u", {"SCRAM-SHA-256": None}, {"SCRAM-SHA-256": None}),
            ("User:v", {"SCRAM-SHA-512": None}, {"SCRAM-SHA-512": HIDDEN}),
        ],
    ),
]


@pytest.mark.parametrize(("request_", "expected"), CASES, ids=lambda each: type(each).__name__)
def test_what_changes(where, request_, expected):
    found = changes(request_, where)
    assert [tuple(change) for change in found] == expected
    assert SECRET not in repr(found)


def test_what_only_validates_changes_nothing(where):
    assert changes(CreateTopicsRequest(topics=[CreatableTopic(name="new")], validate_only=True), where) == []


def test_a_request_with_many_changes_is_described_in_part(where):
    many = [CreatableTopic(name=f"t{number}") for number in range(1000)]
    assert len(changes(CreateTopicsRequest(topics=many), where)) == change_audit.MOST


CHANGES_NOTHING = {
    *(2, 3, 9, 10, 15, 16, 17, 18, 23, 29, 32, 35, 36, 41, 46, 48, 50, 55, 60, 61, 65, 66, 69, 74, 75, 10000),
}
"""APIs that only answer."""
DATA = {0, 1, 8, 11, 12, 13, 14, 22, 24, 25, 26, 28, 68}
"""What producers, consumers and members of groups do with what is theirs."""
AMONG_BROKERS = {4, 5, 6, 7, 27, 56}


def test_every_api_is_described_or_is_known_to_need_no_description():
    """An API that changes something for others belongs into `change_audit`, with a case above."""
    known = CHANGES_NOTHING | DATA | AMONG_BROKERS
    described = set(change_audit._CHANGES)
    assert APIS.keys() - known - described == set()
    assert known & described == set()


def test_every_description_has_a_case():
    cases = {key_of(request) for request, _ in CASES}
    assert (set(change_audit._CHANGES) & APIS.keys()) - cases == set()


def test_quotas_and_credentials_have_what_was_before(where):
    where.broker.configs = SimpleNamespace(
        quota={"users/u": ({"user": "u"}, {"producer_byte_rate": 3.0})}.get,
        user=lambda _name: {"SCRAM-SHA-256": SECRET},
    )
    assert changes(quota("u", producer_byte_rate=5.0), where) == [
        ("Quota:users/u", {"producer_byte_rate": 3.0}, {"producer_byte_rate": 5.0})
    ]
    request = AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="u", mechanism=1)])
    assert changes(request, where) == [("User:u", {"SCRAM-SHA-256": HIDDEN}, {"SCRAM-SHA-256": None})]
