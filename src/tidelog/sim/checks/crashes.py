"""I30: after a crash the recovered log is a prefix of the old one and holds all that was synced. A kill loses nothing,
because the page cache survives, and no epoch either, also when compaction left it without a batch. Everything below the
recovery point is synced. Checkpoints, which are replaced durably, are whole.

A power loss may bring back truncated records as long as the truncation was not synced, but never behind newer records:
the log before a truncation counts as an old one, too. A kill syncs nothing: later lives inherit its truncations.
"""

from dataclasses import dataclass

from tidelog.log.names import LOG
from tidelog.model import TopicPartition
from tidelog.partition.truncation import KIP_320
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.checks.replica import Batch, Replica, State
from tidelog.sim.disk import SimDisk
from tidelog.sim.host import Host
from tidelog.wire.records import header

CHECKPOINTS = ("replication-offset-checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint")
POWER_LOSS = "power loss"
KILLED = "kill"
ENDED_WITHIN_A_STEP = ("stop", "halt")
Identity = tuple[int, int, int, int]


@dataclass(slots=True)
class Remains:
    """A replica whose broker is down.

    `synced_to`: everything below it was reported durable. `torn`: the broker died within a step whose end nobody saw;
    `cutting`: it may have truncated its log in it. `directory` is the id of its log directory; `epochs` are those of
    its cache.
    """

    replica: Replica
    topic_id: bytes
    how: str
    synced_to: int
    torn: bool
    failed: bool
    directory: bytes
    cutting: bool = False
    epochs: tuple[tuple[int, int], ...] = ()

    @property
    def readable_end(self) -> int:
        """The end of what the page cache or, after a power loss, the disk holds."""
        return self.synced_to if self.how == POWER_LOSS else self.replica.log.end

    @property
    def required_end(self) -> int:
        """The end of what must be there after the restart."""
        whole = self.how != POWER_LOSS and not self.failed and not (self.cutting and self.how == KILLED)
        return self.replica.records_end if whole else min(self.synced_to, self.replica.records_end)


class Crashes:
    """The replicas of brokers that are down."""

    def __init__(self) -> None:
        self.remains: dict[tuple[int, TopicPartition], Remains] = {}

    def __repr__(self) -> str:
        return f"Crashes({len(self.remains)} replicas down)"

    def end(self, ghosts: Ghosts, host: Host, how: str, replica: Replica, *, failed: bool) -> None:
        state, name = replica.state, replica.partition.name
        if state is None:
            return
        left = host.disk.operations_left
        # The step in which a replica failed was not checked: its broker may continue without it.
        torn = how in ENDED_WITHIN_A_STEP or failed or (left is not None and left < 0)
        synced_to, cutting = state.recovery_point, torn and may_truncate(replica)
        if cutting:
            synced_to = (
                min(synced_to, ghosts.of(name).true_high_watermark) if ghosts.in_sync(name, host.broker_id) else 0
            )
        log = replica.partition.log
        directory = host.disk.directory_of(log.folder)
        self.remains[host.broker_id, name] = Remains(
            replica, log.topic_id, how, synced_to, torn, failed, directory, cutting, tuple(log.epochs)
        )

    def check_recovered(self, host: Host, replica: Replica) -> None:
        """Check the log of a broker that is back: it was read, and nothing has happened to it yet."""
        old = self.remains.pop((host.broker_id, replica.partition.name), None)
        if old is None or old.topic_id != replica.partition.log.topic_id or not host.disk.holds(old.directory):
            return
        if old.how != POWER_LOSS:
            inherit_cuts(replica, old.replica)
        start = max(replica.first_offset, old.replica.first_offset)
        found = identities(replica.log.batches, start)
        assert any(is_prefix(found, version, torn=old.torn) for version in versions(old.replica, start)), (
            f"I30: {replica!r} is not a prefix of {old.replica!r} at its end by {old.how}: {found[-5:]}"
        )
        if replica.partition.log.folder in host.disk.rotten:
            return
        assert replica.log.end >= old.required_end, (
            f"I30: {replica!r} ends below {old.required_end}, the required end of {old.replica!r} ({old.how})"
        )
        kept = [batch for batch in old.replica.log.batches if start < batch.end <= old.required_end]
        missing = set(identities(kept, start)) - set(found)
        assert not missing, (
            f"I30: {replica!r} lacks {sorted(missing)[:5]}, which {old.replica!r} had synced ({old.how})"
        )
        if old.how == KILLED and not old.torn and not old.failed:
            check_epochs(replica, old)

    def check_gone(self, ghosts: Ghosts, host: Host) -> None:
        """Check what is missing after a start.

        A replica that the disk failed to show, or whose log directory is missing, may be there at the next start.
        """
        if host.disk.faults:
            return
        for key in [key for key in self.remains if key[0] == host.broker_id]:
            old, name = self.remains[key], key[1]
            if host.disk.holds(old.directory) and not host.disk.shows(old.directory):
                continue
            there = ghosts.topic_ids.get(name.topic) == old.topic_id and name.topic not in ghosts.deleting
            if (
                there
                and not old.torn
                and host.disk.holds(old.directory)
                and old.required_end > old.replica.first_offset
            ):
                raise AssertionError(f"I30: broker {host.broker_id} has nothing of {old.replica!r}")
            del self.remains[key]

    def end_life(self, host: Host, how: str) -> None:
        """Record the end of a life.

        A life that loses its power before it recovered what an older one left has lost that, too. A replica that was
        recreated while the directory of the old one was missing replaces it, also if the broker died within that step
        and nobody saw the new one.
        """
        made = host.disk.held_in(*host.disk.mounted)
        for key, remains in [(key, remains) for key, remains in self.remains.items() if key[0] == host.broker_id]:
            if how == POWER_LOSS:
                remains.how = how
            if key[1] in made and not host.disk.shows(remains.directory):
                del self.remains[key]


def check_epochs(replica: Replica, old: Remains) -> None:
    """Check that after a kill every epoch that ended in the log is known again, with its start offset."""
    log = replica.partition.log
    start, end = max(log.log_start_offset, replica.deleted_to), replica.log.end
    had, has = (
        [(epoch, begins) for epoch, begins in epochs if start < begins < end] for epochs in (old.epochs, log.epochs)
    )
    assert has == had, f"I30: {replica!r} has the epochs {has}, and had {had} when it was killed"


def may_truncate(replica: Replica) -> bool:
    """Whether the replica may truncate its log in the next step.

    Leaders do not, and replicas that know no leader yet do not, except in the generation that truncates as soon as it
    knows one.
    """
    state = replica.state
    has_leader = state is not None and (state.epoch >= 0 or replica.partition.generation is not KIP_320)
    return state is not None and not state.leading and has_leader


def check_durable(replica: Replica, before: State | None, disk: SimDisk) -> None:
    """Check that nothing below a new recovery point waits in the page cache.

    Each write begins with a batch. After bit rot, the next flush syncs a repair below the recovery point; without the
    flush, the repair is found to be due again.
    """
    state = replica.state
    if (
        replica.partition.log.folder in disk.rotten
        or state is None
        or before is None
        or state.recovery_point <= before.recovery_point
    ):
        return
    for segment in replica.partition.log.segments:
        inode = disk.inode(segment.path(LOG))
        for start, end in inode.dirty:
            if start < end <= segment.size:
                base = header(inode.cached, start).base_offset
                assert base >= state.recovery_point, f"I30: {replica!r} has {base} of {segment!r} not synced yet"


def inherit_cuts(replica: Replica, old: Replica) -> None:
    """Carry over truncations that were not synced, and what the broker was truncating when it was killed: a later power
    loss may undo them.
    """
    replica.cuts = list(old.cuts)
    gone = list(old.log.since(replica.log.end))
    if gone:
        replica.cuts.append((replica.log.end, gone))


def identities(batches: list[Batch], start: int) -> list[Identity]:
    return [batch.identity for batch in batches if batch.end > start]


def versions(replica: Replica, start: int) -> list[list[Identity]]:
    """Return the log as it was at the end, and before each of its truncations."""
    batches = list(replica.log.batches)
    found = [identities(batches, start)]
    for offset, gone in reversed(replica.cuts):
        batches = [batch for batch in batches if batch.base < offset] + gone
        found.append(identities(batches, start))
    return found


def is_prefix(found: list[Identity], version: list[Identity], *, torn: bool) -> bool:
    return found == version[: len(found)] or (torn and version == found[: len(version)])


def check_checkpoints(disk: SimDisk, folder: str) -> None:
    """Check that each checkpoint is a version, a count and as many lines: the file is replaced atomically."""
    for name in CHECKPOINTS:
        path = f"{folder}/{name}"
        if disk.exists(path):
            content = bytes(disk.inode(path).cached)
            lines = content.decode(errors="replace").split("\n")
            whole = len(lines) > 2 and lines[0] == "0" and lines[1].isdecimal() and len(lines) == int(lines[1]) + 3
            assert whole, f"I30: {path} is torn: {content!r}"
