"""Bit rot in old segments: examined when a client reads there, reported, and repaired from another replica.

Meanwhile readers get KAFKA_STORAGE_ERROR, which clients retry; CORRUPT_MESSAGE where no replica has the bytes. Only
committed records are fetched from others (as a consumer), so that a repair never uses records that may be truncated.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import count

from tidelog.alarms import Alarm
from tidelog.effects import Effect, Event, Examine, PeerRequest, Stretch
from tidelog.errors import DiskFailed, ErrorCode
from tidelog.log.compaction.refetching import refetch
from tidelog.log.examination import Fault, Verdict
from tidelog.log.integrity import Unsound, mark_sound, record_verdict, splice
from tidelog.log.log import Log
from tidelog.log.segment import Segment
from tidelog.model import NO_LEADER, Time, TopicPartition
from tidelog.node.replicas import HeldReplicas
from tidelog.partition.leader import Leader
from tidelog.partition.partition import Partition
from tidelog.ports import Buffer
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

OWNER = "repair"
FETCH_BYTES = 8 * 1024 * 1024
WAIT_MS = 2_000
RETRY_MS = 30_000
TRUST_MS = 10_000
"""So long at least what was written or examined is trusted, and not twice as long."""
SLICE = 1_000
"""Replicas whose newest bytes are distrusted in one turn: some two milliseconds."""


@dataclass(slots=True, eq=False)
class DamagedReplica:
    """A segment as it was when it was read: results of its examination are void if the log was truncated since."""

    partition: Partition
    log: Log
    segment: Segment
    removals: int

    @property
    def is_current(self) -> bool:
        log = self.log
        is_same = self.partition.log is log and not log.failed and log.removals == self.removals
        return is_same and self.segment in list(log.segments)


@dataclass(slots=True, eq=False)
class Repair:
    """One bad batch. `requested`: brokers that did not have it, or have not answered; `retry_at`: when all are asked
    again; `unwritten`: a broker had it, but the disk had no room, or it is written by the next compaction."""

    damaged: DamagedReplica
    fault: Fault
    requested: list[int] = field(default_factory=list)
    retry_at: int | None = None
    unwritten: bool = False


class Integrity:
    """`repairs` is what an operator should look at."""

    def __init__(
        self,
        broker_id: int,
        replicas: HeldReplicas,
        effects: list[Effect],
        alive: Callable[[], Collection[int]],
        now: Callable[[], Time],
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._effects = effects
        self._alive = alive
        self._now = now
        self._tokens = count(1)
        self._examining: dict[int, tuple[DamagedReplica, Stretch]] = {}
        self._requests: dict[int, Repair] = {}
        self._examined: set[Segment] = set()
        self._aging: Iterator[int] | None = None
        """The rest of a distrust that has begun; the next one begins at `_next_aging` (monotonic ms)."""
        self._next_aging = 0
        self.alarm = Alarm()
        self.repairs: dict[tuple[Segment, int], Repair] = {}

    def __repr__(self) -> str:
        return f"<Integrity {len(self._examining)} examined, {len(self.repairs)} faults>"

    @property
    def damaged(self) -> dict[TopicPartition, str]:
        """Replicas with batches that could not be repaired so far: the first of each, and why."""
        lasting = (repair for repair in self.repairs.values() if repair.retry_at is not None)
        found: dict[TopicPartition, str] = {}
        for repair in sorted(lasting, key=lambda repair: repair.fault.offset):
            if repair.damaged.is_current:
                why = "its repair is not written yet" if repair.unwritten else "no replica could replace it"
                first = f"the batch at offset {repair.fault.offset}: {repair.fault.reason}; {why}"
                found.setdefault(repair.damaged.partition.name, first)
        return found

    def start(self, now: Time) -> None:
        self.alarm.set(now.mono + TRUST_MS)

    def wake(self, now: Time) -> None:
        """Periodically distrust everything that was written or examined a while ago, in slices."""
        if self._aging is None:
            self._aging, self._next_aging = self._age(), now.mono + TRUST_MS
            self._forget_old_repairs()
        if next(self._aging, None) is None:
            self._aging = None
        self.alarm.set(self._next_aging if self._aging is None else now.mono)

    def _age(self) -> Iterator[int]:
        """Slices, each as many replicas as it looked at, but for the last."""
        examined, self._examined = self._examined, set()
        for segment in examined:
            segment.sound.age(segment.size)
        held = list(self._replicas)
        for start in range(0, len(held), SLICE):
            if start:
                yield SLICE
            for partition in held[start : start + SLICE]:
                segment = partition.log.segments.active
                if segment not in examined:
                    segment.sound.age(segment.size)

    def _forget_old_repairs(self) -> None:
        for key in [key for key, repair in self.repairs.items() if repair.retry_at is not None]:
            if not self.repairs[key].damaged.is_current:
                del self.repairs[key]

    def brokers_came(self) -> None:
        """New brokers may have the missing records: the next read there need not wait for `retry_at`."""
        for repair in self.repairs.values():
            if repair.retry_at is not None and not repair.unwritten:
                repair.retry_at = self._now().mono

    def examine(self, partition: Partition, found: Unsound) -> ErrorCode:
        """A read failed there: NONE if an examination decides (the partition becomes dirty then), else the code."""
        damaged = DamagedReplica(partition, partition.log, found.segment, partition.log.removals)
        if found.stretch is not None:
            self._examine(damaged, found.stretch)
            return ErrorCode.NONE
        assert found.fault is not None
        repair = self.repairs.get((found.segment, found.fault.position))
        if repair is None or not repair.damaged.is_current:
            if found.fault.position == found.segment.size:
                self._report("log.rot", damaged, found.fault, level="error")
                self._examined.add(found.segment)
            repair = self._begin(damaged, found.fault)
        elif repair.retry_at is not None and repair.retry_at <= self._now().mono:
            repair.requested, repair.retry_at, repair.unwritten = [], None, False
            self._request_next(repair)
        is_lost = repair.retry_at is not None and not repair.unwritten
        return ErrorCode.CORRUPT_MESSAGE if is_lost else ErrorCode.KAFKA_STORAGE_ERROR

    def _examine(self, damaged: DamagedReplica, stretch: Stretch) -> None:
        for other, under_way in self._examining.values():
            if other.segment is damaged.segment and (under_way.start, under_way.end) == (stretch.start, stretch.end):
                return
        token = next(self._tokens)
        self._examining[token] = damaged, stretch
        self._effects.append(Examine(token, stretch))

    def examined(self, token: int, verdict: Verdict) -> None:
        damaged, stretch = self._examining.pop(token)
        if damaged.is_current:
            record_verdict(damaged.log, damaged.segment, stretch, verdict)
            self._examined.add(damaged.segment)
            for fault in verdict.faults:
                if (damaged.segment, fault.position) not in self.repairs:
                    self._report("log.rot", damaged, fault, level="error")
                    self._begin(damaged, fault)
        damaged.partition.mark_dirty()

    # Mending.

    def _begin(self, damaged: DamagedReplica, fault: Fault) -> Repair:
        repair = self.repairs[damaged.segment, fault.position] = Repair(damaged, fault)
        self._request_next(repair)
        return repair

    def _request_next(self, repair: Repair) -> None:
        partition = repair.damaged.partition
        first = [] if partition.leader_id in (NO_LEADER, self._broker_id) else [partition.leader_id]
        target = next(
            (
                broker
                for broker in (*first, *partition.replicas)
                if broker != self._broker_id and broker not in repair.requested and broker in self._alive()
            ),
            None,
        )
        if target is None:
            self._mark_unrepairable(repair)
            return
        repair.requested.append(target)
        token = next(self._tokens)
        self._requests[token] = repair
        self._effects.append(PeerRequest(target, _request(partition, repair.fault), OWNER, token))

    def answered(self, token: int, response: FetchResponse | None) -> None:
        repair = self._requests.pop(token)
        damaged = repair.damaged
        if not damaged.is_current:
            self.repairs.pop((damaged.segment, repair.fault.position), None)
            return
        records = response.responses[0].partitions[0].records if response and response.responses else None
        try:
            mended = (
                splice(damaged.log, damaged.segment, repair.fault, records) if isinstance(records, _BYTES) else None
            )
        except DiskFailed as failure:
            repair.retry_at, repair.unwritten = self._now().mono + RETRY_MS, True
            self._replicas.disk_failed(failure)
            return
        if mended is None:
            if isinstance(records, _BYTES) and self._has_all(repair) and self._refetched(repair, records):
                return
            self._request_next(repair)
            return
        del self.repairs[damaged.segment, repair.fault.position]
        damaged.log.segments.refetched.pop((damaged.segment, repair.fault.position), None)
        if mended:
            self._report("log.repaired", damaged, repair.fault, source=repair.requested[-1], bytes=mended)
        damaged.partition.mark_dirty()

    def _has_all(self, repair: Repair) -> bool:
        """Whether the replica that answered has every committed record: what it does not have, it compacted."""
        partition, source = repair.damaged.partition, repair.requested[-1]
        in_sync = partition.role.isr if isinstance(partition.role, Leader) else ()
        return source == partition.leader_id or source in in_sync

    def _refetched(self, repair: Repair, records: Buffer) -> bool:
        """Let the next compaction write what the other replica kept of the batch; until then clients retry."""
        damaged = repair.damaged
        if not refetch(damaged.log, damaged.segment, repair.fault, records, self._now().wall):
            return False
        repair.retry_at, repair.unwritten = self._now().mono + RETRY_MS, True
        self._report("log.refetched", damaged, repair.fault, source=repair.requested[-1])
        damaged.partition.mark_dirty()
        return True

    def _mark_unrepairable(self, repair: Repair) -> None:
        """No replica has it. A batch that only its offsets or epochs make suspicious is accepted then."""
        damaged, fault = repair.damaged, repair.fault
        if fault.sure:
            repair.retry_at = self._now().mono + RETRY_MS
            self._report("log.unrepairable", damaged, fault, level="error")
        else:
            mark_sound(damaged.log, damaged.segment, fault.position, fault.position + max(1, fault.length))
            del self.repairs[damaged.segment, fault.position]
        damaged.partition.mark_dirty()

    def _report(self, kind: str, damaged: DamagedReplica, fault: Fault, *, level: str = "warning", **more: int) -> None:
        fields = {
            "partition": str(damaged.partition.name),
            "segment": damaged.segment.base_offset,
            "position": fault.position,
            "offset": fault.offset,
            "reason": fault.reason,
            **more,
        }
        self._effects.append(Event(kind, fields, level=level))


_BYTES = (bytes, bytearray, memoryview)


def _request(partition: Partition, fault: Fault) -> FetchRequest:
    wanted = FetchPartition(
        partition=partition.name.partition, fetch_offset=max(0, fault.offset), partition_max_bytes=FETCH_BYTES
    )
    topic = FetchTopic(topic=partition.name.topic, topic_id=partition.log.topic_id, partitions=[wanted])
    return FetchRequest(max_wait_ms=WAIT_MS, min_bytes=1, max_bytes=FETCH_BYTES, session_epoch=-1, topics=[topic])
