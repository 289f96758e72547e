"""Produce refuses what a client may not ask for, in Kafka's order."""

import pytest

from tests.node.one_broker import TOPIC, TOPIC_ID, OneBroker
from tidelog.errors import ErrorCode
from tidelog.wire.messages.cluster.controller_pushes import UpdateMetadataPartitionState, UpdateMetadataTopicState


@pytest.fixture
def broker():
    made = OneBroker(min_insync_replicas=1)
    partition = UpdateMetadataPartitionState(
        partition_index=0, controller_epoch=1, leader=0, leader_epoch=0, isr=[0], zk_version=0, replicas=[0]
    )
    topic = UpdateMetadataTopicState(topic_name=TOPIC, topic_id=TOPIC_ID, partition_states=[partition])
    made.live(0, topic_states=[topic])
    made.lead(isr=(0,), replicas=(0,))
    return made


@pytest.mark.parametrize("acks", [-2, 2, 32767])
def test_invalid_acks_are_refused_where_the_partition_is_known(broker, acks):
    """Kafka looks for the partition first."""
    assert broker.produced(broker.produce("x", acks=acks))[0] == ErrorCode.INVALID_REQUIRED_ACKS
    unknown = broker.produce("x", acks=acks, index=7)
    assert broker.produced(unknown)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
