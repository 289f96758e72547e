"""Compaction of this broker's replicas: which log is next, one pass at a time, in slices between other work.

Requests come first: they are served between two slices, which are smaller while some arrive. A log that cannot be
compacted is skipped, reported, and retried later; the others continue (in older Kafka versions a dead cleaner thread
stopped compaction for all logs).
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from tidelog.alarms import Alarm
from tidelog.config.broker import BrokerConfig
from tidelog.effects import Effect, Event, Remove, Sync
from tidelog.errors import CorruptLog, DiskFailed, DiskFull
from tidelog.log.compaction.candidates import Candidate, candidate, dirtiest
from tidelog.log.compaction.compactor import Compacted, compact
from tidelog.log.compaction.steps import Call, Flush, Steps, Unneeded
from tidelog.model import Time, TopicPartition
from tidelog.node.replicas import HeldReplicas
from tidelog.partition.partition import Partition

SLICE_BYTES = 64 * 1024
SMALL_SLICE_BYTES = 16 * 1024
"""What an arriving request may have to wait for: some fifty microseconds, or the reading of one long batch."""
SECOND_MS = 1000
MIN_STEP_BYTES = SMALL_SLICE_BYTES
"""What a step counts that looked at many records of one batch."""
RETRY_MS = 60_000


class Uncleanable(NamedTuple):
    """Why a log cannot be compacted, and when it is tried again (monotonic ms)."""

    reason: str
    retry_at: int


class Pass(NamedTuple):
    partition: Partition
    steps: Steps[Compacted | None]
    began: int


class Cleaning:
    """`uncleanable` is what an operator should look at."""

    def __init__(
        self,
        config: BrokerConfig,
        replicas: HeldReplicas,
        out: list[Effect],
        on_cleaned: Callable[[], None],
        compute: Callable[[Call, Callable[[Any], None]], None],
    ) -> None:
        """`compute` has a call carried out off the event loop, and hands its result to the function."""
        self._on_cleaned = on_cleaned
        self._compute = compute
        self._result: Any = None
        """Of the call that the present pass waited for."""
        self._enabled = config.log_cleaner_enable
        self.configure(config)
        self._replicas = replicas
        self._out = out
        self._tokens = count(-1, -1)
        self._pass: Pass | None = None
        self._waiting_for: int | None = None
        self.alarm = Alarm()
        self.served = 0
        """Requests of others so far."""
        self._served_before = 0
        self._worked = 0
        """Bytes since the last rest."""
        self._owed_ms = 0.0
        self._uncleanable: dict[TopicPartition, Uncleanable] = {}

    def __repr__(self) -> str:
        what = f"at {self._pass.partition.name}" if self._pass is not None else "idle"
        return f"<Cleaning {what}, {len(self._uncleanable)} uncleanable>"

    def configure(self, config: BrokerConfig) -> None:
        """A pass in progress continues with its former options."""
        self._backoff_ms = max(1, config.log_cleaner_backoff_ms)
        self._memory_bytes = config.log_cleaner_dedupe_buffer_size
        self._bytes_per_second = config.log_cleaner_io_max_bytes_per_second

    def forget(self, name: TopicPartition) -> None:
        """The replica was deleted, or moved away."""
        self._uncleanable.pop(name, None)

    @property
    def uncleanable(self) -> Mapping[TopicPartition, Uncleanable]:
        return self._uncleanable

    def start(self, now: Time) -> None:
        if self._enabled:
            self.alarm.set(now.mono + self._backoff_ms)

    def wake(self, now: Time) -> None:
        if self._pass is None:
            self._choose(now)
        if self._pass is not None:
            self._run_slice(self._pass, now)

    def _choose(self, now: Time) -> None:
        """Begin with the dirtiest log, or look again after a while."""
        self.alarm.set(now.mono + self._backoff_ms)
        by_log = {partition.log: partition for partition in self._compacted(now)}
        try:
            found = dirtiest(self._candidate(partition, now) for partition in by_log.values())
        except DiskFailed as failure:
            self._replicas.disk_failed(failure)
            return
        if found is not None:
            steps = compact(found, now.wall, self._memory_bytes)
            self._pass = Pass(by_log[found.log], steps, now.mono)

    def _compacted(self, now: Time) -> list[Partition]:
        """The partitions that are to be compacted and can be, as far as is known."""
        retried = [name for name, failure in self._uncleanable.items() if failure.retry_at <= now.mono]
        for name in retried:
            del self._uncleanable[name]
        return [
            partition
            for partition in self._replicas
            if "compact" in partition.config.cleanup_policy
            and not (partition.failed or partition.log.failed or partition.name in self._uncleanable)
        ]

    def _candidate(self, partition: Partition, now: Time) -> Candidate:
        """Only durable records may replace durable ones: a power loss would leave neither."""
        stable = min(partition.last_stable_offset, partition.log.recovery_point)
        return candidate(partition.log, stable, now.wall)

    def _run_slice(self, current: Pass, now: Time) -> None:
        """Work for a slice, or up to where something must be durable."""
        try:
            left = self._slice_bytes()
            while left > 0:
                result, self._result = self._result, None
                step = current.steps.send(result)
                if isinstance(step, Call):
                    self.alarm.set(None)
                    self._compute(step, partial(self._called, current))
                    return
                if isinstance(step, Flush):
                    self._waiting_for = next(self._tokens)
                    self.alarm.set(None)
                    self._out.append(Sync(self._waiting_for, step.files))
                    return
                if isinstance(step, Unneeded):
                    self._out.extend(Remove(path) for path in step.paths)
                else:
                    self._worked += step.bytes
                    left -= step.bytes or MIN_STEP_BYTES
        except StopIteration as end:
            self._ended(current, end.value, now)
        except CorruptLog as error:
            self._failed(current, str(error), now)
        except DiskFull as full:
            self._failed(current, "no room for what is to replace it", now)
            self._replicas.disk_failed(full)
        except DiskFailed as failure:
            self._end_pass(now)
            self._replicas.disk_failed(failure)
        else:
            self._schedule_next_slice(now)

    def _slice_bytes(self) -> int:
        """Small, if requests came in since the last slice."""
        quiet = self.served == self._served_before
        self._served_before = self.served
        return SLICE_BYTES if quiet else SMALL_SLICE_BYTES

    def _schedule_next_slice(self, now: Time) -> None:
        """Wait as long as `log.cleaner.io.max.bytes.per.second` requires."""
        if self._bytes_per_second:
            self._owed_ms += self._worked * SECOND_MS / self._bytes_per_second
        self._worked = 0
        pause = int(self._owed_ms)
        self._owed_ms -= pause
        self.alarm.set(now.mono + pause)

    def _ended(self, current: Pass, result: Compacted | None, now: Time) -> None:
        self._pass = None
        self.alarm.set(now.mono)
        name = current.partition.name
        if result is None:
            self._out.append(Event("log.compaction.abandoned", {"partition": str(name)}, level="debug"))
            self.alarm.set(now.mono + self._backoff_ms)
            return
        fields = {
            "partition": str(name),
            "end": result.end,
            "bytes_before": result.bytes_before,
            "bytes_after": result.bytes_after,
            "took_ms": now.mono - current.began,
        }
        self._out.append(Event("log.compacted", fields))
        self._on_cleaned()

    def _failed(self, current: Pass, reason: str, now: Time) -> None:
        self._end_pass(now)
        name = current.partition.name
        self._uncleanable[name] = Uncleanable(reason, now.mono + RETRY_MS)
        self._out.append(Event("log.uncleanable", {"partition": str(name), "reason": reason}, level="error"))

    def _end_pass(self, now: Time) -> None:
        self._pass = self._waiting_for = self._result = None
        self.alarm.set(now.mono + self._backoff_ms)

    # Calls and syncs.

    def _called(self, current: Pass, result: Any) -> None:
        if self._pass is current:
            self._result = result
            self.alarm.set(current.began)  # at once

    def synced(self, token: int, now: Time) -> None:
        if token == self._waiting_for:
            self._waiting_for = None
            self._schedule_next_slice(now)

    def sync_failed(self, token: int, now: Time) -> None:
        """The folder is offline: nothing of it is compacted any more."""
        if token == self._waiting_for:
            self.close()
            self._end_pass(now)

    def close(self) -> None:
        """The node stops, or the disk refused: what was not exchanged yet is thrown away."""
        if self._pass is not None:
            self._pass.steps.close()
            self._pass = None
        self.alarm.set(None)
