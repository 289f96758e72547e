"""Clients with ACLs on one broker: what they may not touch is refused, hidden and never created, and the rest is served."""

import pytest

from tests.node.one_broker import CLIENT, TOPIC, TOPIC_ID, OneBroker, values
from tidelog.config.families.security_options import STANDARD_AUTHORIZER
from tidelog.controller import acl_tree
from tidelog.errors import ErrorCode
from tidelog.node.event_log import LINES_OF_ONE
from tidelog.ports import Children, Create, Read, Write
from tidelog.security.acls import (
    Acl,
    AclIndex,
    AclOperation,
    Binding,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tidelog.wire.messages.cluster.controller_pushes import UpdateMetadataPartitionState, UpdateMetadataTopicState
from tidelog.wire.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tidelog.wire.messages.groups.group_admin import ListGroupsRequest
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tidelog.wire.messages.records.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.messages.security.acls import DescribeAclsRequest
from tidelog.wire.messages.topics.metadata import (
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    TopicRequest,
)
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreateTopicsRequest

ALICE, OTHER_BROKER = 7, 8
SECRET, SECRET_ID = "secret", b"topic-id-secret."
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def rule(operation, name=TOPIC, kind=ResourceType.TOPIC):
    pattern = ResourcePattern(kind, name, PatternType.LITERAL)
    return Binding(pattern, Acl("User:alice", "*", AclOperation[operation], Permission.ALLOW))


def topic(name, topic_id):
    partition = UpdateMetadataPartitionState(
        partition_index=0, controller_epoch=1, leader=0, leader_epoch=0, isr=[0], replicas=[0]
    )
    return UpdateMetadataTopicState(topic_name=name, topic_id=topic_id, partition_states=[partition])


@pytest.fixture
def broker():
    """It leads two topics. Other brokers are ANONYMOUS, the client is alice, without any rule."""
    made = OneBroker(
        authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:ANONYMOUS", min_insync_replicas=1, node_id=0
    )
    made.connect(ALICE, principal="User:alice")
    for name, topic_id in ((TOPIC, TOPIC_ID), (SECRET, SECRET_ID)):
        made.lead(isr=(0,), replicas=(0,), topic=name, topic_id=topic_id)
    made.live(0, topic_states=[topic(TOPIC, TOPIC_ID), topic(SECRET, SECRET_ID)])
    grant(made)
    return made


def grant(broker, *rules):
    """These are all rules."""
    broker.node.broker.authorizer.update(AclIndex(rules))


def produce(broker, *names, acks=1, connection=ALICE):
    data = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=values("m"))])
        for name in names
    ]
    return broker.send(ProduceRequest(acks=acks, timeout_ms=1000, topic_data=data), connection)


def codes(answer):
    return {topic.name: topic.partition_responses[0].error_code for topic in answer.responses}


def end_of(broker, name):
    return broker.node.replicas.get(name, 0).log.log_end_offset


def test_what_is_allowed_of_a_produce_is_appended_and_the_rest_is_refused(broker):
    grant(broker, rule("WRITE"))
    number = produce(broker, SECRET, TOPIC)
    assert codes(broker.answers[number]) == {TOPIC: 0, SECRET: DENIED}
    assert (end_of(broker, TOPIC), end_of(broker, SECRET)) == (1, 0)


def test_a_rule_takes_effect_on_an_open_connection(broker):
    assert codes(broker.answers[produce(broker, TOPIC)]) == {TOPIC: DENIED}
    grant(broker, rule("WRITE"))
    assert codes(broker.answers[produce(broker, TOPIC)]) == {TOPIC: 0}
    grant(broker)
    assert codes(broker.answers[produce(broker, TOPIC)]) == {TOPIC: DENIED}


def test_a_refused_produce_without_acks_closes_the_connection_and_keeps_what_is_allowed(broker):
    grant(broker, rule("WRITE"))
    produce(broker, SECRET, TOPIC, acks=0)
    assert broker.closed == [ALICE]
    assert (end_of(broker, TOPIC), end_of(broker, SECRET)) == (1, 0)


def fetch(broker, *names, connection=ALICE, **more):
    topics = [
        FetchTopic(topic=name, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)])
        for name in names
    ]
    return broker.send(FetchRequest(topics=topics, **more), connection, version=12)


def fetched(answer):
    return {
        topic.topic: (topic.partitions[0].error_code, bool(topic.partitions[0].records)) for topic in answer.responses
    }


def test_a_consumer_gets_the_records_that_it_may_read(broker):
    grant(broker, rule("READ"))
    produce(broker, TOPIC, SECRET, connection=CLIENT)
    assert fetched(broker.answers[fetch(broker, TOPIC, SECRET)]) == {TOPIC: (0, True), SECRET: (DENIED, False)}


def test_a_fetch_that_waits_gets_nothing_once_the_right_is_taken_away(broker):
    grant(broker, rule("READ"))
    number = fetch(broker, TOPIC, min_bytes=1, max_wait_ms=10_000)
    assert number not in broker.answers
    grant(broker)
    produce(broker, TOPIC, connection=CLIENT)
    assert fetched(broker.answers[number]) == {TOPIC: (DENIED, False)}


def test_a_session_gets_nothing_once_the_right_is_taken_away(broker):
    grant(broker, rule("READ"))
    session = broker.answers[fetch(broker, TOPIC, session_epoch=0)].session_id
    grant(broker)
    produce(broker, TOPIC, connection=CLIENT)
    again = broker.answers[fetch(broker, session_id=session, session_epoch=1)]
    assert fetched(again) == {TOPIC: (DENIED, False)}


def test_a_client_that_says_it_is_a_replica_moves_nothing(broker):
    grant(broker, rule("READ"), rule("ALL", "kafka-cluster", ResourceType.TOPIC))
    broker.connect(OTHER_BROKER, "REPLICATION", "User:alice")
    request = FetchRequest(
        replica_state=ReplicaState(replica_id=1, replica_epoch=1),
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition(partition=0, fetch_offset=0)])],
    )
    answer = broker.ask(request, OTHER_BROKER, version=17)
    assert answer.responses[0].partitions[0].error_code == DENIED
    grant(broker, rule("CLUSTER_ACTION", "kafka-cluster", ResourceType.CLUSTER))
    answer = broker.ask(request, OTHER_BROKER, version=17)
    assert answer.responses[0].partitions[0].error_code != DENIED


def metadata(broker, *names, topics=None, version=12, **more):
    wanted = [MetadataRequestTopic(name=name) for name in names] if topics is None else topics
    return broker.ask(MetadataRequest(topics=wanted, **more), ALICE, version=version)


def test_metadata_shows_only_what_may_be_described(broker):
    everything = MetadataRequest(topics=None)
    assert broker.ask(everything, ALICE, version=12).topics == []
    grant(broker, rule("READ"))
    assert [topic.name for topic in broker.ask(everything, ALICE, version=12).topics] == [TOPIC]
    found = metadata(broker, SECRET, TOPIC, "missing")
    assert [(topic.name, topic.error_code) for topic in found.topics] == [
        (SECRET, DENIED),
        (TOPIC, 0),
        ("missing", DENIED),
    ]
    by_id = metadata(broker, topics=[MetadataRequestTopic(name=None, topic_id=each) for each in (SECRET_ID, TOPIC_ID)])
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in by_id.topics] == [
        (None, SECRET_ID, DENIED),
        (TOPIC, TOPIC_ID, 0),
    ]
    assert by_id.brokers, "the list of brokers is open to everybody"


@pytest.mark.parametrize(
    ("rules", "code", "created"),
    [
        ([], DENIED, False),
        ([rule("DESCRIBE", "new")], DENIED, False),
        ([rule("DESCRIBE", "new"), rule("CREATE", "new")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        (
            [rule("READ", "new"), rule("CREATE", "kafka-cluster", ResourceType.CLUSTER)],
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            True,
        ),
        ([rule("CREATE", "new")], DENIED, False),
    ],
)
def test_metadata_creates_only_what_may_be_described_and_created(broker, rules, code, created):
    grant(broker, *rules)
    assert [topic.error_code for topic in metadata(broker, "new", allow_auto_topic_creation=True).topics] == [code]
    assert ("new" in broker.node.broker.topics_requested) is created


def test_the_operations_that_a_client_may_do_are_shown(broker):
    grant(broker, rule("READ"), rule("ALTER_CONFIGS"), rule("DESCRIBE", "kafka-cluster", ResourceType.CLUSTER))
    found = metadata(
        broker,
        TOPIC,
        version=9,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    allowed = ("READ", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
    assert found.topics[0].topic_authorized_operations == sum(1 << AclOperation[name] for name in allowed)
    assert found.cluster_authorized_operations == 1 << AclOperation.DESCRIBE


def test_pages_of_topics_hide_what_may_not_be_described(broker):
    grant(broker, rule("DESCRIBE"))
    every = broker.ask(DescribeTopicPartitionsRequest(), ALICE, version=0)
    assert [topic.name for topic in every.topics] == [TOPIC]
    named = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=SECRET), TopicRequest(name=TOPIC)])
    answer = broker.ask(named, ALICE, version=0)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [(TOPIC, 0), (SECRET, DENIED)]


def test_an_offset_fetch_names_the_groups_and_topics_that_are_refused(broker):
    topics = [OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in (TOPIC, SECRET)]
    groups = [OffsetFetchRequestGroup(group_id=group, topics=topics) for group in ("g", "h")]
    grant(broker, rule("DESCRIBE", "g", ResourceType.GROUP), rule("DESCRIBE"))
    answer = broker.ask(OffsetFetchRequest(groups=groups), ALICE, version=9)
    found = {group.group_id: group for group in answer.groups}
    assert found["h"].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert found["h"].topics == []
    codes = {topic.name: topic.partitions[0].error_code for topic in found["g"].topics}
    assert codes.get(SECRET, DENIED) == DENIED
    assert codes.get(TOPIC) != DENIED


def test_groups_are_listed_only_to_those_who_may_describe_them(broker):
    grant(broker)
    assert broker.ask(ListGroupsRequest(), ALICE, version=4).groups == []


def test_options_of_a_topic_are_changed_only_with_the_right_to(broker):
    config = [AlterableConfig(name="retention.ms", value="1")]
    resource = AlterConfigsResource(resource_type=2, resource_name=TOPIC, configs=config)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    answer = broker.ask(request, ALICE, version=1)
    assert [each.error_code for each in answer.responses] == [DENIED]


def test_what_another_broker_forwards_was_authorized_there(broker):
    """The controller sees the broker's principal, which needs no right to create topics."""
    grant(broker, rule("CLUSTER_ACTION", "kafka-cluster", ResourceType.CLUSTER))
    request = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)])
    assert [topic.error_code for topic in broker.ask(request, ALICE, version=7).topics] == [DENIED]
    broker.connect(OTHER_BROKER, "REPLICATION", "User:alice")
    number = broker.send(request, OTHER_BROKER, version=7)
    passed_on = broker.answers.get(number)
    assert passed_on is None or [topic.error_code for topic in passed_on.topics] == [ErrorCode.NOT_CONTROLLER]


def test_a_denial_is_logged_with_who_what_and_why(broker):
    produce(broker, SECRET)
    (event,) = [event for event in broker.events if event.kind == "access.denied"]
    assert event.fields == {
        "principal": "User:alice",
        "operation": "WRITE",
        "host": f"peer-{ALICE}",
        "resource": "Topic:LITERAL:secret",
        "request": "Produce",
        "rule": "DefaultDeny",
    }


def test_denials_of_one_principal_hide_none_of_another(broker):
    """All of them shared twenty lines a second."""
    for _ in range(50):
        produce(broker, SECRET)
    broker.connect(OTHER_BROKER, "PLAINTEXT", "User:bob")
    produce(broker, SECRET, connection=OTHER_BROKER)
    denied = [event.fields["principal"] for event in broker.events if event.kind == "access.denied"]
    assert denied == ["User:alice"] * LINES_OF_ONE + ["User:bob"]


def test_a_change_is_logged_with_who_before_after_and_result(broker):
    grant(broker, rule("ALTER_CONFIGS", "kafka-cluster", ResourceType.CLUSTER))
    config = [AlterableConfig(name="log", value="DEBUG")]
    resource = AlterConfigsResource(resource_type=8, resource_name="0", configs=config)
    assert (
        broker.ask(IncrementalAlterConfigsRequest(resources=[resource]), ALICE, version=1).responses[0].error_code == 0
    )
    wrong = AlterConfigsResource(resource_type=8, resource_name="9", configs=config)
    broker.ask(IncrementalAlterConfigsRequest(resources=[wrong]), ALICE, version=1)
    first, second = [event.fields for event in broker.events if event.kind == "audit.changed"]
    assert first == {
        "principal": "User:alice",
        "host": f"peer-{ALICE}",
        "request": "IncrementalAlterConfigs",
        "resource": "BrokerLogger:0",
        "before": {},
        "after": {"log": "DEBUG"},
        "result": "NONE",
    }
    assert (second["resource"], second["before"], second["result"]) == (
        "BrokerLogger:9",
        {"log": "DEBUG"},
        "INVALID_REQUEST",
    )


# Rules that come from the metadata store.


def store(broker, name, *acls):
    """These are the rules of the topic now, as a controller stores them."""
    pattern = ResourcePattern(ResourceType.TOPIC, name, PatternType.LITERAL)
    path, data = acl_tree.pattern_path(pattern), acl_tree.format_acls(acls)
    apply = broker.session.apply
    if not apply([Read(acl_tree.CHANGES[PatternType.LITERAL])]).values[0]:
        assert apply([Create(each) for each in acl_tree.skeleton()]).outcome == "ok"
    if apply([Write(path, data)]).outcome != "ok":
        assert apply([Create(path, data)]).outcome == "ok"
    (listed,) = apply([Children(acl_tree.CHANGES[PatternType.LITERAL])]).values
    change = Create(acl_tree.change_path(PatternType.LITERAL, len(listed)), acl_tree.format_change(pattern))
    assert apply([change]).outcome == "ok"
    broker.give("store_event", acl_tree.CHANGES[PatternType.LITERAL])


READ_TOPIC = rule("READ").acl


def test_until_the_rules_are_known_only_super_users_are_served(broker):
    waiting = OneBroker(
        authorizer_class_name=STANDARD_AUTHORIZER,
        super_users="User:ANONYMOUS",
        allow_everyone_if_no_acl_found="true",
        min_insync_replicas=1,
    )
    waiting.connect(ALICE, principal="User:alice")
    waiting.lead(isr=(0,), replicas=(0,))
    assert codes(waiting.answers[produce(waiting, TOPIC)]) == {TOPIC: DENIED}
    assert codes(waiting.answers[produce(waiting, TOPIC, connection=CLIENT)]) == {TOPIC: 0}
    waiting.store_answers = False
    waiting.give("session_started", waiting.session.session)
    assert waiting.node.broker.membership.session == 0, "a broker registers when it knows the rules"
    waiting.store_answers = True
    waiting.give("wake")
    assert waiting.node.broker.membership.session == waiting.session.session
    assert codes(waiting.answers[produce(waiting, TOPIC)]) == {TOPIC: 0}


def test_stored_rules_take_effect_on_open_connections(broker):
    broker.give("session_started", broker.session.session)
    assert fetched(broker.answers[fetch(broker, TOPIC)]) == {TOPIC: (DENIED, False)}
    store(broker, TOPIC, READ_TOPIC)
    produce(broker, TOPIC, connection=CLIENT)
    assert fetched(broker.answers[fetch(broker, TOPIC)]) == {TOPIC: (0, True)}
    store(broker, TOPIC)
    assert fetched(broker.answers[fetch(broker, TOPIC)]) == {TOPIC: (DENIED, False)}


def test_a_session_loses_an_idle_topic_whose_right_is_withdrawn(broker):
    broker.give("session_started", broker.session.session)
    store(broker, TOPIC, READ_TOPIC)
    session = broker.answers[fetch(broker, TOPIC, session_epoch=0)].session_id
    waits = fetch(broker, session_id=session, session_epoch=1, min_bytes=1, max_wait_ms=10_000)
    alone = fetch(broker, TOPIC, min_bytes=1, max_wait_ms=10_000)
    assert not {waits, alone} & broker.answers.keys()
    store(broker, TOPIC)
    assert fetched(broker.answers[waits]) == {TOPIC: (DENIED, False)}
    assert fetched(broker.answers[alone]) == {TOPIC: (DENIED, False)}
    again = fetch(broker, session_id=session, session_epoch=2)
    assert fetched(broker.answers[again]) == {TOPIC: (DENIED, False)}


def test_an_acl_request_that_no_broker_can_know_closes_the_connection_of_anybody(broker):
    broker.send(DescribeAclsRequest(operation=0), ALICE, version=3)
    assert broker.closed == [ALICE]


@pytest.mark.parametrize("client_id", ["bench", "broker-9"])
def test_on_a_shared_listener_only_what_brokers_send_has_their_rights(client_id):
    """A principal with CLUSTER_ACTION may forward what clients requested, and not make such requests itself."""
    broker = OneBroker(
        authorizer_class_name=STANDARD_AUTHORIZER,
        super_users="User:ANONYMOUS",
        min_insync_replicas=1,
    )
    cluster = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL)
    grant(broker, Binding(cluster, Acl("User:bridge", "*", AclOperation.CLUSTER_ACTION, Permission.ALLOW)))
    broker.connect(ALICE, "REPLICATION", "User:bridge", client_id)
    level = AlterableConfig(name="log", value="DEBUG")
    change = AlterConfigsResource(resource_type=8, resource_name="0", configs=[level])
    answer = broker.ask(IncrementalAlterConfigsRequest(resources=[change]), ALICE, version=1)
    expected = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if client_id == "bench" else ErrorCode.NONE
    assert [each.error_code for each in answer.responses] == [expected]
