"""I28 (S): a transaction ends the same way everywhere: all of its markers commit, or all abort. Every end raises the
epoch, so a producer's epoch stands for one transaction (KIP-890). Old producers keep their epoch; their applications
and the auditor check what became of their transactions (`clients/transactor.py`).
I27 (S): the last stable offset ascends. What a leader once reported as stable stays stable for all later leaders, as
soon as their high watermark reaches the first offset of their epoch; before that it may be behind (REPLICATION.md, rule
9). Only brokers that held the beginning of a transaction know one that began below the log's start: their LSO waits
there for its end.
I1 (S): the last stable offset lies between the log's start and the high watermark.

An allowed loss in the coordinator's log re-bases I28 as well: a coordinator that lost its decision may end the same
transaction again and differently, under an epoch that it assigned before. Kafka's coordinator does the same.

Committed records are read from the leader's files as its high watermark passes them; those of compacted partitions
record by record.
"""

from tidelog.model import TRANSACTION_TOPIC
from tidelog.sim.checks import compaction
from tidelog.sim.checks.committed import is_current_leader
from tidelog.sim.checks.ghosts import Ghost, Ghosts
from tidelog.sim.checks.replica import Batch, Replica
from tidelog.sim.disk import SimDisk
from tidelog.wire.records import NO_SEQUENCE, BatchHeader


def seal(ghosts: Ghosts, replica: Replica) -> None:
    """Record up to where a compacted log may be compacted now."""
    if ghosts.is_compacted(replica.partition):
        ghost = ghosts.of(replica.partition.name)
        ghost.keys = ghost.keys or compaction.Keys()
        ghost.keys.seal(replica)


def follow(ghosts: Ghosts, replica: Replica, disk: SimDisk) -> None:
    """Read what was committed since the last call."""
    ghost = ghosts.of(replica.partition.name)
    seal(ghosts, replica)
    start, end = ghost.followed_to, ghost.true_high_watermark
    if start >= end or ghost.awaits_rebase or not is_current_leader(ghosts, replica):
        return
    ghost.followed_to = end
    if ghost.losses:
        return  # the reference log has changed
    if ghost.keys is not None or any(is_marker(batch) for batch in replica.log.since(start)):
        expected = max(start, replica.partition.log.log_start_offset)
        for content, batch in compaction.contents(replica, disk, start):
            if batch.next_offset <= end:
                if ghost.keys is not None and batch.base_offset > expected:  # compacted before it was read
                    ghost.keys.is_whole = False
                expected = batch.next_offset
                take(ghosts, ghost, content, batch)


def is_marker(batch: Batch) -> bool:
    producer, _, first, _ = batch.producer
    return producer >= 0 and first == NO_SEQUENCE


def take(ghosts: Ghosts, ghost: Ghost, content: memoryview, batch: BatchHeader) -> None:
    epoch = (batch.producer_id, batch.producer_epoch)
    if batch.is_control and batch.count and epoch not in ghosts.reused and not has_forgotten(ghosts):
        committed = compaction.ends_well(content, batch)
        first, where = ghosts.outcomes.setdefault(epoch, (committed, ghost.name))
        words = ("aborts", "commits")
        assert first == committed, (
            f"I28: {ghost.name} {words[committed]} what {where} {words[first]}: "
            f"epoch {batch.producer_epoch} of producer {batch.producer_id}"
        )
    if ghost.keys is not None:
        ghost.keys.take(content, batch)


def has_forgotten(ghosts: Ghosts) -> bool:
    """Whether a coordinator may have lost its decisions; nobody can tell of which producers."""
    logs = (ghost for name, ghost in ghosts.partitions.items() if name.topic == TRANSACTION_TOPIC)
    return any(ghost.losses or ghost.rebase_after is not None for ghost in logs)


def check_keys(ghost: Ghost, replica: Replica, disk: SimDisk) -> None:
    """I31 (Q), for one replica."""
    state = replica.state
    if (
        ghost.keys is None
        or not ghost.keys.is_whole
        or ghost.losses
        or ghost.awaits_rebase
        or state is None
        or replica.broker in ghost.unproven
    ):
        return
    compaction.check(ghost.keys, replica, disk, min(state.high_watermark, ghost.followed_to))


def check_last_stable_offset(ghosts: Ghosts, replica: Replica) -> None:
    state, ghost, stable = replica.state, ghosts.of(replica.partition.name), replica.partition.last_stable_offset
    assert state is not None
    right = state.start <= stable <= max(state.high_watermark, state.start)
    assert right, f"I1: {replica!r} has the last stable offset {stable}"
    if not state.leading or ghost.loss_allowed or not is_current_leader(ghosts, replica):
        return
    if state.high_watermark >= ghost.starts[state.epoch]:
        reported = ghost.reported_stable
        begun_below = 0 < state.start == stable
        assert stable >= reported or begun_below, (
            f"I27: the last stable offset of {replica!r} goes back from {reported} to {stable}"
        )
        if not begun_below:  # otherwise it only says that nothing is left to read below (seed 111311)
            ghost.reported_stable = stable
