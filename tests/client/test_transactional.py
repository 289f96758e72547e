"""The transactional producer: how transactions end in which something was not answered, or never sent."""

import pytest

from tests.client.ground import API_VERSIONS, BOOTSTRAP, INIT_PRODUCER_ID, PRODUCE, Ground
from tidelog.client.options import ProducerOptions
from tidelog.client.transactional import VERSION_2, TransactionalProducer
from tidelog.errors import ErrorCode
from tidelog.wire.messages.cluster.features import ApiVersionsResponse, FinalizedFeatureKey
from tidelog.wire.messages.records.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tidelog.wire.messages.transactions.transaction_requests import EndTxnResponse, InitProducerIdResponse

ADD_PARTITIONS, END = 24, 26


class Story:
    """A cluster that has this transaction version, and does not answer who adds partitions or produces."""

    def __init__(self, version=0):
        self.ground = Ground()
        self.version = version
        self.epoch = -1
        self.ground.handlers |= {
            INIT_PRODUCER_ID: self.init,
            ADD_PARTITIONS: lambda _broker, _request, _reply: None,
            PRODUCE: lambda _broker, _request, _reply: None,
            END: self.end,
            API_VERSIONS: self.api_versions,
        }
        options = ProducerOptions(
            transactional_id="id", linger_ms=0, request_timeout_ms=700, max_block_ms=2_000, delivery_timeout_ms=2_000
        )
        self.producer = self.ground.start(TransactionalProducer(BOOTSTRAP, options, self.ground.entropy))

    def init(self, _broker, _request, reply):
        self.epoch += 1
        reply(InitProducerIdResponse(producer_id=7, producer_epoch=self.epoch))

    def end(self, _broker, _request, reply):
        self.epoch += self.version >= VERSION_2
        reply(EndTxnResponse(producer_id=7, producer_epoch=self.epoch))

    def api_versions(self, broker, request, reply):
        def featured(response: ApiVersionsResponse):
            feature = FinalizedFeatureKey(name="transaction.version", max_version_level=self.version)
            response.finalized_features = [feature]
            reply(response)

        self.ground.api_versions(broker, request, featured)

    def begin(self):
        """A transaction in which a record could not be delivered."""
        self.producer.begin()
        self.ground.call(self.producer.send, "t", b"1", self.ground.now)
        assert self.call(self.producer.commit, self.ground.now).error is ErrorCode.REQUEST_TIMED_OUT

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


@pytest.mark.parametrize(("version", "asked"), [(0, 2), (2, 1)])
def test_a_transaction_of_which_nothing_was_sent_needs_a_new_epoch_in_older_versions_only(version, asked):
    """Seed 1007374: asked for again at a coordinator that forgot, the epoch fences who has it."""
    story = Story(version)
    assert not story.call(story.producer.init_transactions, story.ground.now).error
    story.ground.leaders.clear()
    story.begin()
    assert story.call(story.producer.abort, story.ground.now).error is ErrorCode.NONE
    assert (story.producer.version, len(story.ground.requests(INIT_PRODUCER_ID))) == (version, asked)
    assert not story.ground.requests(END)
    assert story.producer.identity == (7, story.epoch)
    story.producer.begin()


def test_nor_does_one_after_a_transaction_whose_records_may_have_been_taken():
    story = Story(VERSION_2)
    assert not story.call(story.producer.init_transactions, story.ground.now).error
    story.begin()
    assert story.call(story.producer.abort, story.ground.now).error is ErrorCode.NONE
    story.producer.begin()
    assert story.call(story.producer.commit, story.ground.now).error is ErrorCode.NONE
    assert len(story.ground.requests(INIT_PRODUCER_ID)) == len(story.ground.requests(END)) == 1
    assert story.producer.identity == (7, 1)


def test_batches_that_wait_end_at_once_when_the_transaction_has_failed():
    """Java's producer fails them with what made the transaction fail; they waited for the delivery timeout."""
    story = Story(VERSION_2)
    assert not story.call(story.producer.init_transactions, story.ground.now).error

    def fenced(_broker, request, reply):
        (topic,) = request.topic_data
        (data,), code = topic.partition_data, ErrorCode.INVALID_PRODUCER_EPOCH
        part = PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1)
        answered = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[part])
        story.ground.later(100, lambda: reply(ProduceResponse(responses=[answered])))

    story.ground.handlers[PRODUCE] = fenced
    begun = story.ground.now.mono
    story.producer.begin()
    for _ in range(8):
        story.ground.call(story.producer.send, "t", bytes(10_000), story.ground.now)
    found = []
    assert story.ground.run_until(lambda: found.extend(story.producer.take_deliveries()) or len(found) == 8, 10_000)
    assert {each.error for each in found} == {ErrorCode.INVALID_PRODUCER_EPOCH}
    assert len(story.ground.requests(PRODUCE)) < 8
    assert story.ground.now.mono - begun < 1_000, "the delivery timeout is 2 s"
