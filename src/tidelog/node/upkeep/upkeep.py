"""All upkeep of a broker's logs, as the node sees it: inputs from the disk's slow work, and periodic jobs.

`Jobs` is one table of what is due by the clock: what, how often, and the function that does it. With thousands of
replicas it is done in slices, one in each turn of the loop.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tidelog.alarms import Alarm
from tidelog.config.broker import BrokerConfig
from tidelog.effects import Effect, Event, Remove, Replace
from tidelog.errors import DiskFailed
from tidelog.log import checkpoints
from tidelog.log.compaction.steps import Call
from tidelog.model import Time
from tidelog.node.broker_state import BrokerState
from tidelog.node.isr_proposals import IsrProposals
from tidelog.node.replicas import HeldReplicas
from tidelog.node.upkeep.cleaning import Cleaning
from tidelog.node.upkeep.disk_space import DiskSpace
from tidelog.node.upkeep.syncing import Syncing
from tidelog.partition.leader import Leader
from tidelog.partition.partition import Partition
from tidelog.ports import Disk

NOT_AWAITED = 0
SLICE = 1_000
"""Replicas that a turn looks at: some milliseconds. A checkpoint lists all of a folder's in one turn, a microsecond
each."""

Steps = Iterator[int]
"""Work in slices: each step is as many replicas as it looked at."""


class Job(NamedTuple):
    name: str
    every_ms: int
    begin: Callable[[], Steps]


class Jobs:
    """Runs each job every so often, from the first `start` on."""

    def __init__(
        self,
        config: BrokerConfig,
        replicas: HeldReplicas,
        in_sync: IsrProposals,
        effects: list[Effect],
        epoch: Callable[[], int],
    ) -> None:
        self._replicas = replicas
        self._in_sync = in_sync
        self._effects = effects
        self._epoch = epoch
        self._expiration_ms = config.producer_id_expiration_ms
        self._written: dict[str, bytes] = {}
        self._due: dict[str, int] = {}
        self._under_way: dict[str, Steps] = {}
        self._rewritten: dict[str, Callable[[str], bytes]] = {}
        """The checkpoints that are to be written again because of a truncation, and what each contains."""
        self._now = Time(0, 0)
        self.alarm = Alarm()
        self.table = (
            Job("check in-sync sets", max(1, config.replica_lag_time_max_ms // 2), self._shrink),
            Job(
                "write high watermarks",
                config.replica_high_watermark_checkpoint_interval_ms,
                lambda: self._checkpoint(checkpoints.REPLICATION_OFFSETS, replicas.high_watermarks),
            ),
            Job(
                "write recovery points",
                config.log_flush_offset_checkpoint_interval_ms,
                lambda: self._checkpoint(checkpoints.RECOVERY_POINTS, replicas.recovery_points),
            ),
            Job(
                "write log starts",
                config.log_flush_start_offset_checkpoint_interval_ms,
                lambda: self._checkpoint(checkpoints.START_OFFSETS, replicas.starts),
            ),
            Job("expire producers", config.producer_id_expiration_check_interval_ms, self._expire),
            Job("delete old segments", config.log_retention_check_interval_ms, self._retain),
        )

    def __repr__(self) -> str:
        return f"<Jobs {self._due}>"

    def configure(self, config: BrokerConfig) -> None:
        self._expiration_ms = config.producer_id_expiration_ms

    def start(self, now: Time) -> None:
        self._now = now
        self._due = {job.name: now.mono + job.every_ms for job in self.table}
        self.alarm.set(self.next_deadline)

    def wake(self, now: Time) -> None:
        self._now = now
        for job in self.table:
            if self._due.get(job.name, now.mono + 1) <= now.mono:
                self._due[job.name] = now.mono + job.every_ms
                if job.name not in self._under_way:
                    self._under_way[job.name] = job.begin()
        self._go_on()
        self.alarm.set(self.next_deadline)

    def _go_on(self) -> None:
        """What a turn does of the jobs under way. A truncation goes first, because a crash must find it."""
        looked_at = self._rewrite_next(0)
        for name, steps in list(self._under_way.items()):
            while looked_at < SLICE:
                step = next(steps, None)
                if step is None:
                    del self._under_way[name]
                    break
                looked_at += step

    @property
    def next_deadline(self) -> int | None:
        if self._under_way or self._rewritten:
            return self._now.mono
        return min(self._due.values(), default=None)

    def _sliced(self) -> Iterator[list[Partition]]:
        """All replicas; those that went since the first slice are left out."""
        held = list(self._replicas)
        for start in range(0, len(held), SLICE):
            yield [each for each in held[start : start + SLICE] if self._replicas.get(*each.name) is each]

    def _shrink(self) -> Steps:
        for partitions in self._sliced():
            for partition in partitions:
                proposal = partition.propose_shrink(self._now, self._epoch())
                if proposal is not None:
                    self._in_sync.propose(partition.name, proposal)
                elif isinstance(partition.role, Leader) and len(partition.role.isr) < len(partition.replicas):
                    partition.mark_dirty()  # a refused proposal to expand is repeated
            yield len(partitions)

    def _checkpoint(self, name: str, content_of: Callable[[str], bytes]) -> Steps:
        """Write what changed since it was last written."""
        for folder in list(self._replicas.live_folders):
            self._write(folder, name, content_of)
            yield len(self._replicas)

    def _write(self, folder: str, name: str, content_of: Callable[[str], bytes]) -> None:
        path, content = f"{folder}/{name}", content_of(folder)
        if self._written.get(path) != content:
            self._written[path] = content
            self._effects.append(Replace(NOT_AWAITED, path, content))

    def forget_written(self, folder: str) -> None:
        """Forget what was written there last: the files may differ."""
        for path in [path for path in self._written if path.startswith(f"{folder}/")]:
            del self._written[path]

    def note_compaction(self) -> None:
        """A log is clean up to another offset."""
        for folder in self._replicas.live_folders:
            self._write(folder, checkpoints.CLEANER_OFFSETS, self._replicas.cleaned)

    def note_truncation(self) -> None:
        """Offsets went back, or their topic is gone and there may be another one of its name: a crash must not make
        them believed where they were. Of these, a log's start is the worst: what ends below it is dropped, so they are
        written at once; few logs have one. With many replicas each of the other checkpoints is a turn of its own; one
        that is waiting already is written once."""
        self._replicas.truncated = False
        for name, content_of in (
            (checkpoints.RECOVERY_POINTS, self._replicas.recovery_points),
            (checkpoints.START_OFFSETS, self._replicas.starts),
            (checkpoints.CLEANER_OFFSETS, self._replicas.cleaned),
            (checkpoints.REPLICATION_OFFSETS, self._replicas.high_watermarks),
        ):
            self._rewritten.setdefault(name, content_of)
        if len(self._replicas) <= SLICE // len(self._rewritten):
            self._rewrite_next(0)
        else:
            self._rewrite(checkpoints.START_OFFSETS)
        self.alarm.set(self.next_deadline)

    def _rewrite_next(self, looked_at: int) -> int:
        while self._rewritten and looked_at < SLICE:
            self._rewrite(next(iter(self._rewritten)))
            looked_at += len(self._replicas)
        return looked_at

    def _rewrite(self, name: str) -> None:
        content_of = self._rewritten.pop(name)
        for folder in self._replicas.live_folders:
            self._write(folder, name, content_of)

    def _expire(self) -> Steps:
        for partitions in self._sliced():
            for partition in partitions:
                partition.log.producers.expire(self._now.wall, self._expiration_ms)
            yield len(partitions)

    def _retain(self) -> Steps:
        for partitions in self._sliced():
            for partition in partitions:
                self._retain_in(partition)
            yield len(partitions)

    def _retain_in(self, partition: Partition) -> None:
        if partition.failed:
            return
        start = partition.log.log_start_offset
        try:
            doomed = partition.log.delete_old_segments(self._now, partition.high_watermark)
        except DiskFailed as failure:
            self._replicas.disk_failed(failure)
            return
        self._effects.extend(Remove(path) for path in doomed)
        if partition.log.log_start_offset != start:
            fields = {"partition": str(partition.name), "log_start": partition.log.log_start_offset}
            self._effects.append(Event("log.retention", fields))
            partition.mark_dirty()


class Upkeep:
    """Of one broker. `out` is for the world, `effects` for the node."""

    def __init__(self, broker: BrokerState, disk: Disk, effects: list[Effect], out: list[Effect]) -> None:
        config, replicas = broker.config, broker.replicas
        self._replicas = replicas
        self._broker = broker
        self.jobs = Jobs(config, replicas, broker.in_sync, effects, lambda: broker.broker_epoch)
        self.syncing = Syncing(replicas, out)
        self.cleaning = Cleaning(config, replicas, out, self.jobs.note_compaction, self._compute)
        self.disk_space = DiskSpace(replicas, disk, effects, self._has_room)
        self.relocations = broker.relocations
        self.woken = (self.jobs, self.syncing, self.cleaning, self.disk_space, self.relocations, broker.integrity)

    def __repr__(self) -> str:
        return f"<Upkeep {self.syncing!r}, {self.cleaning!r}, {self.disk_space!r}>"

    def _compute(self, call: Call, done: Callable[[Any], None]) -> None:
        self._broker.computing.submit("compaction", call.function, call.arguments, done)

    def start(self, now: Time) -> None:
        self.jobs.start(now)
        self.cleaning.start(now)
        self.relocations.resume(now)
        self._broker.integrity.start(now)

    def configure(self, config: BrokerConfig) -> None:
        """Options changed while the broker runs."""
        self.jobs.configure(config)
        self.cleaning.configure(config)
        self.relocations.configure()

    def synced(self, token: int, now: Time) -> None:
        """By a sync that a partition waited for, its high watermark may move, and it may fetch on. The disk may refuse
        what follows from a sync, too."""
        try:
            self._synced(token, now)
        except DiskFailed as failure:
            self._replicas.disk_failed(failure)

    def _synced(self, token: int, now: Time) -> None:
        if token < 0:
            self.cleaning.synced(token, now)
        self._broker.assignments.folder_syncs.synced(token)
        if self.relocations.synced(token, now):
            return
        partition = self.syncing.done(token, now)
        if partition is not None:
            partition.advance(now, self._broker.eligible)
            self._broker.fetching.follow(partition)

    def failed(self, token: int, folder: str, reason: str, now: Time) -> None:
        """A failed fsync is final: the folder goes offline."""
        self.syncing.failed(token)
        self.cleaning.sync_failed(token, now)
        self.relocations.sync_failed(token)
        self._replicas.folder_failed(folder, reason)
        self._broker.assignments.folder_syncs.failed(token)

    def full(self, folder: str, reason: str) -> None:
        """A checkpoint did not fit, and will be written again; the old one stays."""
        self.jobs.forget_written(folder)
        self._replicas.folder_full(folder, reason)

    def _has_room(self, folder: str) -> None:
        self.jobs.note_truncation()
        for partition in self._replicas.within(folder):
            self._broker.fetching.follow(partition)

    def close(self) -> None:
        self.cleaning.close()
