"""A request that fails with an error of ours costs its connection, and nobody else's timers or answers."""

from itertools import count

import pytest

from tests.node.one_broker import OneBroker
from tidelog.model import GROUP_TOPIC
from tidelog.node.event_log import LINES_OF_ALL
from tidelog.wire.messages.cluster.controller_pushes import UpdateMetadataPartitionState, UpdateMetadataTopicState
from tidelog.wire.messages.groups.classic_group import JoinGroupRequest, JoinGroupRequestProtocol

TOO_LONG = "x" * 40_000
"""A group id that a request can carry, and a record of the groups' topic cannot."""
MEMBER = JoinGroupRequestProtocol(name="range", metadata=b"\0\0")


@pytest.fixture
def broker():
    made = OneBroker(min_insync_replicas=1, offsets_topic_num_partitions=1)
    partition = UpdateMetadataPartitionState(
        partition_index=0, controller_epoch=1, leader=0, leader_epoch=0, isr=[0], zk_version=0, replicas=[0]
    )
    topic = UpdateMetadataTopicState(topic_name=GROUP_TOPIC, topic_id=b"g" * 16, partition_states=[partition])
    made.live(0, topic_states=[topic])
    made.lead(topic=GROUP_TOPIC, topic_id=b"g" * 16, isr=(0,), replicas=(0,))
    return made


def join(broker, group, connections=count(100)):  # noqa: B008  the connections go on from test to test
    connection = next(connections)
    broker.connect(connection)
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[MEMBER],
    )
    return broker.send(request, connection, 9)


def test_its_timers_go_off_all_the_same(broker):
    join(broker, TOO_LONG)
    assert [event.kind for event in broker.events if event.level == "error"] == ["request.failed"]
    groups = broker.node.broker.groups
    assert groups.alarm.at == groups.next_deadline is not None
    broker.passes(60_000)
    assert groups.next_deadline is None or groups.next_deadline > broker.now.mono


def test_the_groups_of_its_partition_are_served_on(broker):
    join(broker, TOO_LONG)
    other = join(broker, "other")
    broker.passes(10_000)
    assert broker.answers.get(other) is not None


def test_many_failures_do_not_flood_the_log(broker):
    """Every one of them wrote a line."""
    for number in range(LINES_OF_ALL + 10):
        join(broker, f"{TOO_LONG}{number}")
    assert sum(event.kind == "request.failed" for event in broker.events) == LINES_OF_ALL
    broker.passes(1_000)
    join(broker, f"{TOO_LONG} again")
    failed = [event for event in broker.events if event.kind == "request.failed"]
    assert failed[-1].fields["omitted"] == 10
