"""Fetching: one request at a time to each broker, for the partitions with nothing buffered, and the buffer that records
are returned from.

A partition is fetched from its leader, or from the replica that the leader named as closer (KIP-392). The epoch of the
last record read lets the leader detect that the logs diverge (KIP-320); reading then resumes where they diverge.
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
from tidelog.client.waiting import Troubles, lasting
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


class FetchedBatches(NamedTuple):
    """One partition's fetched data, undecoded. `batches` are those in `raw` with records to read; records below `start`
    must be skipped."""

    partition: TopicPartition
    start: int
    raw: bytes
    batches: list[records.BatchHeader]


@dataclass(slots=True, eq=False)
class _Buffered:
    """What is left of one partition's data; obsolete as soon as the position's version differs."""

    partition: TopicPartition
    version: int
    raw: bytes
    batches: Iterator[records.BatchHeader]
    content: Iterator[ConsumerRecord]


class Fetcher:
    """Keeps the buffer filled for all partitions that have an offset and are not paused."""

    def __init__(self, cluster: Cluster, positions: Positions, options: ConsumerOptions) -> None:
        self._cluster = cluster
        self._positions = positions
        self._options = options
        self._isolation_level = isolation_level(options)
        self._buffer: deque[_Buffered] = deque()
        self._busy_nodes: set[int] = set()
        self.events: list[Event] = []
        self._last_advance = 0
        self._troubles = Troubles()
        self._unready: dict[TopicPartition, int] = {}
        """Partitions without a leader or an offset, and since when `waits` has seen them so."""

    def __repr__(self) -> str:
        return f"<Fetcher {len(self._buffer)} buffered, asking {sorted(self._busy_nodes)}>"

    # Returning records.

    def take(self, max_records: int, now: Time) -> list[ConsumerRecord]:
        """The next records, at most `max_records`, partition by partition; positions move along."""
        taken: list[ConsumerRecord] = []
        paused: list[_Buffered] = []
        while self._buffer and len(taken) < max_records:
            buffered = self._buffer[0]
            position = self._positions.by_partition.get(buffered.partition)
            if position is None or position.version != buffered.version:
                self._buffer.popleft()
            elif position.is_paused:
                paused.append(self._buffer.popleft())
            elif self._take_from(buffered, position, taken, max_records, now):
                self._buffer.popleft()
        self._buffer.extendleft(reversed(paused))
        return taken

    def take_batches(self, now: Time) -> list[FetchedBatches]:
        """Everything that is buffered, undecoded; positions move behind it."""
        taken: list[FetchedBatches] = []
        waiting, self._buffer = self._buffer, deque()
        for buffered in waiting:
            position = self._positions.by_partition.get(buffered.partition)
            if position is not None and position.version == buffered.version:
                if position.is_paused:
                    self._buffer.append(buffered)
                    continue
                fetched = FetchedBatches(buffered.partition, position.offset, buffered.raw, [])
                self._hand_out(buffered, position, buffered.batches, fetched.batches.append, now)
                taken.append(fetched)
        return taken

    def _take_from(
        self, buffered: _Buffered, position: PartitionPosition, taken: list[ConsumerRecord], max_records: int, now: Time
    ) -> bool:
        """Returns whether the buffered data is exhausted."""
        left = max_records - len(taken)
        self._hand_out(buffered, position, islice(buffered.content, left), taken.append, now)
        return len(taken) < max_records

    def _hand_out(
        self, buffered: _Buffered, position: PartitionPosition, content: Iterator[T], on: Callable[[T], None], now: Time
    ) -> None:
        """Pass on what can be read; report what cannot, and retry from there."""
        try:
            for each in content:
                on(each)
        except ApiError as error:
            self._report_failure(
                buffered.partition, position, error.code, f"{buffered.partition} at {position.offset}: {error}", now
            )

    def _batches(
        self, position: PartitionPosition, raw: bytes, aborted: Sequence[AbortedTransaction]
    ) -> Iterator[records.BatchHeader]:
        """The batches with records to return, without those of aborted transactions. The position also moves over
        batches without such records (control batches, the end of a compacted batch)."""
        is_aborted = AbortedFilter(aborted, self._isolation_level)
        for batch in records.batches(raw):
            if batch.next_offset > position.offset:
                if self._options.check_crcs:
                    records.check_crc(raw, batch)
                if not is_aborted(raw, batch) and not batch.is_control:
                    yield batch
                position.offset = max(position.offset, batch.next_offset)
                position.epoch = batch.leader_epoch

    @staticmethod
    def _read(
        partition: TopicPartition, position: PartitionPosition, raw: bytes, batches: Iterator[records.BatchHeader]
    ) -> Iterator[ConsumerRecord]:
        """Their records from the position's offset on; the position moves with each."""
        topic, number = partition
        for batch in batches:
            start = position.offset
            time_type = batch.timestamp_type
            for offset, timestamp, key, value, headers in records.records(raw, batch):
                if offset >= start:
                    position.offset = offset + 1
                    position.epoch = batch.leader_epoch
                    yield ConsumerRecord(
                        topic, number, offset, timestamp, key, value, headers, batch.leader_epoch, time_type
                    )

    # Requests.

    def advance(self, now: Time) -> None:
        self._last_advance = now.mono
        buffered = {item.partition for item in self._buffer if self._is_current(item)}
        by_node: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for partition, position in self._positions.by_partition.items():
            if position.is_paused or partition in buffered or not position.needs(Need.NOTHING, now.mono):
                continue
            node = self._node_for(partition, position, now)
            if node is None or not self._cluster.network.is_usable(node, now.mono):
                self._cluster.request_metadata_update(now)
            elif node not in self._busy_nodes:
                by_node[node].append(partition)
        for node, partitions in by_node.items():
            self._send_fetch(node, partitions, now)

    @property
    def deadline(self) -> int | None:
        """When the next partition is due for a retry."""
        last = self._last_advance
        waiting = [position.retry_at for position in self._positions.by_partition.values() if position.retry_at > last]
        return min(waiting) if waiting else None

    def _is_current(self, buffered: _Buffered) -> bool:
        position = self._positions.by_partition.get(buffered.partition)
        return position is not None and position.version == buffered.version

    def _node_for(self, partition: TopicPartition, position: PartitionPosition, now: Time) -> int | None:
        if position.read_replica >= 0:
            if now.mono < position.read_replica_until and position.read_replica in self._cluster.metadata.brokers:
                return position.read_replica
            position.read_replica = -1
        return self._cluster.metadata.leader(partition)

    def _send_fetch(self, node: int, partitions: Sequence[TopicPartition], now: Time) -> None:
        metadata = self._cluster.metadata
        topics = []
        requested: dict[TopicPartition, int] = {}
        for topic, numbers in by_topic(partitions):
            wanted = FetchTopic(topic=topic, topic_id=metadata.topic_id(topic))
            for number in numbers:
                partition = TopicPartition(topic, number)
                position = self._positions.by_partition[partition]
                position.is_busy = True
                requested[partition] = position.version
                wanted.partitions.append(self._partition_request(partition, position))
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
        handle = partial(self._answered, requested, names)
        self._cluster.send_request(node, request, handle, now, timeout_ms=timeout, newest=newest)

    def _partition_request(self, partition: TopicPartition, position: PartitionPosition) -> FetchPartition:
        return FetchPartition(
            partition=partition.partition,
            current_leader_epoch=self._cluster.metadata.leader_epoch(partition),
            fetch_offset=position.offset,
            last_fetched_epoch=position.epoch,
            partition_max_bytes=self._options.max_partition_fetch_bytes,
        )

    def waits(self, now: Time, patience_ms: int) -> list[str]:
        """Why partitions have not been read for at least `patience_ms`, in words."""
        found: list[tuple[int, str]] = []
        for partition, position in self._positions.by_partition.items():
            since = self._troubles.since(partition)
            if since is None and (position.offset is None or self._cluster.metadata.leader(partition) is None):
                since = self._unready.setdefault(partition, now.mono)
            else:
                self._unready.pop(partition, None)
            if since is not None:
                found.append((since, self._troubles.reason(self._cluster, partition)))
        return lasting(found, now.mono, patience_ms)

    # Answers.

    def _answered(
        self, requested: Mapping[TopicPartition, int], names: Mapping[bytes, str], answer: Answer, now: Time
    ) -> None:
        self._busy_nodes.discard(answer.node)
        by_partition = {
            partition: position
            for partition, version in requested.items()
            if (position := self._positions.by_partition.get(partition)) is not None and position.version == version
        }
        for position in by_partition.values():
            position.is_busy = False
        code = answer.fault or code_of(answer.response.error_code)
        if code:
            self._cluster.request_metadata_update(now)
            for partition, position in by_partition.items():
                self._troubles.note(partition, code, None, now.mono)
                self._back_off(position, now)
            return
        self._cluster.learn_endpoints(answer.response.node_endpoints)
        for partition, data in _partitions(answer.response.responses, names):
            if partition in by_partition:
                self._handle_partition(partition, by_partition[partition], data, now)

    def _handle_partition(
        self, partition: TopicPartition, position: PartitionPosition, data: PartitionData, now: Time
    ) -> None:
        code = code_of(data.error_code)
        if code:
            self._troubles.note(partition, code, None, now.mono)
            self._handle_error(partition, position, code, data, now)
            return
        self._troubles.clear(partition)
        position.failures = 0
        position.high_watermark = data.high_watermark
        position.last_stable_offset = data.last_stable_offset
        position.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            self._read_from_replica(position, data.preferred_read_replica, now)
        if data.diverging_epoch.end_offset >= 0:
            self._truncated(partition, position, data.diverging_epoch.end_offset, data.diverging_epoch.epoch)
        elif data.records:
            raw = bytes(data.records)  # type: ignore[arg-type]  # a view into the frame, which is reused after the call
            batches = self._batches(position, raw, data.aborted_transactions or ())
            content = self._read(partition, position, raw, batches)
            self._buffer.append(_Buffered(partition, position.version, raw, batches, content))

    def _read_from_replica(self, position: PartitionPosition, replica: int, now: Time) -> None:
        """Read from the replica that the leader prefers. If the metadata does not have that broker yet, update it
        first: otherwise the leader is asked again and gives the same answer, without end."""
        if replica in self._cluster.metadata.brokers:
            position.read_replica = replica
            position.read_replica_until = now.mono + self._options.metadata_max_age_ms
        else:
            self._cluster.request_metadata_update(now)
            self._back_off(position, now)

    def _truncated(self, partition: TopicPartition, position: PartitionPosition, end_offset: int, epoch: int) -> None:
        offset = min(end_offset, position.offset)
        self.events.append(Truncated(partition, position.offset, offset))
        position.move(offset, epoch)

    def _handle_error(
        self, partition: TopicPartition, position: PartitionPosition, code: ErrorCode, data: PartitionData, now: Time
    ) -> None:
        position.read_replica, was_replica = -1, position.read_replica >= 0
        if code is ErrorCode.OFFSET_OUT_OF_RANGE and not was_replica:
            to = RESETS[self._options.auto_offset_reset]
            if to is None:
                reason = f"{partition} has no offset {position.offset}, and auto.offset.reset is none"
                self._report_failure(partition, position, code, reason, now)
            else:
                position.reset(to)
        elif code in RETRIABLE or code is ErrorCode.OFFSET_OUT_OF_RANGE:
            leader = data.current_leader
            if not self._cluster.metadata.learn_leader(partition, leader.leader_id, leader.leader_epoch):
                self._cluster.request_metadata_update(now)
                self._back_off(position, now)
        else:
            self._report_failure(partition, position, code, f"{partition} cannot be fetched: {code.name}", now)

    def _back_off(self, position: PartitionPosition, now: Time) -> None:
        position.failed(now.mono, self._options.retry_backoff_ms, self._options.retry_backoff_max_ms)

    def _report_failure(
        self, partition: TopicPartition, position: PartitionPosition, code: ErrorCode, reason: str, now: Time
    ) -> None:
        """Report the failure and retry after a backoff: the cause may be repaired meanwhile."""
        self.events.append(Failed(code, reason, (partition,)))
        self._back_off(position, now)


class AbortedFilter:
    """Whether a batch belongs to an aborted transaction. Batches must be passed in log order: a listed transaction
    begins at its first offset and ends at its producer's abort marker."""

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
        for data in topic.partitions:
            yield TopicPartition(name, data.partition_index), data
