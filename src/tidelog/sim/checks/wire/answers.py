"""What brokers answer to clients, taken from the wire and judged when the step is over.

I22 (S): consumers get offsets < HW, or < LSO with read_committed; an offset once served reads the same until deleted.

I24 (S): the latest offset that ListOffsets returns never goes back, across leaders of one epoch or of later ones.

I25 (S): an acks=all success is below HW when answered and reads back the same; an offset is acknowledged for one record
only.

I26 (S): a retry gets the same answer as the first attempt.
"""

from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.sim.checks import numbering
from tidelog.sim.checks.ghosts import Acked, Ghosts
from tidelog.sim.checks.replica import Replica
from tidelog.sim.checks.wire.wire_tap import AckedBatch, LatestOffset, ServedRecords
from tidelog.wire.records import batches, crc_holds


def check_acknowledged(ghosts: Ghosts, replica: Replica, success: AckedBatch) -> None:
    """Check a successful acks=all response of a broker."""
    ghost, sent, state = ghosts.of(success.name), success.sent, replica.state
    assert state is not None
    batch = replica.log.at(success.base)
    end = success.base + sent.last_offset_delta + 1
    # Another partition of the request may have delayed the response until this leader became a follower, whose HW may
    # go back.
    committed = state.high_watermark if state.leading else max(state.high_watermark, ghost.true_high_watermark)
    assert end <= committed, f"I25: {replica!r} acknowledges [{success.base}, {end}), beyond its HW"
    if success.base < max(state.start, replica.first_offset):
        return
    numbers = (sent.producer_id, sent.producer_epoch, sent.base_sequence, sent.last_sequence)
    assert batch is not None and (batch.end, batch.producer) == (end, numbers), (  # noqa: PT018
        f"I25: {replica!r} acknowledges {sent} at {success.base}, where it has {batch}"
    )
    if ghost.awaits_rebase or replica.broker in ghost.unproven:  # or replaced in a loss without knowing it yet
        return
    acked = Acked(batch.base, batch.end, batch.crc)
    known = ghost.acked.setdefault(acked.base, acked)
    assert known == acked, f"I25: {acked} was acknowledged where {known} was before"
    if not ghosts.aged:
        numbering.check_answer(ghost, batch.producer, batch.base, state.start)


def check_success(ghosts: Ghosts, name: TopicPartition, base: int, end: int) -> None:
    """Check a success that a producer received, however late: some replica must have had it below HW by then.

    The content is known from when it was answered; the log may hold it compressed or dated differently from what was
    sent.
    """
    ghost = ghosts.of(name)
    if ghost.awaits_rebase or ghost.losses:
        return
    assert end <= ghost.seen_high_watermark, f"I25: [{base}, {end}) of {name} was acknowledged beyond any HW"
    known = ghost.acked.get(base)
    assert known is None or known.end == end, f"I25: [{base}, {end}) was acknowledged where {known} was before"


def check_served(ghosts: Ghosts, replica: Replica, what: ServedRecords) -> None:
    """Check the records that a broker returns to a consumer."""
    ghost = ghosts.of(what.name)
    for batch in batches(what.records):
        end = batch.base_offset + batch.last_offset_delta + 1
        assert crc_holds(what.records, batch), f"I22: {replica!r} serves a broken batch {batch}"
        assert end <= what.limit, f"I22: {replica!r} serves {batch} beyond {what.limit}"
        found = (end, batch.leader_epoch, batch.crc)
        if not ghost.awaits_rebase and replica.broker not in ghost.unproven:
            known = ghost.served.setdefault(batch.base_offset, found)
            same = known == found or ghost.compacted  # I31 checks which records compaction keeps
            assert same, f"I22: {replica!r} serves {found} at {batch.base_offset}, where {known} was served"


def check_read(ghosts: Ghosts, name: TopicPartition, base: int, found: tuple[int, int, int]) -> None:
    """Check what a consumer has read: `found` is its end, its epoch, and a checksum of its content."""
    ghost = ghosts.of(name)
    if ghost.awaits_rebase or ghost.losses:
        return
    assert found[0] <= ghost.seen_high_watermark, f"I22: {name} gives {found} at {base}, beyond any HW"
    known = ghost.read.setdefault(base, found)
    assert known == found, f"I22: {name} read {found} at {base}, where it had read {known}"


def check_latest(ghosts: Ghosts, what: LatestOffset) -> None:
    """Check the latest offset that a leader reports.

    A leader that is stale by then may report less than its successor did; no client that knows the successor requests
    it.
    """
    ghost = ghosts.of(what.name)
    if ghost.awaits_rebase:
        return
    most = max((offset for epoch, offset in ghost.reported_latest.items() if epoch <= what.epoch), default=0)
    assert what.offset >= most, f"I24: the latest offset of {what.name} goes back from {most} to {what.offset}: {what}"
    ghost.reported_latest[what.epoch] = what.offset


def check_refused(ghosts: Ghosts, name: TopicPartition, code: ErrorCode, *, restarted: bool) -> None:
    """I26: check that a producer whose batches were sent in order is not refused for good.

    It may be refused after a restart, because the window of five batches is known only as far as the log was replayed
    since the snapshot; and so may a new producer, from which a leader accepts whatever batch arrives first, as Kafka
    does.
    """
    allowed = restarted and code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert allowed or ghosts.of(name).loss_allowed, f"I26: a producer to {name} was refused with {code.name}"
