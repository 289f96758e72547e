"""Carry out the effects of one broker's life on the network, the disk and the store, each at its own pace."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.effects import (
    Close,
    Compute,
    Connect,
    Effect,
    Event,
    Examine,
    FileSlice,
    Part,
    Pause,
    PutBack,
    Remove,
    Replace,
    Retain,
    Send,
    SetConnectionLimits,
    SetFrameLimit,
    SetListenerOptions,
    SetLogLevels,
    Stop,
    Store,
    Stretch,
    Sync,
    SyncFolders,
    carried_out,
)
from tidelog.errors import DiskFailed, DiskFull
from tidelog.log.examination import examine
from tidelog.node.log_dirs import sync_folders
from tidelog.ports import File, Operation, StoreResult
from tidelog.sim.disk import PowerCut
from tidelog.sim.store import Session

if TYPE_CHECKING:
    from tidelog.sim.host import Life

UNKNOWN = StoreResult("unknown")


class Carrier:
    """`_apply_at` and `_answer_at` keep the order of the store: operations are applied and answered as submitted."""

    def __init__(self, life: "Life") -> None:
        self.life = life
        self.world = life.host.world
        self.random = life.host.random
        self.at_once: deque[SyncFolders] = deque()
        """Takes no time, so that seeds from before such an effect are the same runs."""
        self._apply_at = 0
        self._answer_at = 0

    def __repr__(self) -> str:
        return f"Carrier({self.life!r})"

    def carry_out(self, effect: Effect) -> None:
        if type(effect) is Send:
            self.send(effect.connection, effect.parts)
            return
        if type(effect) is PutBack:
            self.put_back(effect.connection, effect.frames)
            return
        self.world.note(self.life.name, type(effect).__name__, effect)
        match effect:
            case Close(connection):
                self.close(connection)
            case Pause(connection, paused):
                self.pause(connection, paused=paused)
            case Retain() | SetConnectionLimits() | SetFrameLimit() | SetListenerOptions() | SetLogLevels():
                pass  # the simulator has neither connection limits nor log lines
            case Connect(connection, address, port):
                self.world.network.connect(self.life, connection, address, port)
            case Store(token, operations):
                self.submit(token, operations)
            case Stop(reason):
                self.world.stopped(self.life.host, reason)
            case Event():
                self.world.happened(self.life.host, effect)
            case Examine(token, stretch):
                self.life.after(self.drawn(self.world.faults.examine_delay), partial(self.examine, token, stretch))
            case Compute(token, _, function, arguments):
                work = partial(self.compute, token, function, arguments)
                self.life.after(self.drawn(self.world.faults.examine_delay), work)
            case SyncFolders():
                dice = self.world.folder_dice
                if dice is None:
                    self.at_once.append(effect)
                else:
                    delay = dice.randint(*self.world.faults.sync_delay) * self.life.host.trouble.sync_factor
                    self.life.after(delay, partial(self.disk_work, effect))
            case Sync() | Replace() | Remove():
                delay = self.drawn(self.world.faults.sync_delay) * self.life.host.trouble.sync_factor
                self.life.after(delay, partial(self.disk_work, effect))
            case _:
                raise AssertionError(f"no world can carry out {effect}")

    def drawn(self, delays: tuple[int, int]) -> int:
        return self.random.randint(*delays)

    # Network.

    def send(self, connection: int, parts: Sequence[Part]) -> None:
        end = self.life.ends.get(connection)
        if end is None:
            self.world.note(self.life.name, "Send", f"#{connection} is gone")
            return
        try:
            in_memory = FileSlice not in map(type, parts)
            data = b"".join(parts if in_memory else map(read_part, parts))  # type: ignore[arg-type]
        except (DiskFailed, EOFError) as failure:
            self.world.note(self.life.name, "Send", f"#{connection} {failure}")
            self.world.network.reset(end.link)
        else:
            self.world.trace.traffic(self.world.micros, self.life.name, "Send", connection, (data,))
            for witness in self.world.witnesses:
                witness.sent(self.life.host, end, data)
            self.world.network.send(end, data)

    def close(self, connection: int) -> None:
        end = self.life.ends.pop(connection, None)
        if end is not None:
            self.world.network.close(end)

    def pause(self, connection: int, *, paused: bool) -> None:
        end = self.life.ends.get(connection)
        if end is not None:
            end.paused = paused
            self.life.after(0, partial(self.world.network.drain, end))
            if end.put_back:
                self.life.after(0, partial(self.life.deliver_again, end))

    def put_back(self, connection: int, frames: Sequence[memoryview]) -> None:
        self.world.note(self.life.name, "PutBack", (connection, len(frames)))
        end = self.life.ends.get(connection)
        if end is not None:
            end.put_back[:0] = map(bytes, frames)
            self.life.after(0, partial(self.life.deliver_again, end))

    # Disk.

    def disk_work(self, effect: Sync | SyncFolders | Replace | Remove) -> None:
        """Do work that a thread does outside the loop, so also while the process is about to be paused; the answer
        waits until it resumes.
        """
        try:
            self.do_disk_work(effect)
        except PowerCut:
            self.world.cut_off(self.life.host)
        except DiskFull as full:
            self.life.deliver("disk_full", full.folder, full.reason)
        except DiskFailed as failure:
            if not isinstance(effect, Remove):
                self.life.deliver("disk_failed", effect.token, failure.folder, failure.reason)
        else:
            if not isinstance(effect, Remove):
                self.life.deliver("synced", effect.token)

    def examine(self, token: int, stretch: Stretch) -> None:
        try:
            verdict = examine(stretch)
        except PowerCut:
            self.world.cut_off(self.life.host)
        except DiskFailed as failure:
            self.life.deliver("disk_failed", 0, failure.folder, failure.reason)
        else:
            self.life.deliver("examined", token, verdict)

    def compute(self, token: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.life.deliver("computed", token, carried_out(function, arguments))

    def do_disk_work(self, effect: Sync | SyncFolders | Replace | Remove) -> None:
        disk = self.life.host.disk
        match effect:
            case Sync(_, files):
                self.sync(files)
            case SyncFolders():
                sync_folders(disk, effect)
            case Replace(_, path, content):
                disk.replace(path, content)
            case Remove(path):
                disk.remove(path)

    def sync(self, files: Sequence[File]) -> None:
        for file in files:
            file.sync()

    # Store.

    def submit(self, token: int, operations: Sequence[Operation]) -> None:
        session = self.life.session
        assert isinstance(session, Session | None), "with a metadata quorum no operation leaves the node"
        faults, trouble = self.world.faults, self.life.host.trouble
        delay = self.life.host.silence + self.drawn(trouble.store_delay or faults.store_delay)
        self._apply_at = max(self._apply_at + 1, self.world.micros + delay)
        lost = self.random.random() < (faults.store_lost if trouble.store_lost is None else trouble.store_lost)
        self.world.after(self._apply_at - self.world.micros, partial(self.apply, session, token, operations, lost=lost))

    def apply(self, session: Session | None, token: int, operations: Sequence[Operation], *, lost: bool) -> None:
        """Apply operations. A lost operation may have been applied or not; the broker that submitted
        it cannot know.
        """
        faults = self.world.faults
        happens = session is not None and (not lost or self.random.random() < 0.5)
        result = session.apply(operations) if session is not None and happens else UNKNOWN
        self.world.note(self.life.name, "store", (token, operations, result))
        self.world.tree_changed()
        as_usual = self.life.host.trouble.store_delay or faults.store_delay
        delay = self.life.host.silence + self.drawn(faults.store_lost_delay if lost else as_usual)
        self._answer_at = max(self._answer_at + 1, self.world.micros + delay)
        answer = partial(self.life.deliver, "store_result", token, UNKNOWN if lost else result)
        self.life.after(self._answer_at - self.world.micros, answer)

    @property
    def answered_at(self) -> int:
        """The time at which everything submitted so far will be answered."""
        return max(self._answer_at, self._apply_at)


def read_part(part: Part) -> bytes:
    """Return the bytes of a part; EOFError if the file ends before its slice does."""
    if not isinstance(part, FileSlice):
        return bytes(part)
    data = part.file.read(part.position, part.length)
    if len(data) < part.length:
        raise EOFError(part.file.path)
    return data
