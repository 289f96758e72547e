"""Faults of disks and log directories.

Disks: operations that fail, a full disk, torn writes, fsyncs that lie, rot, slowness. After a disk fault the disk is
repaired and the broker, whose log directory stays offline until then, is killed and restarted; after a full disk it may
also recover by itself. Rot is found where the broker verifies what it reads: in the last segment of a log, at the start
after an unclean shutdown. Rot in a log that is being served is another kind (`coordinators`).

Log directories: at a start one of them is empty, missing for a while, or found under another path. The broker stops
cleanly, is killed, or loses its power; what it finds is decided at the moment it starts. The content of an empty
directory counts as lost, and so does that of a missing one: its replicas may be recreated meanwhile.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from tidelog.errors import ApiError
from tidelog.log.names import METADATA_TOPIC
from tidelog.sim.faults import GO_ON, MILLI, REFUSE, SECOND, Fault
from tidelog.sim.host import Host
from tidelog.sim.inode import Inode
from tidelog.sim.nemesis.processes import stop_or_kill
from tidelog.sim.nemesis.strike import Kind, Strike
from tidelog.wire.records import batches

HARMLESS = ("write", "read", "rename", "truncate", "open", "create", "folder", "remove", "usage")
"""Operations whose failure loses nothing."""

CHECKED_FROM = 21
"""A batch's checksum covers what follows; a flip before may produce another valid batch."""

AWAY = (2 * SECOND, 12 * SECOND)


def disk_error(strike: Strike) -> None:
    """Let operations of one kind fail."""
    _refuse(strike, strike.random.choice(HARMLESS), "EIO")


def no_space_anywhere(strike: Strike) -> None:
    """Let operations fail that need a new name or block, on any path."""
    _refuse(strike, strike.random.choice(("write", "create", "folder", "rename")), "ENOSPC")


def short_write(strike: Strike) -> None:
    """Let a write store a part of its data and fail."""
    _refuse(strike, "write", strike.random.choice(("EIO", "ENOSPC")), torn=True)


def _refuse(strike: Strike, operation: str, reason: str, *, torn: bool = False) -> None:
    host = strike.running()
    if host is None:
        return
    after, times = strike.random.randint(0, 20), strike.random.choice((1, -1))
    host.disk.faults.append(Fault(operation, reason=reason, after=after, times=times, torn=torn))
    strike.later(SECOND, partial(_repair, strike, host))


def sync_error(strike: Strike) -> None:
    """Let one fsync or all fail: what was dirty is lost, whatever the next one returns.

    Where loss would be legitimate by then, the fsync succeeds after all.
    """
    host = strike.running()
    if host is None:
        return
    text, times = strike.random.choice((".log", "", "checkpoint")), strike.random.choice((1, 1, -1))
    verdict = partial(_decide_once, strike, host, [])
    host.disk.faults.append(Fault("sync", text, after=strike.random.choice((0, 0, 1, 4)), times=times, verdict=verdict))
    strike.later(strike.drawn(SECOND, 6 * SECOND), partial(_repair, strike, host))


def _decide_once(strike: Strike, host: Host, struck: list[str]) -> str:
    """Ask the atlas once: from the first failure on, the ghosts know that this broker has lost data."""
    if not struck:
        struck.append(strike.atlas.lossy_refusal(host))
    return REFUSE if struck[0] == REFUSE else GO_ON


def disk_full(strike: Strike) -> None:
    host = strike.running()
    if host is not None:
        host.disk.capacity = host.disk.used() + strike.random.randint(0, 5_000)
        how = strike.random.choice((_free, _repair))
        strike.later(strike.drawn(2 * SECOND, 6 * SECOND), partial(how, strike, host))


def _free(_: Strike, host: Host) -> None:
    """Make room; the broker recovers by itself."""
    host.disk.capacity = None


def _repair(strike: Strike, host: Host) -> None:
    host.disk.mend()
    if host.life is not None:
        strike.world.kill(host)


def slow_disk(strike: Strike) -> None:
    """Make fsyncs much slower for a while."""
    host = strike.random.choice(strike.world.hosts)
    host.trouble.sync_factor = strike.random.choice((5, 50))

    def recover() -> None:
        host.trouble.sync_factor = 1

    strike.later(strike.random.randint(200 * MILLI, 8 * SECOND), recover)


def rot(strike: Strike) -> None:
    """Flip a bit in the last segment of a log whose broker was killed: recovery must end the log there."""
    host = strike.losable()
    if host is None:
        return
    strike.world.kill(host)
    found = sorted(path for path in last_segments(host) if host.disk.inode(path).cached)
    if found:
        path = strike.random.choice(found)
        strike.atlas.ghosts.lost_power(host.broker_id)
        host.disk.flip(path, position_in_batch(strike, host.disk.inode(path)))
        strike.world.note(host.name, "ROT", path)


def last_segments(host: Host) -> list[str]:
    """Return the path of each log's last segment: names sort by their base offsets. Not of the metadata log: a voter
    with rot there does not start again, and waits for an operator."""
    last: dict[str, str] = {}
    for path in sorted(host.disk.names):
        if path.endswith(".log") and "-delete" not in path and METADATA_TOPIC not in path:
            last[path.rsplit("/", 1)[0]] = path
    return list(last.values())


def position_in_batch(strike: Strike, inode: Inode) -> int:
    """Return a position in a whole batch: behind the last there may be a torn end of an earlier fault."""
    ranges: list[tuple[int, int]] = []
    with suppress(ApiError):
        ranges.extend((batch.position + CHECKED_FROM, batch.end - 1) for batch in batches(bytes(inode.cached)))
    return strike.random.randint(*strike.random.choice(ranges)) if ranges else 0


KINDS: Mapping[str, Kind] = {
    "disk_error": disk_error,
    "no_space_anywhere": no_space_anywhere,
    "short_write": short_write,
    "sync_error": sync_error,
    "disk_full": disk_full,
    "slow_disk": slow_disk,
    "rot": rot,
}


def folder_replaced(strike: Strike) -> None:
    """One log directory is empty, with another ID."""
    _at_next_start(strike, _replace_directory)


def folder_away(strike: Strike) -> None:
    """The broker starts without one log directory, and some time later with all."""
    _at_next_start(strike, _leave_directory_out)


def folder_renamed(strike: Strike) -> None:
    """One log directory is found under another path, or two are swapped: nothing is lost by that."""
    _at_next_start(strike, _rename_directories)


def _at_next_start(strike: Strike, happens: Callable[[Strike, Host], None]) -> None:
    host = strike.running()
    if host is None or len(host.disk.mounted) < 2:
        return
    if strike.world.keeps_folders(host):
        return
    waiting = strike.nemesis.before_start.get(host.broker_id)

    def starts() -> None:
        if waiting is not None:
            waiting()
        if not strike.nemesis.over and not host.disk.away:
            happens(strike, host)

    strike.nemesis.before_start[host.broker_id] = starts
    ends = [stop_or_kill, stop_or_kill, _kill]
    if strike.atlas.may_lose(host):
        ends.append(_lose_power)
    strike.random.choice(ends)(strike, host)


def _kill(strike: Strike, host: Host) -> None:
    strike.world.kill(host)


def _lose_power(strike: Strike, host: Host) -> None:
    strike.world.lose_power(host)


def _replace_directory(strike: Strike, host: Host) -> None:
    folder = strike.random.choice(host.disk.mounted)
    if _may_lose_directory(strike, host, folder):
        _record(strike, host, "folder replaced", folder)
        host.disk.erase(folder)


def _leave_directory_out(strike: Strike, host: Host) -> None:
    folder = strike.random.choice(host.disk.mounted)
    if _may_lose_directory(strike, host, folder):
        _record(strike, host, "folder away", folder)
        host.disk.away.add(folder)
        strike.later(strike.drawn(*AWAY), partial(_bring_directory_back, strike, host))


def _bring_directory_back(strike: Strike, host: Host) -> None:
    """Mount the directory, unless the cluster was healed meanwhile."""
    if host.disk.away:
        if host.life is not None:
            strike.world.kill(host)
        host.disk.mount()


def _rename_directories(strike: Strike, host: Host) -> None:
    one, other = strike.random.sample(host.disk.mounted, 2)
    swapped = strike.random.random() < 0.5
    paths = {one: other, other: one} if swapped else {one: f"/data/at-{strike.number}"}
    _record(strike, host, "folder renamed", ", ".join(f"{old} is {new}" for old, new in paths.items()))
    host.disk.remount(paths)


def _may_lose_directory(strike: Strike, host: Host, folder: str) -> bool:
    """Return whether the content of the directory may be lost; if so, record the loss in the ghosts."""
    names = host.disk.held_in(folder)
    if not strike.atlas.may_lose(host, names):
        return False
    strike.atlas.ghosts.lost_power(host.broker_id, names)
    return True


def _record(strike: Strike, host: Host, kind: str, folder: str) -> None:
    strike.world.note(host.name, kind.upper(), folder)
    strike.world.count(kind)


DIRECTORY_KINDS: Mapping[str, Kind] = {
    "folder_replaced": folder_replaced,
    "folder_away": folder_away,
    "folder_renamed": folder_renamed,
}
