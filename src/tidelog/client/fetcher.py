"""Fetching: one request to each broker at a time, for the partitions that have nothing buffered, and the buffer that
records are handed out from.

A partition is fetched from its leader, or from the replica that the leader named as closer (KIP-392). What was read is
checked against the leader's log by the epoch of the last record (KIP-320): where they part, reading goes back there.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from tidelog.client.cluster import Cluster, by_topic
from tidelog.client.link import Answer
from tidelog.client.options import ConsumerOptions
from tidelog.client.positions import EARLIEST, LATEST, Need, PartitionPosition, Positions
from tidelog.client.results import ConsumerRecord, Event, Failed, Truncated, code_of
from tidelog.errors import RETRIABLE, ApiError, ErrorCode
from tidelog.model import NO_ID, Time, TopicPartition
from tidelog.wire import records
from tidelog.wire.messages.records.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)

T = TypeVar("T")

READ_COMMITTED = 1
_NEWEST_WITH_NAMES = 12

RESETS: Mapping[str, int | None] = {"earliest": EARLIEST, "latest": LATEST, "none": None}
"""The values of `auto.offset.reset`."""


class Whole(NamedTuple):
    """One partition's answer for who decodes it himself: `batches` are those in `raw` that hold records to be read, of
    which those below `start` are not wanted."""

    partition: TopicPartition
    start: int
    raw: bytes
    batches: list[records.BatchHeader]


@dataclass(slots=True, eq=False)
class _Buffered:
    """What is left of one partition's answer; of no use once the place has made another turn."""

    partition: TopicPartition
    turn: int
    raw: bytes
    batches: Iterator[records.BatchHeader]
    content: Iterator[ConsumerRecord]


class Fetcher:
    """Keeps the buffer filled for all places that are known and not paused."""

    def __init__(self, cluster: Cluster, positions: Positions, options: ConsumerOptions) -> None:
        self._cluster = cluster
        self._positions = positions
        self._options = options
        self._isolation_level = isolation_level(options)
        self._buffer: deque[_Buffered] = deque()
        self._busy_nodes: set[int] = set()
        self.events: list[Event] = []
        self._seen = 0

    def __repr__(self) -> str:
        return f"<Fetcher {len(self._buffer)} buffered, asking {sorted(self._busy_nodes)}>"

    # Handing out.

    def take(self, most: int, now: Time) -> list[ConsumerRecord]:
        """The next records, at most that many, partition by partition; positions move with them."""
        taken: list[ConsumerRecord] = []
        paused: list[_Buffered] = []
        while self._buffer and len(taken) < most:
            buffered = self._buffer[0]
            place = self._positions.places.get(buffered.partition)
            if place is None or place.turn != buffered.turn:
                self._buffer.popleft()
            elif place.is_paused:
                paused.append(self._buffer.popleft())
            elif self._take_from(buffered, place, taken, most, now):
                self._buffer.popleft()
        self._buffer.extendleft(reversed(paused))
        return taken

    def take_whole(self, now: Time) -> list[Whole]:
        """Everything that is there, answer by answer; positions move behind it."""
        taken: list[Whole] = []
        waiting, self._buffer = self._buffer, deque()
        for buffered in waiting:
            place = self._positions.places.get(buffered.partition)
            if place is not None and place.turn == buffered.turn:
                if place.is_paused:
                    self._buffer.append(buffered)
                    continue
                whole = Whole(buffered.partition, place.offset, buffered.raw, [])
                self._pass(buffered, place, buffered.batches, whole.batches.append, now)
                taken.append(whole)
        return taken

    def _take_from(
        self, buffered: _Buffered, place: PartitionPosition, taken: list[ConsumerRecord], most: int, now: Time
    ) -> bool:
        """Whether nothing is left."""
        left = most - len(taken)
        self._pass(buffered, place, islice(buffered.content, left), taken.append, now)
        return len(taken) < most

    def _pass(
        self, buffered: _Buffered, place: PartitionPosition, content: Iterator[T], on: Callable[[T], None], now: Time
    ) -> None:
        """Hand on what can be read; what cannot is told, and tried again from there."""
        try:
            for each in content:
                on(each)
        except ApiError as error:
            self._fail(buffered.partition, place, error.code, f"{buffered.partition} at {place.offset}: {error}", now)

    def _batches(
        self, place: PartitionPosition, raw: bytes, aborted: Sequence[AbortedTransaction]
    ) -> Iterator[records.BatchHeader]:
        """The batches of an answer that records are handed out of, those of aborted transactions left out. What no
        record is handed out of (control batches, the end of a compacted batch) moves the place too."""
        is_aborted = _Aborted(aborted, self._isolation_level)
        for batch in records.batches(raw):
            if batch.next_offset > place.offset:
                if self._options.check_crcs:
                    records.check_crc(raw, batch)
                if not is_aborted(raw, batch) and not batch.is_control:
                    yield batch
                place.offset = max(place.offset, batch.next_offset)
                place.epoch = batch.leader_epoch

    @staticmethod
    def _read(
        partition: TopicPartition, place: PartitionPosition, raw: bytes, batches: Iterator[records.BatchHeader]
    ) -> Iterator[ConsumerRecord]:
        """Their records, from the place's offset on; the place moves with each."""
        topic, number = partition
        for batch in batches:
            start = place.offset
            time_type = batch.timestamp_type
            for offset, timestamp, key, value, headers in records.records(raw, batch):
                if offset >= start:
                    place.offset = offset + 1
                    place.epoch = batch.leader_epoch
                    yield ConsumerRecord(
                        topic, number, offset, timestamp, key, value, headers, batch.leader_epoch, time_type
                    )

    # Asking.

    def advance(self, now: Time) -> None:
        self._seen = now.mono
        buffered = {item.partition for item in self._buffer if self._is_current(item)}
        by_node: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for place_of, place in self._positions.places.items():
            if place.is_paused or place_of in buffered or not place.wants(Need.NOTHING, now.mono):
                continue
            node = self._node_for(place_of, place, now)
            if node is None or not self._cluster.network.is_usable(node, now.mono):
                self._cluster.want_metadata(now)
            elif node not in self._busy_nodes:
                by_node[node].append(place_of)
        for node, partitions in by_node.items():
            self._ask(node, partitions, now)

    @property
    def deadline(self) -> int | None:
        """The next partition that is to be tried again."""
        seen = self._seen
        waiting = [place.retry_at for place in self._positions.places.values() if place.retry_at > seen]
        return min(waiting) if waiting else None

    def _is_current(self, buffered: _Buffered) -> bool:
        place = self._positions.places.get(buffered.partition)
        return place is not None and place.turn == buffered.turn

    def _node_for(self, partition: TopicPartition, place: PartitionPosition, now: Time) -> int | None:
        if place.read_replica >= 0:
            if now.mono < place.read_replica_until and place.read_replica in self._cluster.metadata.brokers:
                return place.read_replica
            place.read_replica = -1
        return self._cluster.metadata.leader(partition)

    def _ask(self, node: int, partitions: Sequence[TopicPartition], now: Time) -> None:
        metadata = self._cluster.metadata
        topics = []
        asked: dict[TopicPartition, int] = {}
        for topic, numbers in by_topic(partitions):
            wanted = FetchTopic(topic=topic, topic_id=metadata.topic_id(topic))
            for number in numbers:
                partition = TopicPartition(topic, number)
                place = self._positions.places[partition]
                place.is_busy = True
                asked[partition] = place.turn
                wanted.partitions.append(self._question(partition, place))
            topics.append(wanted)
        request = FetchRequest(
            max_wait_ms=self._options.fetch_max_wait_ms,
            min_bytes=self._options.fetch_min_bytes,
            max_bytes=self._options.fetch_max_bytes,
            isolation_level=self._isolation_level,
            topics=topics,
            rack_id=self._options.client_rack,
        )
        self._busy_nodes.add(node)
        names = {topic.topic_id: topic.topic for topic in topics}
        newest = _NEWEST_WITH_NAMES if NO_ID in names else 32767
        timeout = self._options.request_timeout_ms + self._options.fetch_max_wait_ms
        handle = partial(self._answered, asked, names)
        self._cluster.ask(node, request, handle, now, timeout_ms=timeout, newest=newest)

    def _question(self, partition: TopicPartition, place: PartitionPosition) -> FetchPartition:
        return FetchPartition(
            partition=partition.partition,
            current_leader_epoch=self._cluster.metadata.leader_epoch(partition),
            fetch_offset=place.offset,
            last_fetched_epoch=place.epoch,
            partition_max_bytes=self._options.max_partition_fetch_bytes,
        )

    # Answers.

    def _answered(
        self, asked: Mapping[TopicPartition, int], names: Mapping[bytes, str], answer: Answer, now: Time
    ) -> None:
        self._busy_nodes.discard(answer.node)
        places = {
            partition: place
            for partition, turn in asked.items()
            if (place := self._positions.places.get(partition)) is not None and place.turn == turn
        }
        for place in places.values():
            place.is_busy = False
        code = answer.fault or code_of(answer.response.error_code)
        if code:
            self._cluster.want_metadata(now)
            for place in places.values():
                self._back_off(place, now)
            return
        self._cluster.learn_endpoints(answer.response.node_endpoints)
        for partition, told in _partitions(answer.response.responses, names):
            if partition in places:
                self._judge(partition, places[partition], told, now)

    def _judge(self, partition: TopicPartition, place: PartitionPosition, told: PartitionData, now: Time) -> None:
        code = code_of(told.error_code)
        if code:
            self._judge_error(partition, place, code, told, now)
            return
        place.failures = 0
        place.high_watermark = told.high_watermark
        place.last_stable_offset = told.last_stable_offset
        place.log_start_offset = told.log_start_offset
        if told.preferred_read_replica >= 0:
            self._prefer(place, told.preferred_read_replica, now)
        if told.diverging_epoch.end_offset >= 0:
            self._truncated(partition, place, told.diverging_epoch.end_offset, told.diverging_epoch.epoch)
        elif told.records:
            raw = bytes(told.records)  # type: ignore[arg-type]  # a view into the frame, which is about to go
            batches = self._batches(place, raw, told.aborted_transactions or ())
            content = self._read(partition, place, raw, batches)
            self._buffer.append(_Buffered(partition, place.turn, raw, batches, content))

    def _prefer(self, place: PartitionPosition, replica: int, now: Time) -> None:
        """A leader sends to a replica. Where it came back since the metadata were read, these are renewed first: else
        the leader is asked again, and says the same, without end."""
        if replica in self._cluster.metadata.brokers:
            place.read_replica = replica
            place.read_replica_until = now.mono + self._options.metadata_max_age_ms
        else:
            self._cluster.want_metadata(now)
            self._back_off(place, now)

    def _truncated(self, partition: TopicPartition, place: PartitionPosition, end_offset: int, epoch: int) -> None:
        offset = min(end_offset, place.offset)
        self.events.append(Truncated(partition, place.offset, offset))
        place.move(offset, epoch)

    def _judge_error(
        self, partition: TopicPartition, place: PartitionPosition, code: ErrorCode, told: PartitionData, now: Time
    ) -> None:
        place.read_replica, was_replica = -1, place.read_replica >= 0
        if code is ErrorCode.OFFSET_OUT_OF_RANGE and not was_replica:
            to = RESETS[self._options.auto_offset_reset]
            if to is None:
                reason = f"{partition} has no offset {place.offset}, and auto.offset.reset is none"
                self._fail(partition, place, code, reason, now)
            else:
                place.reset(to)
        elif code in RETRIABLE or code is ErrorCode.OFFSET_OUT_OF_RANGE:
            leader = told.current_leader
            if not self._cluster.metadata.learn_leader(partition, leader.leader_id, leader.leader_epoch):
                self._cluster.want_metadata(now)
                self._back_off(place, now)
        else:
            self._fail(partition, place, code, f"{partition} cannot be fetched: {code.name}", now)

    def _back_off(self, place: PartitionPosition, now: Time) -> None:
        place.failed(now.mono, self._options.retry_backoff_ms, self._options.retry_backoff_max_ms)

    def _fail(
        self, partition: TopicPartition, place: PartitionPosition, code: ErrorCode, reason: str, now: Time
    ) -> None:
        """Tell it, and try again after a while: what is wrong may be put right."""
        self.events.append(Failed(code, reason, (partition,)))
        self._back_off(place, now)


class _Aborted:
    """Whether a batch belongs to an aborted transaction, asked for batch after batch in the order of the log: a
    transaction of the list begins at its first offset and ends at its producer's abort marker."""

    def __init__(self, transactions: Sequence[AbortedTransaction], isolation: int) -> None:
        self._coming = deque(sorted(transactions, key=lambda transaction: transaction.first_offset))
        self._producers: set[int] = set()
        self._is_on = isolation == READ_COMMITTED

    def __call__(self, raw: bytes, batch: records.BatchHeader) -> bool:
        if not self._is_on or batch.producer_id < 0:
            return False
        while self._coming and self._coming[0].first_offset <= batch.last_offset:
            self._producers.add(self._coming.popleft().producer_id)
        if batch.is_control:
            marker = next((records.read_marker(record) for record in records.records(raw, batch)), None)
            if marker is not None and not marker.committed:
                self._producers.discard(batch.producer_id)
            return False
        return batch.is_transactional and batch.producer_id in self._producers


def isolation_level(options: ConsumerOptions) -> int:
    return READ_COMMITTED if options.isolation_level == "read_committed" else 0


def _partitions(responses: Sequence[Any], names: Mapping[bytes, str]) -> Iterator[tuple[TopicPartition, PartitionData]]:
    for topic in responses:
        name = topic.topic or names.get(topic.topic_id, "")
        for told in topic.partitions:
            yield TopicPartition(name, told.partition_index), told
