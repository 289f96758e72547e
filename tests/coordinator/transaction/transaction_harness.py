"""A transaction coordinator under test: one partition of its topic, whose high watermark a test may hold back,
brokers whose answers to markers a test may choose, and time that a test moves."""

from itertools import count

from tidelog.config.broker import BrokerConfig
from tidelog.coordinator.transaction import (
    AddPartitions,
    DescribeTransactions,
    EndTransaction,
    InitProducerId,
    ListTransactions,
    TransactionCoordinator,
)
from tidelog.effects import Append, Event, PeerRequest, Reply
from tidelog.errors import ErrorCode
from tidelog.model import Time, TopicPartition
from tidelog.wire.messages.transactions.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from tidelog.wire.records import header, records, stamp

WALL = 1_700_000_000_000
START = Time(0, WALL)
A, B = TopicPartition("a", 0), TopicPartition("b", 1)
LEADERS = {A: 1, B: 2, TopicPartition("a", 1): 1}


class TransactionHarness:
    """`holding` keeps the high watermark where it is; `refusing` makes appends fail; `markers` are questions to
    brokers that are not answered, unless `answering` answers them at once."""

    def __init__(self, batches=(), *, now=START, epoch=1, high_watermark=None, options=None):
        self.leaders = dict(LEADERS)
        self.ids = count(100) if not batches else count(1000)
        self.coordinator = TransactionCoordinator(
            BrokerConfig({"transaction.state.log.num.partitions": "1", **(options or {})}),
            find=lambda partition, *_: self.leaders.get(partition),
            next_id=lambda: next(self.ids),
        )
        self.now = now
        self.batches = list(batches)
        self.end = header(self.batches[-1]).next_offset if self.batches else 0
        self.holding = high_watermark is not None
        self.high_watermark = self.end if high_watermark is None else high_watermark
        self.refusing = None
        self.answering = True
        self.markers = []
        self.answers = {}
        self.states = []
        self._tokens = count(1)
        self.run(self.coordinator.elected(0, epoch, now))
        self.run(self.coordinator.load(0, self.batches, now))
        self.run(self.coordinator.loaded(0, now))
        self.run(self.coordinator.committed(0, self.high_watermark, now))

    def run(self, effects):
        queue = list(effects)
        while queue:
            effect = queue.pop(0)
            if isinstance(effect, Append):
                queue[:0] = self.append(effect)
            elif isinstance(effect, PeerRequest):
                self.markers.append(effect)
                queue += self.answer() if self.answering else []
            elif isinstance(effect, Reply):
                self.answers[effect.token] = effect.response
            elif isinstance(effect, Event) and effect.kind == "transaction.state":
                self.states.append(effect.fields["state"])
            for machine in self.coordinator.machines():
                machine.check_invariants()

    def append(self, wish):
        if self.refusing is not None:
            return self.coordinator.append_failed(wish.token, self.refusing, self.now)
        buffer = bytearray(wish.batch)
        stamp(buffer, 0, self.end, 0)
        self.batches.append(bytes(buffer))
        first, self.end = self.end, header(buffer).next_offset
        done = self.coordinator.appended(wish.token, first, self.end - 1, self.now)
        if not self.holding:
            self.high_watermark = self.end
            done += self.coordinator.committed(0, self.end, self.now)
        return done

    def commit(self):
        """Everything is replicated by now."""
        self.holding = False
        self.high_watermark = self.end
        self.run(self.coordinator.committed(0, self.end, self.now))

    def answer(self, *, code=ErrorCode.NONE, lost=False):
        """The oldest question about markers gets this code for all, or no answer."""
        asked = self.markers.pop(0)
        return self.coordinator.answered(asked.token, None if lost else marker_response(asked.request, code), self.now)

    def answer_all(self, **how):
        while self.markers:
            self.run(self.answer(**how))

    def elapse(self, ms):
        self.now = Time(self.now.mono + ms, self.now.wall + ms)
        self.run(self.coordinator.wake(self.now))

    def ask(self, asked):
        """The token under which the answer comes."""
        token = next(self._tokens)
        self.run(self.coordinator.handle(token, asked, 1, self.now))
        return token

    def asked(self, asked):
        """The answer, None where it does not come at once."""
        return self.answers.pop(self.ask(asked), None)

    def init(self, name="t", producer_id=-1, epoch=-1, timeout_ms=60_000):
        return self.asked(InitProducerId(name, timeout_ms, producer_id, epoch))

    def add(self, producer_id, epoch, *partitions, name="t", version=2, verify_only=False):
        return self.asked(
            AddPartitions(name, producer_id, epoch, frozenset(partitions or [A]), version, verify_only=verify_only)
        )

    def finish(self, producer_id, epoch, *, commit=True, name="t", version=2):
        return self.asked(EndTransaction(name, producer_id, epoch, commit, version))

    def ask_init(self, name="t"):
        return self.ask(InitProducerId(name, 60_000))

    def ask_add(self, producer_id, epoch, *partitions):
        return self.ask(AddPartitions("t", producer_id, epoch, frozenset(partitions), 2))

    def state(self, name="t"):
        return self.asked(DescribeTransactions([name])).transaction_states[0]

    def list(self, **filters):
        return [found.transactional_id for found in self.asked(ListTransactions(**filters)).transaction_states]

    def successor(self, **how):
        """Another broker replays the partition as far as it is replicated."""
        kept = [batch for batch in self.batches if header(batch).next_offset <= self.high_watermark]
        return TransactionHarness(kept, now=self.now, epoch=2, **how)

    def values(self):
        return [(record.key, record.value) for batch in self.batches for record in records(batch)]


def marker_response(request, code):
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )
