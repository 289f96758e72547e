"""The transactional producer on a cluster without transaction version 2: what happens when coordinators do not answer."""

from tests.client.ground import BOOTSTRAP, INIT_PRODUCER_ID, Ground
from tidelog.client.options import ProducerOptions
from tidelog.client.transactional import TransactionalProducer
from tidelog.errors import ErrorCode
from tidelog.wire.messages.transactions.end_txn import EndTxnResponse
from tidelog.wire.messages.transactions.init_producer_id import InitProducerIdResponse

ADD_PARTITIONS, END = 24, 26


class Story:
    def __init__(self):
        self.ground = Ground()
        self.epoch = -1
        self.ground.handlers |= {
            INIT_PRODUCER_ID: self.init,
            ADD_PARTITIONS: lambda _broker, _request, _reply: None,
            END: lambda _broker, _request, reply: reply(EndTxnResponse()),
        }
        options = ProducerOptions(transactional_id="id", linger_ms=0, request_timeout_ms=700, max_block_ms=2_000)
        self.producer = self.ground.start(TransactionalProducer(BOOTSTRAP, options, self.ground.entropy))

    def init(self, _broker, _request, reply):
        self.epoch += 1
        reply(InitProducerIdResponse(producer_id=7, producer_epoch=self.epoch))

    def call(self, call, *arguments):
        ticket = self.ground.call(call, *arguments)
        results = []
        assert self.ground.run_until(lambda: results.extend(self.producer.take_results()) or results, 10_000)
        (done,) = results
        assert done.ticket == ticket
        return done


def test_a_transaction_ends_though_its_partitions_could_not_be_added_in_time():
    """Seed 10662: the last try was given up after the end had looked whether anything was under way, and nobody woke."""
    story = Story()
    assert not story.call(story.producer.init_transactions, story.ground.now).error
    story.producer.begin()
    story.ground.call(story.producer.send, "t", b"1", story.ground.now)
    assert story.ground.run_until(lambda: story.ground.requests(ADD_PARTITIONS))
    assert story.call(story.producer.abort, story.ground.now).error is ErrorCode.NONE
    assert not story.ground.requests(END)[0].committed
    assert story.producer.version == 0
