"""The partitions of a ground's topic as logs that append and serve record batches, and check sequences as Kafka does."""

from collections import defaultdict

from tests.client.ground import FETCH, LIST_OFFSETS, PRODUCE
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.wire import records
from tidelog.wire.messages.records.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tidelog.wire.messages.records.offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.wire.messages.records.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse


class PartitionLog:
    """Batches in order; the last five of every producer, to know a retry."""

    def __init__(self):
        self.batches = []
        self.end = 0
        self.start = 0
        self.producers = {}

    def append(self, raw, epoch):
        """(error, base offset)."""
        batch = records.only_batch(raw)
        records.check_crc(raw, batch)
        if batch.producer_id >= 0:
            code, offset = self._check(batch)
            if code is not None:
                return code, offset
        stamped = bytearray(raw)
        records.stamp(stamped, 0, self.end, epoch)
        if batch.producer_id >= 0:
            self.producers[batch.producer_id][1].append((batch.base_sequence, batch.last_sequence, self.end))
        self.batches.append(bytes(stamped))
        base, self.end = self.end, self.end + batch.count
        return ErrorCode.NONE, base

    def _check(self, batch):
        epoch, window = self.producers.setdefault(batch.producer_id, (batch.producer_epoch, []))
        if batch.producer_epoch < epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if batch.producer_epoch > epoch:
            if batch.base_sequence != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self.producers[batch.producer_id] = (batch.producer_epoch, [])
            return None, -1
        for first, last, offset in window[-5:]:
            if (first, last) == (batch.base_sequence, batch.last_sequence):
                return ErrorCode.NONE, offset
        expected = (window[-1][1] + 1) & records.MAX_SEQUENCE if window else 0
        if batch.base_sequence != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        return None, -1

    def read(self, offset):
        return b"".join(raw for raw in self.batches if records.header(raw).next_offset > offset)

    def values(self):
        return [record.value for raw in self.batches for record in records.records(raw)]


class Logs:
    """Produce, Fetch and ListOffsets of a ground, answered from logs; `mood` may name an error for a partition."""

    def __init__(self, ground):
        self.ground = ground
        self.logs = defaultdict(PartitionLog)
        self.mood = lambda _key, _partition, _broker: ErrorCode.NONE
        ground.handlers |= {PRODUCE: self.produce, FETCH: self.fetch, LIST_OFFSETS: self.list_offsets}

    def _code(self, key, partition, broker, epoch=-1):
        leader, current = self.ground.leaders.get(partition, (-1, -1))
        if leader == -1:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if leader != broker:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if epoch not in (-1, current):
            return ErrorCode.FENCED_LEADER_EPOCH if epoch < current else ErrorCode.UNKNOWN_LEADER_EPOCH
        return self.mood(key, partition, broker)

    def _name(self, topic_id, name):
        return name or next(name for name, known in self.ground.topic_ids.items() if known == topic_id)

    def produce(self, broker, request, reply):
        responses = []
        for topic in request.topic_data:
            name = self._name(topic.topic_id, topic.name)
            answers = []
            for data in topic.partition_data:
                partition = TopicPartition(name, data.index)
                code, base = self._code(PRODUCE, partition, broker), -1
                if code is ErrorCode.NONE:
                    code, base = self.logs[partition].append(data.records, self.ground.leaders[partition][1])
                answers.append(PartitionProduceResponse(index=data.index, error_code=code, base_offset=base))
            responses.append(TopicProduceResponse(name=name, topic_id=topic.topic_id, partition_responses=answers))
        if request.acks != 0:
            reply(ProduceResponse(responses=responses))

    def fetch(self, broker, request, reply):
        responses = []
        for topic in request.topics:
            name = self._name(topic.topic_id, topic.topic)
            answers = [
                self._fetch(TopicPartition(name, wanted.partition), wanted, broker) for wanted in topic.partitions
            ]
            responses.append(FetchableTopicResponse(topic=name, topic_id=topic.topic_id, partitions=answers))
        is_empty = not any(answer.records or answer.error_code for topic in responses for answer in topic.partitions)
        self.ground.later(request.max_wait_ms if is_empty else 0, lambda: reply(FetchResponse(responses=responses)))

    def _fetch(self, partition, wanted, broker):
        code = self._code(FETCH, partition, broker, wanted.current_leader_epoch)
        log = self.logs[partition]
        if code is ErrorCode.NONE and not log.start <= wanted.fetch_offset <= log.end:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        answer = PartitionData(partition_index=partition.partition, error_code=code, high_watermark=log.end)
        answer.records = log.read(wanted.fetch_offset) if code is ErrorCode.NONE else b""
        return answer

    def list_offsets(self, broker, request, reply):
        topics = []
        for topic in request.topics:
            answers = []
            for wanted in topic.partitions:
                partition = TopicPartition(topic.name, wanted.partition_index)
                code = self._code(LIST_OFFSETS, partition, broker, wanted.current_leader_epoch)
                offset = self._offset(self.logs[partition], wanted.timestamp)
                answers.append(
                    ListOffsetsPartitionResponse(partition_index=partition.partition, error_code=code, offset=offset)
                )
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        reply(ListOffsetsResponse(topics=topics))

    @staticmethod
    def _offset(log, timestamp):
        if timestamp < 0:
            return {-1: log.end, -2: log.start}[timestamp]
        found = [r.offset for raw in log.batches for r in records.records(raw) if r.timestamp >= timestamp]
        return found[0] if found else -1
