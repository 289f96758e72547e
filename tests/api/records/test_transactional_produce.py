"""Produce requests with transactional batches: what is asked of the coordinator first, and what is refused."""

import pytest

from tests.log.support import WALL
from tests.node.one_broker import CONTROLLER, TOPIC, TOPIC_ID, OneBroker
from tests.node.test_new_coordinator import state
from tests.node.test_peers_that_hang import answer, asked, dial
from tidelog.errors import ErrorCode
from tidelog.model import TRANSACTION_TOPIC
from tidelog.wire.messages.records.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.messages.transactions.transaction_requests import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from tidelog.wire.messages.transactions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tidelog.wire.records import Record, build

BY_NAME, BY_ID = 12, 13
"""Versions of Produce that add partitions to transactions; the one before verifies only."""
VERIFIES = 11
CALMLY = ErrorCode.NOT_ENOUGH_REPLICAS
"""With which a producer comes again."""


def batch(producer_id, sequence=0, value=b"v"):
    return build(
        [Record(0, WALL, b"k", value)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        attributes=0x10,
    )


class Asking:
    """A broker that leads partition 0; transactions belong to broker 1."""

    def __init__(self):
        self.broker = OneBroker(min_insync_replicas=1)
        self.broker.live(0, 1, topic_states=[state(TRANSACTION_TOPIC, leader=1, epoch=0)])
        self.broker.lead(isr=(0,))
        self.peer = None

    def produce(self, *sequences, version=BY_NAME, partitions=(0, 1), value=b"v"):
        data = [
            PartitionProduceData(index=index, records=batch(7, sequence, value))
            for index, sequence in zip(partitions, sequences, strict=True)
        ]
        topics = [TopicProduceData(name=TOPIC, topic_id=TOPIC_ID, partition_data=data)]
        request = ProduceRequest(transactional_id="id", acks=1, timeout_ms=1_000, topic_data=topics)
        return self.broker.send(request, version=version)

    def coordinator_agrees(self):
        """It has the partitions that it was asked for; which they were."""
        self.peer = self.peer or dial(self.broker)
        _, request = asked(self.broker, AddPartitionsToTxnRequest)[-1]
        (transaction,) = request.transactions
        (topic,) = transaction.topics
        results = [AddPartitionsToTxnPartitionResult(partition_index=index) for index in topic.partitions]
        told = [AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=results)]
        response = AddPartitionsToTxnResponse(
            results_by_transaction=[AddPartitionsToTxnResult(transactional_id="id", topic_results=told)]
        )
        answer(self.broker, self.peer, response, AddPartitionsToTxnRequest.__key__, 5)
        return topic.partitions

    def ends(self, index):
        """A marker in this partition, of a transaction whose end raises no epoch."""
        topic = WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[index])
        marker = WritableTxnMarker(producer_id=7, producer_epoch=0, transaction_result=True, topics=[topic])
        self.broker.send(WriteTxnMarkersRequest(markers=[marker]), CONTROLLER, version=1)

    def codes(self, number):
        (topic,) = self.broker.answers[number].responses
        return {answer.index: answer.error_code for answer in topic.partition_responses}

    def open(self, index):
        """Where the producer's transaction begins."""
        return self.broker.partition(index).log.producers.first_open_offset


def test_batches_of_two_producers_in_one_request_are_refused():
    """They cannot both belong to its transactional id, and the coordinator is asked for one of them only."""
    broker = OneBroker()
    for index in range(2):
        broker.lead(index=index)
    data = [PartitionProduceData(index=index, records=batch(7 + index)) for index in range(2)]
    topics = [TopicProduceData(name=TOPIC, partition_data=data)]
    answer = broker.ask(ProduceRequest(transactional_id="id", acks=-1, timeout_ms=1_000, topic_data=topics))
    codes = [found.error_code for found in answer.responses[0].partition_responses]
    assert codes == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    assert [broker.partition(index=index).log.log_end_offset for index in range(2)] == [0, 0]


def test_nor_are_they_taken_where_no_answer_is_wanted():
    broker = OneBroker()
    for index in range(2):
        broker.lead(index=index)
    data = [PartitionProduceData(index=index, records=batch(7 + index)) for index in range(2)]
    topics = [TopicProduceData(name=TOPIC, partition_data=data)]
    broker.send(ProduceRequest(transactional_id="id", acks=0, timeout_ms=1_000, topic_data=topics))
    assert [broker.partition(index=index).log.log_end_offset for index in range(2)] == [0, 0]
    assert broker.closed, "so it is told"


@pytest.mark.parametrize("records", [None, b"", b"short"])
def test_what_is_no_batch_is_refused_as_without_transactions(records):
    broker = OneBroker()
    broker.lead()
    topics = [TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=records)])]
    codes = []
    for transactional_id in ("id", None):
        request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=1_000, topic_data=topics)
        codes.append(broker.ask(request).responses[0].partition_responses[0].error_code)
    assert codes[0] == codes[1] != ErrorCode.NONE
    assert broker.closed == []


def test_a_partition_that_comes_to_be_led_while_the_coordinator_is_asked_for_others_is_not_written():
    """Seed 1005554: its transaction was known to no coordinator, and stayed open for ever."""
    asking = Asking()
    asking.broker.follow(index=1)
    number = asking.produce(0, 0)
    asking.broker.lead(index=1, isr=(0,), epoch=1, partition_epoch=1)
    assert asking.coordinator_agrees() == [0]
    assert asking.codes(number) == {0: ErrorCode.NONE, 1: CALMLY}
    assert (asking.open(0), asking.open(1)) == (0, None)
    again = asking.produce(0, partitions=(1,))
    assert asking.coordinator_agrees() == [1]
    assert asking.codes(again) == {1: ErrorCode.NONE}


def test_nor_is_one_whose_transaction_ends_meanwhile():
    asking = Asking()
    asking.broker.lead(index=1, isr=(0,))
    asking.produce(0, partitions=(1,), version=VERIFIES)
    assert asking.coordinator_agrees() == [1]
    number = asking.produce(0, 1, version=VERIFIES)
    asking.ends(1)
    assert asking.coordinator_agrees() == [0]
    assert asking.codes(number) == {0: ErrorCode.NONE, 1: CALMLY}
    assert (asking.open(0), asking.open(1)) == (0, None)


@pytest.mark.parametrize("is_open", [False, True])
def test_nor_is_one_whose_transaction_ends_while_its_batch_is_looked_into(is_open):
    """The batch began a transaction that no coordinator knew: it stayed open, and no committed reader passed it."""
    asking, large = Asking(), bytes(100_000)
    asking.broker.configure("topics/t", cleanup_policy="compact")
    if is_open:
        asking.produce(0, partitions=(0,), version=VERIFIES)
        asking.coordinator_agrees()
    number = asking.produce(int(is_open), partitions=(0,), version=VERIFIES, value=large)
    if not is_open:
        asking.coordinator_agrees()
    asking.ends(0)
    asking.broker.computed()
    assert asking.codes(number) == {0: CALMLY}
    assert asking.open(0) is None
    again = asking.produce(int(is_open), partitions=(0,), version=VERIFIES, value=large)
    asking.coordinator_agrees()
    asking.broker.computed()
    assert asking.codes(again) == {0: ErrorCode.NONE}


def test_a_partition_whose_transaction_is_open_is_written_though_others_are_asked_for():
    asking = Asking()
    asking.broker.lead(index=1, isr=(0,))
    asking.produce(0, partitions=(1,))
    assert asking.coordinator_agrees() == [1]
    number = asking.produce(0, 1)
    assert asking.coordinator_agrees() == [0]
    assert asking.codes(number) == {0: ErrorCode.NONE, 1: ErrorCode.NONE}


def test_nobody_is_asked_where_every_transaction_is_open():
    asking = Asking()
    asking.produce(0, partitions=(0,))
    assert asking.coordinator_agrees() == [0]
    before = len(asked(asking.broker, AddPartitionsToTxnRequest))
    assert asking.codes(asking.produce(1, partitions=(0,))) == {0: ErrorCode.NONE}
    assert len(asked(asking.broker, AddPartitionsToTxnRequest)) == before


def test_nor_is_a_partition_of_a_topic_that_was_not_known_when_the_coordinator_was_asked():
    asking, other = Asking(), b"o" * 16
    data = [PartitionProduceData(index=0, records=batch(7))]
    topics = [TopicProduceData(topic_id=topic_id, partition_data=data) for topic_id in (TOPIC_ID, other)]
    request = ProduceRequest(transactional_id="id", acks=1, timeout_ms=1_000, topic_data=topics)
    number = asking.broker.send(request, version=BY_ID)
    asking.broker.lead(topic="other", topic_id=other, isr=(0,))
    assert asking.coordinator_agrees() == [0]
    codes = [topic.partition_responses[0].error_code for topic in asking.broker.answers[number].responses]
    assert codes == [ErrorCode.NONE, CALMLY]
    assert asking.broker.node.replicas.get("other", 0).log.log_end_offset == 0


def test_a_request_that_waited_behind_a_question_asks_its_own():
    asking = Asking()
    asking.broker.lead(index=1, isr=(0,))
    first, second = asking.produce(0, partitions=(0,)), asking.produce(0, partitions=(1,))
    assert asking.coordinator_agrees() == [0]
    assert asking.coordinator_agrees() == [1]
    assert asking.codes(first) | asking.codes(second) == {0: ErrorCode.NONE, 1: ErrorCode.NONE}
