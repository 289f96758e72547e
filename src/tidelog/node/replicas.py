"""The replicas that this broker holds: found at start, created, stopped, deleted, and lost with their folder."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter

from tidelog.config.broker import BrokerConfig
from tidelog.config.topic import TopicConfig
from tidelog.effects import Effect, Event, Stop
from tidelog.errors import ApiError, CorruptLog, DiskFailed, DiskFull, ErrorCode
from tidelog.log import checkpoints
from tidelog.log.log import Log
from tidelog.log.segment import Warm
from tidelog.model import NO_ID, Time, TopicPartition, id_text
from tidelog.node.log_dirs import (
    DELETING,
    FUTURE,
    NO_CHECKPOINTS,
    STRAY,
    Checkpoints,
    deleted_name,
    finish_moves,
    futures,
    partitions,
    read_checkpoints,
    remove_deleted,
    remove_replica,
    set_aside,
    take_clean_shutdown,
)
from tidelog.node.upkeep.log_dir_events import ReportLogDir
from tidelog.partition.partition import Partition
from tidelog.partition.truncation import KIP_320, Generation
from tidelog.ports import Disk

OPEN_SEGMENTS = 2_000
"""Segments with an open file, over all logs; the one longest unused is closed for another."""
MOST_STALE = 10_000
"""Names of former replicas that are remembered: more are taken out of the checkpoints."""


@dataclass(slots=True)
class FolderChanges:
    """What was done in one log folder, and is not durable before an fsync of it. `names`: replicas that were created,
    deleted or set aside. `doomed`: deleted replicas whose files are removed then. `forgotten`: whether one was deleted
    or set aside, so that `HeldReplicas.truncated` follows then. `reused`: paths of `HeldReplicas.stale` that have
    replicas again. Until their offsets are out of the checkpoints these must not serve: after a crash a log that ends
    below the start of the former one would be emptied. `FolderSyncs` does that, too."""

    names: set[TopicPartition] = field(default_factory=set)
    doomed: list[str] = field(default_factory=list)
    forgotten: bool = False
    reused: list[str] = field(default_factory=list)


class HeldReplicas:
    """All replicas, by name. `changed` collects the dirty ones, to answer the requests that wait for them."""

    def __init__(
        self,
        config: BrokerConfig,
        disk: Disk,
        effects: list[Effect],
        topic_config: Callable[[str], TopicConfig],
        *,
        report_log_dir: ReportLogDir,
        generation: Generation = KIP_320,
    ) -> None:
        self._config = config
        self._disk = disk
        self._effects = effects
        self._topic_config = topic_config
        self._generation = generation
        self._report_log_dir = report_log_dir
        self._partitions: dict[TopicPartition, Partition] = {}
        self._ids: dict[bytes, str] = {}
        self._held_of: Counter[bytes] = Counter()
        """How many replicas of each topic are here."""
        self._in_order: dict[str, list[Partition]] = {}
        """The partitions of each folder, by name; none since one was added or moved. Checkpoints list them all, also
        after each deletion."""
        self._folders: dict[TopicPartition, str] = {}
        self._warm = Warm(OPEN_SEGMENTS)
        self.unsynced: dict[str, FolderChanges] = {}
        """By folder, what was created and deleted there; `FolderSyncs` makes that durable."""
        self.unsure = set(config.folders)
        """Folders without an fsync in this life: what a life before deleted there may not be durable."""
        self.stale: set[str] = set()
        """Where replicas were whose offsets may still be in the checkpoints of their log directory (paths)."""
        self._corrupt: dict[TopicPartition, bytes] = {}
        """Replicas that cannot be opened, and their topics' ids: NO_ID where that is what was damaged."""
        self.truncated = False
        """Whether a log was truncated or deleted: its checkpoints must not be trusted for the records that come after,
        so they are written again."""
        self.live_folders = list(config.folders)
        self.full: set[str] = set()
        """Live folders without room."""
        self.on_room: Callable[[], None] = lambda: None
        """Called when `full` is another set."""
        self.futures: dict[TopicPartition, tuple[Log, str]] = {}
        """Copies that are to take a replica's place, and the folders they are in."""
        self.preferred: dict[TopicPartition, str] = {}
        """Where replicas that are not here yet are to be created."""
        self.changed: dict[TopicPartition, bool] = {}
        self.deleted: list[Partition] = []
        """Deleted since the node last answered the requests that wait for deleted replicas."""
        self.clean_epoch = -1
        """The broker epoch of the previous process if it stopped cleanly in every folder, otherwise -1 (rule 8)."""

    def __repr__(self) -> str:
        return f"<HeldReplicas {len(self._partitions)} in {self.live_folders}>"

    def get(self, topic: str, partition: int) -> Partition | None:
        return self._partitions.get((topic, partition))  # type: ignore[call-overload, no-any-return]

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    def folder_of(self, partition: TopicPartition) -> str:
        return self._folders[partition]

    def usage(self, folder: str) -> tuple[int, int]:
        """(total, usable) bytes of the file system that holds the folder; DiskFailed where the folder failed."""
        if folder not in self.live_folders:
            raise DiskFailed(folder, "offline")
        return self._disk.usage(folder)

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._ids.get(topic_id)

    # Start.

    def load(self, now: Time) -> None:
        """Open every log, recovering those that were not closed cleanly. A folder that fails goes offline; a corrupt
        log stays unchanged, is not served, and keeps this broker from reporting a clean shutdown."""
        epochs: list[int | None] = []
        for folder in list(self.live_folders):
            try:
                epochs.append(self._load_folder(folder, now))
            except DiskFailed as failure:
                epochs.append(None)
                self.folder_failed(folder, failure.reason)
        if len(self.live_folders) == len(self._config.folders):  # else a copy may still need its mark
            remove_deleted(self._disk, self.live_folders)
        if epochs and not self._corrupt and all(epoch == epochs[0] for epoch in epochs) and epochs[0] is not None:
            self.clean_epoch = epochs[0]

    def _load_folder(self, folder: str, now: Time) -> int | None:
        """The broker epoch of the previous process if it stopped cleanly in this folder, otherwise None."""
        self._disk.make_folder(folder)
        finish_moves(self._disk, folder, self._config.folders)
        clean = take_clean_shutdown(self._disk, folder)
        points = read_checkpoints(self._disk, folder, self._report_checkpoint)
        nameless: dict[TopicPartition, str] = {}
        held = list(partitions(self._disk, folder, nameless.__setitem__))
        for name, _, _ in held:
            if name in self._partitions:
                raise DiskFailed(folder, f"{name} is also in {self._folders[name]}")
        for name, path, topic_id in held:
            try:
                log = self._open(path, name, topic_id, now, points, clean=clean is not None)
            except CorruptLog as error:
                self._report_corrupt(name, topic_id, str(error))
                continue
            log.cleaned_to = min(points.cleaned.get(name, 0), log.log_end_offset)
            self._report_doubts(log, points, clean=clean is not None)
            self._hold(log, folder, points.high_watermarks.get(name, 0))
        for name, reason in nameless.items():
            if (
                points.recovery_points.get(name, 0) > 0
            ):  # otherwise a power loss took the id before anything was durable
                helps = "write the topic's id into the file again, or delete the folder"
                self._report_corrupt(name, NO_ID, f"{reason}; {helps}")
        here = {partition.name for partition in self.within(folder)}
        self.stale.update(f"{folder}/{name}" for offsets in points for name in offsets.keys() - here)
        return clean

    def _report_checkpoint(self, reason: str, instead: str) -> None:
        self.truncated = True  # all of them are written again
        fields = {"reason": reason, "instead": instead}
        self._effects.append(Event("checkpoint.unreadable", fields, level="error"))

    def _report_doubts(self, log: Log, points: Checkpoints, *, clean: bool) -> None:
        """Records that were acknowledged may be missing, or checkpoints are wrong: nothing else would say so."""
        end, high_watermark = log.log_end_offset, points.high_watermarks.get(log.partition, 0)
        stopped_at = points.recovery_points.get(log.partition, end) if clean else end
        reasons = []
        if high_watermark > end:
            reasons.append(f"the high watermark was {high_watermark}")
        if stopped_at != end:
            reasons.append(f"it ended at {stopped_at} when the broker stopped cleanly")
        if log.wrong_start is not None:
            reasons.append(f"the start {log.wrong_start} in its checkpoint contradicts its epochs")
        if reasons:
            fields = {"partition": str(log.partition), "start": log.log_start_offset, "end": end}
            self._effects.append(Event("log.doubtful", {**fields, "reason": "; ".join(reasons)}, level="error"))

    def _report_corrupt(self, name: TopicPartition, topic_id: bytes, reason: str) -> None:
        self._effects.append(Event("log.corrupt", {"partition": str(name), "reason": reason}, level="error"))
        self._corrupt[name] = topic_id

    def _hold(self, log: Log, folder: str, high_watermark: int) -> Partition:
        name = log.partition
        partition = Partition(
            name,
            self._config.broker_id,
            log,
            self._topic_config(name.topic),
            high_watermark=high_watermark,
            lag_ms=self._config.replica_lag_time_max_ms,
            changed=self.changed,
            generation=self._generation,
        )
        partition.full = folder in self.full
        self._partitions[name] = partition
        self._folders[name] = folder
        self._ids[log.topic_id] = name.topic
        self._held_of[log.topic_id] += 1
        self._in_order = {}
        return partition

    # Changes.

    def create(self, name: TopicPartition, topic_id: bytes, now: Time, *, is_new: bool = False) -> Partition:
        """Create a replica; one of an earlier topic of that name is set aside. While a folder is offline, a replica
        that is not known to be new may be there, and an empty one must not replace it: KAFKA_STORAGE_ERROR."""
        old = self._partitions.get(name)
        if old is not None:
            if old.log.topic_id == topic_id:
                return old
            self._set_aside(old)
        may_be_offline = len(self.live_folders) < len(self._config.folders) and not is_new
        if not self.live_folders or may_be_offline or self._corrupt.get(name) in (topic_id, NO_ID):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        preferred = self.preferred.pop(name, "")
        folder = preferred if preferred in self.live_folders else self._roomiest()
        path = f"{folder}/{name}"
        if set_aside(self._disk, path):
            self._report_stray(name, path)
        try:
            log = self._open(path, name, topic_id, now, durable=False)
        except DiskFull:
            self._disk.remove(path)
            raise
        changes = self._changes(folder)
        changes.names.add(name)
        if path in self.stale:
            self.stale.remove(path)
            changes.reused.append(path)
        return self._hold(log, folder, 0)

    def _changes(self, folder: str) -> FolderChanges:
        """What is noted of this folder."""
        return self.unsynced.setdefault(folder, FolderChanges())

    def _set_aside(self, partition: Partition) -> None:
        """Another topic has its name now. Perhaps its own was deleted while this broker was away; perhaps the id in its
        folder was damaged: its records stay, for somebody who knows."""
        name, log = partition.name, partition.log
        path = log.folder
        self._forget(partition)
        self._disk.remove(path + STRAY)
        log.retire(f"{name}{STRAY}")
        self._report_stray(name, path, id_text(log.topic_id))

    def _report_stray(self, name: TopicPartition, path: str, topic_id: str = "none that can be read") -> None:
        fields = {"partition": str(name), "topic_id": topic_id, "folder": path + STRAY}
        self._effects.append(Event("log.stray", fields, level="warning"))

    def _roomiest(self) -> str:
        """The folder that holds the fewest replicas, among those that have room."""
        if len(self.live_folders) == 1:
            return self.live_folders[0]
        held = Counter(self._folders.values())
        held.update(folder for _, folder in self.futures.values())
        return min(self.live_folders, key=lambda folder: (folder in self.full, held[folder]))

    def _open(
        self,
        path: str,
        name: TopicPartition,
        topic_id: bytes,
        now: Time,
        points: Checkpoints = NO_CHECKPOINTS,
        **how: bool,
    ) -> Log:
        return Log.open(
            self._disk,
            path,
            name,
            topic_id,
            self._topic_config(name.topic),
            recovery_point=points.recovery_points.get(name, 0),
            log_start_offset=points.starts.get(name, 0),
            clean=how.pop("clean", False),
            now=now,
            warm=self._warm,
            **how,
        )

    # Moves between folders.

    def open_future(self, partition: Partition, folder: str, mark: str, now: Time) -> Log:
        """An empty copy of the replica, in another folder."""
        name = partition.name
        return self._open(f"{folder}/{name}.{mark}{FUTURE}", name, partition.log.topic_id, now)

    def open_futures(self, now: Time) -> Iterator[tuple[Partition, str, str, Log]]:
        """(replica, folder, mark, copy) for every copy that a life before left; those without a replica go, unless it
        may be in a folder that is offline."""
        for folder in list(self.live_folders):
            try:
                points = read_checkpoints(self._disk, folder, lambda *_: None)  # reported already
                for name, path, mark in list(futures(self._disk, folder)):
                    partition = self._partitions.get(name)
                    if partition is not None and self._folders[name] != folder and name not in self.futures:
                        with suppress(CorruptLog):
                            copy = self._open(path, name, partition.log.topic_id, now, points)
                            yield partition, folder, mark, copy
                            continue
                    if len(self.live_folders) == len(self._config.folders):
                        self._disk.remove(path)
            except DiskFailed as failure:
                self.disk_failed(failure)

    def exchange(self, partition: Partition, copy: Log, folder: str, mark: str, now: Time) -> str:
        """Make the copy the replica; returns the path of the former one, to be removed later. This cannot stop halfway:
        if the disk fails in the middle, the replica fails."""
        name, old, before = partition.name, partition.log, self._folders[partition.name]
        copy.close(clean=True)
        self._write_checkpoints(partition, copy, folder)
        try:
            doomed = old.retire(f"{name}.{mark}{DELETING}")
            self._disk.sync_folder(before)
            own = f"{folder}/{name}"
            set_aside(self._disk, own)
            self._disk.rename(copy.folder, own)
            self._disk.sync_folder(folder)
            points = Checkpoints({}, {name: copy.recovery_point}, {name: copy.log_start_offset}, {})
            log = self._open(own, name, old.topic_id, now, points, clean=True)
            # A leader's own epoch, too, which has no record yet: an opened log does not have it.
            log.take_epochs(old.epochs)
        except DiskFailed as failure:
            partition.fail()
            raise DiskFailed(failure.folder, failure.reason) from failure
        log.producers, log.cleaned_to = old.producers, min(old.cleaned_to, log.log_end_offset)
        self._folders[name], partition.log = folder, log
        # A copy of an earlier life may begin where that had deleted records, which this one has not heard of yet.
        partition.high_watermark = max(partition.high_watermark, log.log_start_offset)
        self._in_order = {}
        self.stale.discard(own)
        self.stale.add(f"{before}/{name}")
        partition.full, partition.flush_pending = folder in self.full, False
        self.futures.pop(name, None)
        self.truncated = True
        partition.mark_dirty()
        return doomed

    def _write_checkpoints(self, partition: Partition, copy: Log, folder: str) -> None:
        """As they will be with the copy in the replica's place."""
        before, old = self._folders[partition.name], partition.log
        self._folders[partition.name], partition.log = folder, copy
        self._in_order = {}
        try:
            for file, content in (
                (checkpoints.REPLICATION_OFFSETS, self.high_watermarks(folder)),
                (checkpoints.RECOVERY_POINTS, self.recovery_points(folder)),
                (checkpoints.START_OFFSETS, self.starts(folder)),
            ):
                self._disk.replace(f"{folder}/{file}", content)
        finally:
            self._folders[partition.name], partition.log = before, old
            self._in_order = {}

    def delete(self, name: TopicPartition) -> None:
        """Forget the replica and remove its files; slices that are still being sent stay readable. If it is
        deleted already, a previous life may not have made that durable."""
        partition = self._partitions.get(name)
        if partition is None:
            for folder in self.live_folders:
                if folder in self.unsure:
                    self._changes(folder).names.add(name)
            if self._corrupt.get(name) == NO_ID:  # whatever its topic was, it is gone
                del self._corrupt[name]
            return
        folder = self._folders[name]
        changes = self._forget(partition)
        try:
            doomed = partition.log.retire(deleted_name(self._disk, folder, name, partition.log.topic_id))
        except DiskFull:  # another name takes room, too
            remove_replica(self._disk, partition.log.folder)
        else:
            changes.doomed.append(doomed)

    def _forget(self, partition: Partition) -> FolderChanges:
        """It is not a replica of this broker any more; its files are still there. Returns what is noted of its
        folder."""
        del self._partitions[partition.name]
        folder = self._folders.pop(partition.name)
        changes = self._changes(folder)
        changes.names.add(partition.name)
        changes.forgotten = True
        self.stale.add(f"{folder}/{partition.name}")
        if len(self.stale) > MOST_STALE:
            for path in self.among_live(self.stale):
                self._changes(path.rpartition("/")[0]).reused.append(path)
            self.stale.clear()
        if folder in self._in_order:
            held = self._in_order[folder]
            del held[bisect_left(held, partition.name, key=attrgetter("name"))]
        partition.role = None
        partition.mark_dirty()
        self.deleted.append(partition)
        topic_id = partition.log.topic_id
        self._held_of[topic_id] -= 1
        if not self._held_of[topic_id]:
            del self._held_of[topic_id]
            self._ids.pop(topic_id, None)
        return changes

    def disk_failed(self, failure: DiskFailed) -> None:
        """The disk failed in an operation of this broker."""
        if isinstance(failure, DiskFull):
            self.folder_full(failure.folder, failure.reason)
        else:
            self.folder_failed(failure.folder, failure.reason)

    def folder_full(self, folder: str, reason: str) -> None:
        """Its replicas take nothing more until there `has_room`."""
        home = self._home(folder)
        if home is None or home in self.full:
            return
        self.full.add(home)
        self.on_room()
        self._effects.append(Event("folder.full", {"folder": home, "reason": reason}, level="warning"))
        for partition in self.within(home):
            partition.full = True

    def has_room(self, folder: str) -> None:
        """Report it to the controller, too: replicas that could not be created may be now."""
        self.full.discard(folder)
        self.on_room()
        for partition in self.within(folder):
            partition.full = False
        self._report_log_dir(failed=False)

    def _home(self, folder: str) -> str | None:
        """The live folder that it is, or is in."""
        return next((live for live in self.live_folders if f"{folder}/".startswith(f"{live}/")), None)

    def among_live(self, paths: Iterable[str]) -> list[str]:
        """Those in live folders."""
        return [path for path in paths if self._home(path) is not None]

    def folder_failed(self, folder: str, reason: str) -> None:
        """The folder failed: its replicas are offline until a restart."""
        home = self._home(folder)
        if home is None:
            return
        self.live_folders.remove(home)
        self.full.discard(home)
        self.on_room()
        self._effects.append(Event("folder.failed", {"folder": home, "reason": reason}, level="error"))
        for partition in self.within(home):
            partition.fail()
        if self.live_folders:
            self._report_log_dir(failed=True)
        else:
            self._effects.append(Stop("every log folder failed"))

    # What the jobs write down.

    def high_watermarks(self, folder: str) -> bytes:
        return checkpoints.format_offsets((p.name, p.high_watermark) for p in self.within(folder))

    def recovery_points(self, folder: str) -> bytes:
        points = [
            (name, copy.recovery_point)
            for name, (copy, home) in self.futures.items()
            if home == folder != self._folders.get(name)  # while the copy takes its place, it is the replica already
        ]
        return checkpoints.format_offsets(points + [(p.name, p.log.recovery_point) for p in self.within(folder)])

    def starts(self, folder: str) -> bytes:
        return checkpoints.format_offsets(
            (p.name, p.log.log_start_offset) for p in self.within(folder) if p.log.log_start_offset > 0
        )

    def cleaned(self, folder: str) -> bytes:
        return checkpoints.format_offsets(
            (p.name, p.log.cleaned_to) for p in self.within(folder) if p.log.cleaned_to > 0
        )

    def within(self, folder: str) -> list[Partition]:
        """The partitions of one folder, in order."""
        found = self._in_order.get(folder)
        if found is None:
            names = sorted(name for name, home in self._folders.items() if home == folder)
            found = self._in_order[folder] = [self._partitions[name] for name in names]
        return list(found)

    def close(self, broker_epoch: int) -> None:
        """Flush and close every log, write the checkpoints, and last the clean-shutdown file, in every folder. A folder
        whose disk fails or that has a failed log gets none, so its logs are recovered at the next start."""
        for folder in list(self.live_folders):
            try:
                self._close_folder(folder, broker_epoch)
            except DiskFailed as failure:
                fields = {"folder": folder, "reason": failure.reason}
                self._effects.append(Event("folder.failed", fields, level="error"))

    def _close_folder(self, folder: str, broker_epoch: int) -> None:
        self._disk.sync_soon(folder)
        held = self.within(folder)
        is_clean = not any(partition.failed or partition.log.failed for partition in held)
        for partition in held:
            if not partition.failed:
                partition.log.close(clean=True)
        for name, content in (
            (checkpoints.REPLICATION_OFFSETS, self.high_watermarks(folder)),
            (checkpoints.RECOVERY_POINTS, self.recovery_points(folder)),
            (checkpoints.START_OFFSETS, self.starts(folder)),
            (checkpoints.CLEANER_OFFSETS, self.cleaned(folder)),
        ):
            self._disk.replace(f"{folder}/{name}", content)
        if is_clean:
            proof = checkpoints.format_clean_shutdown(broker_epoch)
            self._disk.replace(f"{folder}/{checkpoints.CLEAN_SHUTDOWN}", proof)
