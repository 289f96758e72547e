"""Replicas that move to another folder of their broker (KIP-113): copied into a `-future` log while they are served; it
replaces them when it has caught up.

1. The copy grows in slices, as a follower of the replica beside it. 2. It is synced. 3. Once it has caught up again,
the new folder's checkpoints are written, the replica's old folder gets the name of a deleted one, the copy its own,
each durable before the next. A crash before 3 leaves a copy that continues; within 3, a deleted folder whose mark is
that of the copy shows that the copy is the replica (`folders.finish_moves`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from tidelog.alarms import Alarm
from tidelog.config.broker import BrokerConfig
from tidelog.effects import Effect, Event, Remove, Sync
from tidelog.errors import ApiError, CorruptLog, DiskFailed, ErrorCode
from tidelog.log import integrity
from tidelog.log.integrity import Unsound
from tidelog.log.log import Log
from tidelog.model import Time, TopicPartition
from tidelog.node.log_dirs import DELETING, FUTURE
from tidelog.node.replicas import HeldReplicas
from tidelog.partition.partition import Partition

SLICE_BYTES = 512 * 1024
SECOND_MS = 1_000
RETRY_MS = 1_000
EXAMINED_MS = 5
"""About the time that it takes to examine the next read."""
FIRST_TOKEN = 1 << 40


@dataclass(slots=True, eq=False)
class Relocation:
    """`mark` is in the copy's name. `source`: the log that is copied; the replica may get another one. `synced`: the
    copy was, once it had caught up. `token`: the sync under way. `paced`: bytes and moment of the last slice, while
    the rate says when the next is `due`."""

    partition: Partition
    source: Log
    copy: Log
    folder: str
    mark: str
    removals: int
    synced: bool = False
    token: int | None = None
    due: int = 0
    paced: tuple[int, int] | None = None


class Relocations:
    """All moves of a broker. `examine` is called for a read that must be examined first."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        replicas: HeldReplicas,
        effects: list[Effect],
        *,
        entropy: Callable[[int], bytes],
        examine: Callable[[Partition, Unsound], ErrorCode],
    ) -> None:
        self._config = config
        self._replicas = replicas
        self._effects = effects
        self._entropy = entropy
        self._examine = examine
        self._tokens = count(FIRST_TOKEN)
        self._moves: dict[TopicPartition, Relocation] = {}
        self.alarm = Alarm()

    def __repr__(self) -> str:
        return f"<Relocations of {sorted(map(str, self._moves))}>"

    @property
    def next_deadline(self) -> int | None:
        return min((move.due for move in self._moves.values() if move.token is None), default=None)

    # Requests of operators.

    def begin(self, name: TopicPartition, folder: str, now: Time) -> None:
        """Move the replica there, or create it there if it is not here yet. ApiError with Kafka's code."""
        if folder not in self._config().folders:
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND)
        if folder not in self._replicas.live_folders:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        partition = self._replicas.get(*name)
        if partition is None:
            self._replicas.preferred[name] = folder
            raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE)
        if partition.failed:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        under_way = self._moves.get(name)
        if under_way is not None and under_way.folder != folder:
            self._abandon(under_way)
        if name not in self._moves and self._replicas.folder_of(name) != folder:
            mark = self._entropy(16).hex()
            self._start(partition, folder, mark, self._replicas.open_future(partition, folder, mark, now), now)

    def resume(self, now: Time) -> None:
        """Go on with what the life before was moving."""
        for partition, folder, mark, copy in self._replicas.open_futures(now):
            self._start(partition, folder, mark, copy, now)

    def _start(self, partition: Partition, folder: str, mark: str, copy: Log, now: Time) -> None:
        source = partition.log
        self._replicas.futures[partition.name] = copy, folder
        self._moves[partition.name] = Relocation(partition, source, copy, folder, mark, removals=-1, due=now.mono)
        self.alarm.set(self.next_deadline)
        self._report("replica.moving", partition.name, folder)

    def _report(self, kind: str, name: TopicPartition, folder: str, level: str = "info", **more: str) -> None:
        self._effects.append(Event(kind, {"partition": str(name), "folder": folder, **more}, level=level))

    # Copying.

    def wake(self, now: Time) -> None:
        for move in list(self._moves.values()):
            if move.token is None and move.due <= now.mono:
                self._step(move, now)
        self.alarm.set(self.next_deadline)

    def _step(self, move: Relocation, now: Time) -> None:
        if not self._is_current(move):
            self._abandon(move)
            return
        move.paced = None
        try:
            copied = self._copy(move, now)
            if copied is not None:
                move.due = now.mono + RETRY_MS
                move.paced = (copied, now.mono) if copied else None
                self._pace(move)
            elif move.synced:
                self._exchange(move, now)
            else:
                files = move.copy.unsynced()
                move.token = next(self._tokens)
                self._effects.append(Sync(move.token, files))
        except DiskFailed as failure:
            self._replicas.disk_failed(failure)
            move.due = now.mono + RETRY_MS
        except Unsound as found:
            code = self._examine(move.partition, found)
            move.due = now.mono + (RETRY_MS if code else EXAMINED_MS)
        except (ApiError, CorruptLog) as error:
            self._report("replica.not_moved", move.partition.name, move.folder, "error", reason=str(error))
            self._abandon(move)

    def _pace(self, move: Relocation) -> None:
        rate = self._config().replica_alter_log_dirs_io_max_bytes_per_second
        if move.paced is not None and rate:
            copied, at = move.paced
            move.due = at + copied * SECOND_MS // rate

    def configure(self) -> None:
        """The rate may have changed: moves that wait for their next slice wait by the new rate."""
        for move in self._moves.values():
            self._pace(move)
        self.alarm.set(self.next_deadline)

    def _is_current(self, move: Relocation) -> bool:
        name, live = move.partition.name, self._replicas.live_folders
        is_here = self._replicas.get(*name) is move.partition and move.partition.log is move.source
        return is_here and not move.partition.failed and not move.copy.failed and move.folder in live

    def _copy(self, move: Relocation, now: Time) -> int | None:
        """The number of bytes copied; None if the copy has caught up."""
        source, copy = move.source, move.copy
        if source.removals != move.removals:
            before = copy.log_end_offset
            _truncate_to_agreement(source, copy)
            move.removals = source.removals
            self._replicas.truncated = self._replicas.truncated or copy.log_end_offset < before
        if copy.log_end_offset < source.log_start_offset:
            copy.truncate_fully_and_start_at(source.log_start_offset)
        copy.advance_start(source.log_start_offset)
        end = source.log_end_offset
        if copy.log_end_offset == end:
            return None
        piece = integrity.read(source, copy.log_end_offset, SLICE_BYTES, end, at_least_one=True)
        if piece is None:  # the source was cut in a hole, and offsets at its end have no records: more will come
            return 0
        data = piece.file.read(piece.position, piece.length)
        copy.append_as_follower(data, now)
        return piece.length

    def synced(self, token: int, now: Time) -> bool:
        """Whether this was a sync of a copy."""
        for move in self._moves.values():
            if move.token == token:
                move.token, move.synced, move.due = None, True, now.mono
                move.copy.mark_synced(move.copy.log_end_offset)
                self.alarm.set(self.next_deadline)
        return token >= FIRST_TOKEN

    def sync_failed(self, token: int) -> None:
        """Its folder is offline."""
        for move in list(self._moves.values()):
            if move.token == token:
                self._abandon(move)

    # The end.

    def _exchange(self, move: Relocation, now: Time) -> None:
        name = move.partition.name
        move.copy.take_epochs(move.source.epochs)
        try:
            doomed = self._replicas.exchange(move.partition, move.copy, move.folder, move.mark, now)
        except DiskFailed:
            if not move.partition.failed:
                self._abandon(move)
            self._moves.pop(name, None)
            raise
        del self._moves[name]
        self._effects.append(Remove(doomed))
        self._report("replica.moved", name, move.folder)

    def _abandon(self, move: Relocation) -> None:
        """Delete the copy, if its folder allows it."""
        name = move.partition.name
        self._moves.pop(name, None)
        self.alarm.set(self.next_deadline)
        self._replicas.futures.pop(name, None)
        self._replicas.stale.add(f"{move.folder}/{name}")
        try:
            doomed = move.copy.retire(f"{name}.{move.mark}{FUTURE}{DELETING}")
        except (DiskFailed, FileNotFoundError):
            return
        self._effects.append(Remove(doomed))


def _truncate_to_agreement(source: Log, copy: Log) -> None:
    """Cut off what the source has no more, by epochs as a follower does: it may have other records there by now."""
    while copy.log_end_offset > copy.log_start_offset:
        latest = min(copy.epochs.latest, source.epochs.latest)
        if latest < 0:
            copy.truncate_fully_and_start_at(source.log_start_offset)
            return
        epoch, end = source.epochs.end_offset_for(latest, source.log_end_offset)
        if epoch == copy.epochs.latest:
            copy.truncate_to(end)
            return
        _, own_end = copy.epochs.end_offset_for(epoch, copy.log_end_offset)
        copy.truncate_to(min(end, own_end))
