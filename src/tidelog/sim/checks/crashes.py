"""I30: after a crash the recovered log is a prefix of the old one and holds all that was synced; a kill costs nothing,
for the page cache survives, and no epoch either, also where compaction left it without a batch. What lies below the
recovery point is synced. The checkpoints that are replaced durably are whole.

What a truncation took may come back by a power loss as long as the cut was not synced, but never behind newer records:
the log before a truncation counts as an old one, too. A kill syncs nothing: the lives after it inherit its cuts.
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
    """A replica whose broker is down. `synced_to`: below it everything was said to be durable. `torn`: it died within a
    step that nobody has seen the end of; `cutting`: it may have truncated its log in it. `directory`: the id of its log
    folder; `epochs` are those of its cache."""

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
        """As far as the page cache or the platter has it."""
        return self.synced_to if self.how == POWER_LOSS else self.replica.log.end

    @property
    def required_end(self) -> int:
        """The end of what must be there again."""
        whole = self.how != POWER_LOSS and not self.failed and not (self.cutting and self.how == KILLED)
        return self.replica.records_end if whole else min(self.synced_to, self.replica.records_end)


class Crashes:
    """What brokers that are down have left behind."""

    def __init__(self) -> None:
        self.remains: dict[tuple[int, TopicPartition], Remains] = {}

    def __repr__(self) -> str:
        return f"Crashes({len(self.remains)} replicas down)"

    def end(self, ghosts: Ghosts, host: Host, how: str, replica: Replica, *, failed: bool) -> None:
        state, name = replica.state, replica.partition.name
        if state is None:
            return
        left = host.disk.operations_left
        # The step within which a replica failed was not looked at: its broker may go on without it.
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
        """A broker is back, and has a log again; it was read, and nothing has happened to it yet."""
        old = self.remains.pop((host.broker_id, replica.partition.name), None)
        if old is None or old.topic_id != replica.partition.log.topic_id or not host.disk.holds(old.directory):
            return
        if old.how != POWER_LOSS:
            inherit_cuts(replica, old.replica)
        start = max(replica.first_offset, old.replica.first_offset)
        found = identities(replica.log.batches, start)
        assert any(is_prefix(found, version, torn=old.torn) for version in versions(old.replica, start)), (
            f"I30: {replica!r} is no prefix of {old.replica!r} at its end by {old.how}: {found[-5:]}"
        )
        if replica.partition.log.folder in host.disk.rotten:
            return
        assert replica.log.end >= old.required_end, (
            f"I30: {replica!r} ends below {old.required_end}, up to where {old.replica!r} was sure ({old.how})"
        )
        kept = [batch for batch in old.replica.log.batches if start < batch.end <= old.required_end]
        missing = set(identities(kept, start)) - set(found)
        assert not missing, (
            f"I30: {replica!r} lacks {sorted(missing)[:5]}, which {old.replica!r} had for sure ({old.how})"
        )
        if old.how == KILLED and not old.torn and not old.failed:
            check_epochs(replica, old)

    def check_gone(self, ghosts: Ghosts, host: Host) -> None:
        """What is not there after a start. Where the disk refused to show it, or its log folder is away, it may be
        there next time."""
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
        """A life that ended by a loss of power before it had recovered what an older one left has lost it, too. What
        it made anew while the folder of the old was away is kept instead, also where it died within that step: then
        nobody saw the new one."""
        made = host.disk.held_in(*host.disk.mounted)
        for key, remains in [(key, remains) for key, remains in self.remains.items() if key[0] == host.broker_id]:
            if how == POWER_LOSS:
                remains.how = how
            if key[1] in made and not host.disk.shows(remains.directory):
                del self.remains[key]


def check_epochs(replica: Replica, old: Remains) -> None:
    """After a kill every epoch that ended in the log is known again, and where it began."""
    log = replica.partition.log
    start, end = max(log.log_start_offset, replica.deleted_to), replica.log.end
    had, has = (
        [(epoch, begins) for epoch, begins in epochs if start < begins < end] for epochs in (old.epochs, log.epochs)
    )
    assert has == had, f"I30: {replica!r} has the epochs {has}, and had {had} when it was killed"


def may_truncate(replica: Replica) -> bool:
    """Whether its log may be cut in the next step: leaders keep what they have, and so does who knows of no leader yet,
    but for the generation that cuts as soon as it hears of one."""
    state = replica.state
    has_leader = state is not None and (state.epoch >= 0 or replica.partition.generation is not KIP_320)
    return state is not None and not state.leading and has_leader


def check_durable(replica: Replica, before: State | None, disk: SimDisk) -> None:
    """The recovery point moved: below it nothing waits in the page cache. What is written begins with a batch. Where a
    bit turned, a repair below the recovery point is synced by the next flush, and found to be due again without it."""
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
    """What a life cut off without a sync waits on the platter until a later one loses its power; so does what it was
    cutting when it was killed."""
    replica.cuts = list(old.cuts)
    gone = list(old.log.since(replica.log.end))
    if gone:
        replica.cuts.append((replica.log.end, gone))


def identities(batches: list[Batch], start: int) -> list[Identity]:
    return [batch.identity for batch in batches if batch.end > start]


def versions(replica: Replica, start: int) -> list[list[Identity]]:
    """The log as it was at the end, and before each of its truncations."""
    batches = list(replica.log.batches)
    found = [identities(batches, start)]
    for offset, gone in reversed(replica.cuts):
        batches = [batch for batch in batches if batch.base < offset] + gone
        found.append(identities(batches, start))
    return found


def is_prefix(found: list[Identity], version: list[Identity], *, torn: bool) -> bool:
    return found == version[: len(found)] or (torn and version == found[: len(version)])


def check_checkpoints(disk: SimDisk, folder: str) -> None:
    """Each is a version, a count and as many lines, never less: what was there was exchanged for it at once."""
    for name in CHECKPOINTS:
        path = f"{folder}/{name}"
        if disk.exists(path):
            content = bytes(disk.inode(path).cached)
            lines = content.decode(errors="replace").split("\n")
            whole = len(lines) > 2 and lines[0] == "0" and lines[1].isdecimal() and len(lines) == int(lines[1]) + 3
            assert whole, f"I30: {path} is torn: {content!r}"
