"""What may stand for a damaged batch that does not fit into its place: surely what another replica kept of that batch,
and never what would bring a removed record back or leave a transaction without its end."""

import pytest

from tests.log.support import NOW, WALL, batch, open_log, options, read_batches, sim_disk
from tidelog.effects import Stretch
from tidelog.log.compaction.refetching import refetch
from tidelog.log.compaction.survivors import emptied
from tidelog.log.examination import UNKNOWN, examine
from tidelog.wire.record_format import outline
from tidelog.wire.records import Marker, build_marker, header, payload_of, rebuild

BASE, LAST_OFFSET_DELTA, ATTRIBUTES, RECORDS = 7, 26, 22, 64
"""Positions of the lowest bytes in a batch."""


def following(*found):
    log = open_log(sim_disk(), options(cleanup_policy="compact", index_interval_bytes=0))
    for data in found:
        log.append_as_follower(data, NOW)
    return log


def replacement(log, number, records, *damaged, bit=1, wall=WALL):
    """What `refetch` remembers for this batch of the log once bits of it flipped; None if nothing."""
    segment = log.segments[0]
    at = segment.locate(header(read_batches(log)[number]).base_offset)
    for byte in (RECORDS, *damaged):
        value = segment.file.read(at.position + byte, 1)[0]
        segment.file.write(at.position + byte, bytes([value ^ bit]))
    offsets = range(log.log_end_offset)
    stretch = Stretch(
        segment.file, 0, segment.size, segment.size, expected=0, last=UNKNOWN, offsets=offsets, gaps=True, epochs=()
    )
    (fault,) = examine(stretch).faults
    assert fault.position == at.position
    if not refetch(log, segment, fault, b"".join(records), wall):
        assert not log.segments.refetched
        return None
    return log.segments.refetched[segment, at.position].records


def plain(offset, *values, **fields):
    return batch(*(values or (b"some value",)), base_offset=offset, leader_epoch=1, **fields)


def transactional(offset, *values):
    return plain(offset, *values, producer_id=2, producer_epoch=0, base_sequence=offset, attributes=0x10)


def marker(offset, committed=True):
    return build_marker(
        Marker(committed, 1), timestamp=WALL, producer_id=2, producer_epoch=0, base_offset=offset, leader_epoch=1
    )


def shortened(data):
    found = header(data)
    payload = payload_of(data, found)
    (places,) = outline(payload, found.count, found.count)
    return rebuild(found, payload[places.bounds[1] :], found.count - 1, found.max_timestamp)


def test_the_batch_as_another_replica_kept_it_or_nothing():
    held = [plain(0), plain(1, b"1", b"2"), transactional(3, b"1", b"2"), marker(5), plain(6)]
    short = shortened(held[1])
    assert replacement(following(*held), 1, [short, held[4]]) == short
    assert replacement(following(*held), 1, held[4:]) == b""
    assert replacement(following(*held), 2, held[3:]) == b"", "its marker is still there"
    horizon = bytes(held[3])
    assert replacement(following(*held), 3, [horizon, held[4]]) == horizon


def test_another_batch_in_its_place_does_not_come_back():
    """The log was compacted: it has no batch at 1 any more, and the other replica has."""
    held = [plain(0), plain(2), plain(5)]
    old = plain(1)
    assert replacement(following(*held), 1, [old, held[2]]) is None
    assert replacement(following(*held), 1, [plain(3), held[2]]) is None
    assert replacement(following(*held), 1, [plain(1, b"1", b"2"), held[2]]) is None
    assert replacement(following(*held), 1, [held[1], held[2]], BASE) is None, "its own offset may be damaged, too"
    assert replacement(following(*held), 1, [held[1], held[2]], LAST_OFFSET_DELTA) is None


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_is_not_replaced_by_nothing(committed):
    """The other replica has no record of the transaction; this one has, as long as it has not compacted."""
    held = [transactional(0), marker(1, committed), plain(2)]
    assert replacement(following(*held), 1, held[2:]) is None
    assert replacement(following(*held), 1, [emptied(header(held[1])).data, held[2]]) is None
    assert replacement(following(*held), 1, held[2:], ATTRIBUTES, bit=0x20) is None, "nor if its control bit flipped"


def test_records_that_a_tombstone_in_the_batch_deleted_do_not_come_back():
    """It expired in the other replica, and this one has not compacted up to there."""
    held = [plain(0), plain(1), plain(2)]
    hour, day = 3_600_000, 86_400_000
    assert replacement(following(*held), 1, held[2:], wall=WALL + day - hour - 1) == b""
    assert replacement(following(*held), 1, held[2:], wall=WALL + day - hour) is None
    log = following(*held)
    log.cleaned_to = 2
    assert replacement(log, 1, held[2:], wall=WALL + 2 * day) == b""
    assert replacement(following(*held), 0, held[1:]) is None, "nothing before it tells how old it is"
