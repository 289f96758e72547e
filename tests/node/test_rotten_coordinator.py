"""A bit that turned in what a coordinator replays: it loads only what is sound, goes on once another replica's bytes are
in its place, and until then tells nobody anything. A position read from damaged bytes sends a group anywhere."""

import pytest

from tests.node.one_broker import TOPIC_ID, WALL, OneBroker
from tests.node.test_rot import answer, dial, repairs
from tidelog.coordinator.contract import Change
from tidelog.coordinator.group import records as group_records
from tidelog.coordinator.transaction import records as transaction_records
from tidelog.coordinator.transaction.transaction import Transaction, TransactionState
from tidelog.errors import ErrorCode
from tidelog.model import GROUP_TOPIC, TRANSACTION_TOPIC
from tidelog.node.upkeep.integrity import RETRY_MS, TRUST_MS
from tidelog.wire.messages.cluster.controller_pushes import UpdateMetadataPartitionState, UpdateMetadataTopicState
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tidelog.wire.messages.groups.group_records import OffsetCommitKey, OffsetCommitValue
from tidelog.wire.messages.transactions.transaction_admin import DescribeTransactionsRequest
from tidelog.wire.records import Record, build

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def position(offset):
    value = OffsetCommitValue(offset=offset, leader_epoch=-1, metadata="", commit_timestamp=WALL, topic_id=bytes(16))
    return group_records.encode(Change(OffsetCommitKey(group="g", topic="t", partition=0), value))


def transaction(producer_id):
    begun = Transaction("id", producer_id, 3, TransactionState.EMPTY, 60_000, frozenset())
    return transaction_records.encode(Change("id", begun))


CONTENT = {GROUP_TOPIC: [position(4_000), position(5_000)], TRANSACTION_TOPIC: [transaction(4_000), transaction(5_000)]}


class Coordinator:
    """A follower that leads after a while, with so many replicas; by then a bit of the last record has turned."""

    def __init__(self, topic, replicas=(0, 1, 2)):
        options = {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1}
        self.broker = broker = OneBroker(min_insync_replicas=1, **options)
        self.topic = topic
        self.given = {"topic": topic, "replicas": replicas}
        broker.follow(**self.given)
        self.log = log = broker.node.replicas.get(topic, 0).log
        for number, (key, value) in enumerate(CONTENT[topic]):
            log.append_as_leader(bytearray(build([Record(0, WALL + number, key, value)])), 0, broker.now)
        path = f"/data/{topic}-0/00000000000000000000.log"
        self.good = broker.disk.read(path)
        broker.passes(3 * TRUST_MS)
        self.disk = broker.disk.inode(path).cached
        self.disk[self.good.rindex((5_000).to_bytes(8, "big")) + 6] ^= 0x40
        partition = UpdateMetadataPartitionState(partition_index=0, leader=0, leader_epoch=1, isr=[0], replicas=[0, 1])
        state = UpdateMetadataTopicState(topic_name=topic, topic_id=TOPIC_ID, partition_states=[partition])
        broker.live(0, 1, 2, topic_states=[state])

    def lead(self, epoch=1):
        self.broker.lead(isr=(0,), epoch=epoch, partition_epoch=epoch, **self.given)

    def mend(self):
        answer(self.broker, self.good[len(self.good) // 2 :])

    def told(self):
        """The committed position or the producer's id, or the code in its place."""
        if self.topic == GROUP_TOPIC:
            topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
            groups = [OffsetFetchRequestGroup(group_id="g", topics=topics)]
            (group,) = self.broker.ask(OffsetFetchRequest(groups=groups), version=8).groups
            return ErrorCode(group.error_code) or group.topics[0].partitions[0].committed_offset
        request = DescribeTransactionsRequest(transactional_ids=["id"])
        (state,) = self.broker.ask(request, version=0).transaction_states
        return ErrorCode(state.error_code) or state.producer_id

    def kinds(self):
        return [event.kind for event in self.broker.events if event.kind in KINDS]


KINDS = ("log.rot", "log.repaired", "log.unrepairable", "coordinator.incomplete", "coordinator.loaded")
TOPICS = pytest.mark.parametrize("topic", [GROUP_TOPIC, TRANSACTION_TOPIC])


@TOPICS
def test_a_coordinator_serves_once_what_it_replays_is_mended(topic):
    coordinator = Coordinator(topic)
    coordinator.lead()
    assert coordinator.told() == LOADING
    dial(coordinator.broker)
    assert repairs(coordinator.broker)
    coordinator.mend()
    assert coordinator.told() == 5_000
    assert coordinator.kinds() == ["log.rot", "log.repaired", "coordinator.loaded"]


@TOPICS
def test_what_nobody_has_is_said_once_and_asked_for_again(topic):
    coordinator = Coordinator(topic)
    coordinator.lead()
    dial(coordinator.broker)
    answer(coordinator.broker, b"", code=ErrorCode.OFFSET_OUT_OF_RANGE)
    dial(coordinator.broker)
    answer(coordinator.broker, b"", code=ErrorCode.OFFSET_OUT_OF_RANGE)
    coordinator.broker.passes(10_000)
    assert coordinator.told() == LOADING
    assert coordinator.kinds() == ["log.rot", "log.unrepairable", "coordinator.incomplete"]
    coordinator.broker.passes(RETRY_MS)
    coordinator.mend()
    coordinator.broker.passes(1_000)
    assert coordinator.told() == 5_000


@TOPICS
def test_a_broker_that_comes_back_is_asked_at_once(topic):
    coordinator = Coordinator(topic)
    coordinator.broker.live(0)
    coordinator.lead()
    assert coordinator.kinds() == ["log.rot", "log.unrepairable", "coordinator.incomplete"]
    coordinator.broker.passes(1_500)
    coordinator.broker.live(0, 1)
    coordinator.broker.passes(1_500)
    dial(coordinator.broker)
    coordinator.mend()
    assert coordinator.told() == 5_000


def test_leadership_that_goes_meanwhile_ends_the_loading():
    coordinator = Coordinator(GROUP_TOPIC)
    coordinator.lead()
    coordinator.lead(epoch=2)
    assert coordinator.told() == LOADING
    coordinator.broker.follow(epoch=3, partition_epoch=3, **coordinator.given)
    assert coordinator.told() == ErrorCode.NOT_COORDINATOR
    coordinator.lead(epoch=4)
    dial(coordinator.broker)
    coordinator.mend()
    assert coordinator.told() == 5_000
