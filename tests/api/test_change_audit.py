"""What the audit lines say of each administrative request, and that no secret is in them."""

import pytest

from tests.api.fake_context import add_topic, context, image
from tidelog.api import change_audit
from tidelog.api.change_audit import HIDDEN, changes
from tidelog.api.registry import APIS
from tidelog.wire.messages.cluster.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tidelog.wire.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.messages.records.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.security.scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tidelog.wire.messages.topics.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.topics.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.wire.messages.topics.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tidelog.wire.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState

SECRET = "hunter2"


@pytest.fixture
def where():
    found = image()
    add_topic(found, "t", 0, 1)
    made = context(found)
    made.broker.topic_name = found.topic_names.get
    made.broker.levels = {}
    return made


def altered(kind, name, *configs):
    listed = [AlterableConfig(name=each[0], config_operation=each[1], value=each[2]) for each in configs]
    return IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=kind, resource_name=name, configs=listed)]
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
                    configs=[CreatableTopicConfig(name="retention.ms", value="1")],
                )
            ]
        ),
        [("Topic:new", None, {"partitions": 3, "replication_factor": 2, "retention.ms": "1"})],
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
        altered(2, "t", ("a", 1, None), ("b", 2, "x"), ("c", 3, "y")),
        [("Topic:t", {}, {"a": None, "b": "+x", "c": "-y"})],
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


def test_every_api_whose_operation_changes_something_is_described():
    words = {"CREATE", "ALTER", "DELETE", "ALTER_CONFIGS"}
    changing = {key for key, api in APIS.items() if words & set(api.operation.replace(",", " ").split())}
    assert changing - set(change_audit._CHANGES) == {27}, "markers are written by brokers"
