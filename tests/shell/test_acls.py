"""A cluster with an authorizer: brokers that log in to each other, clients with ACLs, and brokers that refuse to start."""

from contextlib import contextmanager

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.shell.authority import port_of
from tests.shell.test_sasl import LOGIN, Wire, client
from tests.waiting import wait_for
from tidelog.config.families.security_options import STANDARD_AUTHORIZER
from tidelog.errors import ErrorCode, InvalidOption
from tidelog.testing import Cluster
from tidelog.wire.messages.records.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.messages.security.acls import DescribeAclsRequest
from tidelog.wire.messages.security.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.records import Record, build

USERS = ("brokers", "admin", "alice", "bob")
PLAIN = LOGIN.format(
    "plain", "Plain", " ".join(['username="brokers" password="p"', *(f'user_{name}="p"' for name in USERS)])
)
SECURED = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN,
    "listener.name.replication.plain.sasl.jaas.config": PLAIN,
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:brokers;User:admin",
}


@pytest.fixture(scope="module", params=["sqlite", "quorum"])
def cluster(request):
    """In a quorum, controllers have no TLS here, so brokers are ANONYMOUS to them."""
    own = {"super.users": "User:brokers;User:admin;User:ANONYMOUS"} if request.param == "quorum" else {}
    with Cluster(brokers=2, options=SECURED | own, metadata=request.param) as running:
        create_topic(running, "t", 2)
        for broker in running.brokers:
            with logged_in(broker, "admin") as wire:
                wait_for(lambda: codes_of_records(wire) == LED, f"that {broker} leads a partition")
        yield running


def admin(cluster, user="admin", broker=0):
    return AdminClient(client(port_of(cluster.brokers[broker], "SASL_PLAINTEXT"), user=user, password="p"))


def create_topic(cluster, name, partitions):
    own = admin(cluster)
    own.create_topics([NewTopic(name, partitions, 2)])[name].result(30)


def rule(operation, name="t", kind=ResourceType.TOPIC, user="alice", pattern=ResourcePatternType.LITERAL):
    operation = AclOperation[operation]
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def grant(cluster, *rules, broker=0):
    own = admin(cluster, broker=broker)
    for future in own.create_acls(list(rules)).values():
        future.result(30)


def withdraw(cluster, user, broker=0):
    every = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        f"User:{user}",
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    own = admin(cluster, broker=broker)
    (future,) = own.delete_acls([every]).values()
    return future.result(30)


def logged_in(broker, user):
    return logged_in_at(port_of(broker, "SASL_PLAINTEXT"), user)


@contextmanager
def logged_in_at(port, user):
    with Wire(port) as wire:
        wire.ask(17, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        token = SaslAuthenticateRequest(auth_bytes=f"\0{user}\0p".encode())
        assert wire.ask(36, 2, token).error_code == 0
        yield wire


LED = {0, ErrorCode.NOT_LEADER_OR_FOLLOWER}
"""Each of the two brokers leads one of the partitions."""


def codes_of_records(wire):
    """How a record for each partition is answered."""
    data = [PartitionProduceData(index=index, records=build([Record(0, 0, b"k", b"v")])) for index in (0, 1)]
    topics = [TopicProduceData(name="t", partition_data=data)]
    (topic,) = wire.ask(0, 12, ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics)).responses
    return {partition.error_code for partition in topic.partition_responses}


def sends(wire):
    """Whether records are accepted."""
    codes = codes_of_records(wire)
    assert codes in ({ErrorCode.TOPIC_AUTHORIZATION_FAILED}, LED)
    return codes == LED


def test_rights_come_and_go_on_open_connections_of_every_broker(cluster):
    """Whichever broker is asked: one of them is the controller, and each leads a partition."""
    with logged_in(cluster.brokers[0], "alice") as first, logged_in(cluster.brokers[1], "alice") as second:
        for broker in (0, 1):
            assert not sends(first)
            assert not sends(second)
            grant(cluster, rule("WRITE"), broker=broker)
            wait_for(lambda: sends(first) and sends(second), "that alice may write")
            assert len(withdraw(cluster, "alice", broker=broker)) == 1
            wait_for(lambda: not sends(first) and not sends(second), "that alice may not write any more")


def test_what_was_created_is_described_by_every_broker_at_once(cluster):
    every = AclBindingFilter(
        ResourceType.TOPIC,
        "flights",
        ResourcePatternType.MATCH,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    rules = [rule("READ", "fli", user="carol", pattern=ResourcePatternType.PREFIXED), rule("WRITE", "*", user="carol")]
    grant(cluster, *rules)
    for broker in (0, 1):
        own = admin(cluster, broker=broker)
        assert set(own.describe_acls(every).result(30)) == set(rules)
        with logged_in(cluster.brokers[broker], "alice") as wire:
            request = DescribeAclsRequest(resource_type_filter=2, operation=1, permission_type=1)
            answer = wire.ask(29, 3, request)
            assert (answer.error_code, answer.resources) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
    withdraw(cluster, "carol")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"super.users": "User:admin"},
            r"super\.users: brokers connect to each other as User:brokers \(SASL_PLAINTEXT\)",
        ),
        ({"security.inter.broker.protocol": "PLAINTEXT"}, r"as User:ANONYMOUS \(PLAINTEXT\)"),
        ({"super.users": "admin"}, "super.users"),
        ({"authorizer.class.name": "org.example.Other"}, "authorizer.class.name"),
    ],
)
def test_brokers_that_could_not_work_together_do_not_start(tmp_path, options, problem):
    with pytest.raises(InvalidOption, match=problem), Cluster(1, folder=tmp_path, options={**SECURED, **options}):
        pass


def test_an_acl_lets_brokers_work_together_too(tmp_path):
    with Cluster(1, folder=tmp_path, options=SECURED) as cluster:
        grant(cluster, rule("CLUSTER_ACTION", "kafka-cluster", ResourceType.BROKER, "brokers"))
    with Cluster(2, folder=tmp_path, options={**SECURED, "super.users": "User:admin"}) as cluster:
        create_topic(cluster, "u", 2)
        with logged_in(cluster.brokers[1], "admin") as wire:
            request = MetadataRequest(topics=[MetadataRequestTopic(name="u")])

            def in_sync():
                return [len(each.isr_nodes) for each in wire.ask(3, 12, request).topics[0].partitions]

            wait_for(lambda: in_sync() == [2, 2], "that both brokers hold both partitions")
