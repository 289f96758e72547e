"""Produce requests with transactional batches: what is asked of the coordinator first, and what is refused."""

import pytest

from tests.log.support import WALL
from tests.node.one_broker import TOPIC, OneBroker
from tidelog.errors import ErrorCode
from tidelog.wire.messages.records.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.records import Record, build


def batch(producer_id):
    return build(
        [Record(0, WALL, b"k", b"v")], producer_id=producer_id, producer_epoch=0, base_sequence=0, attributes=0x10
    )


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
