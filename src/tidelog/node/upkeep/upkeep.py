"""All upkeep of a broker's logs, as the node sees it: inputs from the disk's slow work, and periodic jobs.

`Jobs` is one table of what is due by the clock: what, how often, and the function that does it.
"""

from collections.abc import Callable
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
from tidelog.ports import Disk

NOT_AWAITED = 0


class Job(NamedTuple):
    name: str
    every_ms: int
    run: Callable[[Time], None]


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
        self.alarm = Alarm()
        self.table = (
            Job("check in-sync sets", max(1, config.replica_lag_time_max_ms // 2), self._shrink),
            Job(
                "write high watermarks",
                config.replica_high_watermark_checkpoint_interval_ms,
                lambda _: self._checkpoint(checkpoints.REPLICATION_OFFSETS, replicas.high_watermarks),
            ),
            Job(
                "write recovery points",
                config.log_flush_offset_checkpoint_interval_ms,
                lambda _: self._checkpoint(checkpoints.RECOVERY_POINTS, replicas.recovery_points),
            ),
            Job(
                "write log starts",
                config.log_flush_start_offset_checkpoint_interval_ms,
                lambda _: self._checkpoint(checkpoints.START_OFFSETS, replicas.starts),
            ),
            Job("expire producers", config.producer_id_expiration_check_interval_ms, self._expire),
            Job("delete old segments", config.log_retention_check_interval_ms, self._retain),
        )

    def __repr__(self) -> str:
        return f"<Jobs {self._due}>"

    def configure(self, config: BrokerConfig) -> None:
        self._expiration_ms = config.producer_id_expiration_ms

    def start(self, now: Time) -> None:
        self._due = {job.name: now.mono + job.every_ms for job in self.table}
        self.alarm.set(self.next_deadline)

    def wake(self, now: Time) -> None:
        for job in self.table:
            if self._due.get(job.name, now.mono + 1) <= now.mono:
                self._due[job.name] = now.mono + job.every_ms
                job.run(now)
        self.alarm.set(self.next_deadline)

    @property
    def next_deadline(self) -> int | None:
        return min(self._due.values(), default=None)

    def _shrink(self, now: Time) -> None:
        for partition in self._replicas:
            proposal = partition.propose_shrink(now, self._epoch())
            if proposal is not None:
                self._in_sync.propose(partition.name, proposal)
            elif isinstance(partition.role, Leader) and len(partition.role.isr) < len(partition.replicas):
                partition.mark_dirty()  # a refused proposal to expand is repeated

    def _checkpoint(self, name: str, content_of: Callable[[str], bytes]) -> None:
        """Write what changed since it was last written."""
        for folder in self._replicas.live_folders:
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
        self._checkpoint(checkpoints.CLEANER_OFFSETS, self._replicas.cleaned)

    def note_truncation(self) -> None:
        """Offsets went back, or their topic is gone and there may be another one of its name: a crash must not make
        them believed where they were. Of these, a log's start is the worst: what ends below it is dropped."""
        self._replicas.truncated = False
        self._checkpoint(checkpoints.RECOVERY_POINTS, self._replicas.recovery_points)
        self._checkpoint(checkpoints.START_OFFSETS, self._replicas.starts)
        self._checkpoint(checkpoints.CLEANER_OFFSETS, self._replicas.cleaned)
        self._checkpoint(checkpoints.REPLICATION_OFFSETS, self._replicas.high_watermarks)

    def _expire(self, now: Time) -> None:
        for partition in self._replicas:
            partition.log.producers.expire(now.wall, self._expiration_ms)

    def _retain(self, now: Time) -> None:
        for partition in self._replicas:
            if partition.failed:
                continue
            start = partition.log.log_start_offset
            try:
                doomed = partition.log.delete_old_segments(now, partition.high_watermark)
            except DiskFailed as failure:
                self._replicas.disk_failed(failure)
                continue
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
