"""Our own transactional producer against brokers in this process, in both protocols."""

import pytest

from tests.waiting import wait_for
from tidelog.client.admin import Coordinator
from tidelog.client.network import Network
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.shell.transactions import TransactionalProducer
from tidelog.shell.transport import Admin, Consumer, Producer
from tidelog.testing import Cluster
from tidelog.wire.messages.groups.group_admin import DescribeGroupsRequest
from tidelog.wire.messages.transactions.transaction_requests import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture(scope="module")
def brokers():
    with Cluster(brokers=1) as cluster:
        cluster.create_topic("t", 2)
        yield cluster


@pytest.fixture(params=[0, 2], ids=["older", "newer"])
def bootstrap(request, brokers, monkeypatch):
    """Of a cluster that says it has this transaction version."""
    monkeypatch.setattr(Network, "feature", lambda *_: request.param)
    return brokers.bootstrap


def read(bootstrap, key, level="read_committed"):
    """Values with this key, to the end."""
    with Consumer(bootstrap, isolation_level=level) as consumer:
        consumer.assign([T0, T1])
        consumer.seek_to_beginning()
        ends = consumer.end_offsets([T0, T1])
        found = []
        while any(consumer.position(place) < end for place, end in ends.items()):
            found += [record for record in consumer.poll(1) if record.key == key]
        return sorted(record.value for record in found)


def await_read(bootstrap, key, expected):
    """Markers are written after the end of a transaction was answered."""
    wait_for(lambda: read(bootstrap, key) == expected, f"{expected} to be read")


def test_transactions_are_committed_and_aborted(bootstrap, request):
    key = request.node.name.encode()
    with TransactionalProducer(bootstrap, request.node.name) as producer:
        for number in range(4):
            producer.begin()
            for partition in range(2):
                producer.send("t", b"%d-%d" % (number, partition), key=key, partition=partition)
            if number % 2:
                producer.flush()
                producer.abort()
            else:
                producer.commit()
    await_read(bootstrap, key, [b"0-0", b"0-1", b"2-0", b"2-1"])
    assert len(read(bootstrap, key, "read_uncommitted")) == 8


def test_an_exception_aborts(bootstrap, request):
    key = request.node.name.encode()
    with TransactionalProducer(bootstrap, request.node.name, linger_ms=0) as producer:

        def fail():
            with producer.transaction():
                producer.send("t", b"no", key=key, partition=0)
                producer.flush()
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        with producer.transaction():
            producer.send("t", b"yes", key=key, partition=0)
    await_read(bootstrap, key, [b"yes"])


def test_a_record_that_failed_makes_the_transaction_one_to_abort(bootstrap, request):
    key = request.node.name.encode()
    with TransactionalProducer(bootstrap, request.node.name, max_request_size=4_000_000) as producer:
        producer.begin()
        producer.send("t", b"small", key=key, partition=0)
        producer.send("t", bytes(2_000_000), key=key, partition=1)
        with pytest.raises(ApiError) as caught:
            producer.commit()
        assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
        producer.abort()
        with producer.transaction():
            producer.send("t", b"next", key=key, partition=1)
    await_read(bootstrap, key, [b"next"])


def test_a_record_that_was_never_sent_is_missing_too(bootstrap, request):
    """Nobody knows the partition: a commit without the record would be half of the transaction."""
    with TransactionalProducer(bootstrap, request.node.name, max_block_ms=2_000) as producer:
        producer.begin()
        producer.send("t", b"nowhere", partition=99)
        with pytest.raises(ApiError) as caught:
            producer.commit()
        assert caught.value.code == ErrorCode.REQUEST_TIMED_OUT
        producer.abort()


def test_an_empty_transaction_asks_nobody(bootstrap, request):
    with TransactionalProducer(bootstrap, request.node.name) as producer:
        for _ in range(2):
            with producer.transaction():
                pass
        producer.begin()
        producer.abort()
        with pytest.raises(ApiError) as caught:
            producer.commit()
        assert caught.value.code == ErrorCode.INVALID_TXN_STATE


def test_a_second_producer_fences_the_first(bootstrap, request):
    key = request.node.name.encode()
    first = TransactionalProducer(bootstrap, request.node.name)
    first.begin()
    first.send("t", b"zombie", key=key, partition=0)
    first.flush()
    with TransactionalProducer(bootstrap, request.node.name) as second:
        with pytest.raises(ApiError) as caught:
            first.commit()
        assert caught.value.code == ErrorCode.PRODUCER_FENCED
        with pytest.raises(ApiError) as caught:
            first.begin()
        assert caught.value.code == ErrorCode.PRODUCER_FENCED
        first.close()
        with second.transaction():
            second.send("t", b"alive", key=key, partition=0)
    await_read(bootstrap, key, [b"alive"])


def test_positions_are_part_of_the_transaction(bootstrap, request):
    group = request.node.name
    with TransactionalProducer(bootstrap, group) as producer, Consumer(bootstrap, group) as consumer:
        with producer.transaction():
            producer.send_offsets({T0: 5}, group)
        assert consumer.committed([T0])[T0].offset == 5
        producer.begin()
        producer.send_offsets({T0: 9}, consumer)
        producer.abort()
        assert consumer.committed([T0])[T0].offset == 5


def test_positions_of_a_group_that_went_on_are_refused(bootstrap, request):
    group = request.node.name
    with Producer(bootstrap) as plain:
        plain.send("t", b"something", partition=0)
    with TransactionalProducer(bootstrap, group) as producer:
        with Consumer(bootstrap, group, auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["t"])
            while not consumer.poll(1):
                pass
            place = consumer.group_place
            with producer.transaction():
                producer.send_offsets({T0: 1}, consumer)
        with Admin(bootstrap) as admin:
            asked = DescribeGroupsRequest(groups=[group])
            wait_for(
                lambda: admin.ask(asked, Coordinator(group)).groups[0].group_state == "Empty", "the member to leave"
            )
        producer.begin()
        with pytest.raises(ApiError) as caught:
            producer.send_offsets({T0: 2}, place)
        assert caught.value.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
        producer.abort()


def test_an_empty_transaction_that_is_aborted_right_after_a_commit_is_never_fenced():
    """Java's producer asks so, for it does not know what is empty; the markers of the commit are still on their way."""
    name, codes = "abort-at-once", set()
    with Cluster(brokers=2) as cluster, Admin(cluster.bootstrap) as admin:
        cluster.create_topic("t", 2)

        def ask(request, **how):
            return admin.ask(request, Coordinator(name, 1), **how)

        def end(producer, *, commit):
            """The answer that is none to come again, and what was answered until then."""
            while True:
                ended = ask(
                    EndTxnRequest(
                        transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=commit
                    )
                )
                codes.add(ErrorCode(ended.error_code))
                if ended.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                    return ended.producer_id, ended.producer_epoch

        begun = ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000))
        producer = begun.producer_id, begun.producer_epoch
        for number in range(30):
            adding = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0, 1])],
            )
            ask(adding, newest=3)
            producer = end(end(producer, commit=True), commit=False)
            assert producer == (begun.producer_id, begun.producer_epoch + 2 * (number + 1))
    assert codes <= {ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS}
