"""I31, I28 and I27 can be broken: what is left of a compacted log, how transactions end, what was stable."""

from types import SimpleNamespace

import pytest

from tests.sim.checks.support import NAME, ghosts, replica
from tidelog.model import TopicPartition
from tidelog.sim.checks import transactions
from tidelog.sim.checks.compaction import Kept, Keys
from tidelog.wire import records
from tidelog.wire.records import Marker, Record, build, build_marker, header

OTHER = TopicPartition("u", 0)


def written(*pairs, base=0, producer=-1, transactional=False):
    """(bytes, header) of a batch of (key, value)."""
    attributes = records.TRANSACTIONAL if transactional else 0
    data = build(
        [Record(timestamp=1, key=key, value=value) for key, value in pairs],
        base_offset=base,
        attributes=attributes,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
    )
    return memoryview(data), header(data)


def marker(*, committed, base=0, epoch=1):
    data = build_marker(Marker(committed, 1), timestamp=1, producer_id=5, producer_epoch=epoch, base_offset=base)
    return memoryview(data), header(data)


@pytest.fixture
def keys():
    """a at 0 and 2, b at 1, a tombstone of c at 3; all of it may be compacted."""
    made = Keys()
    made.take(*written((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", None)))
    made.sealed_to = 4
    return made


def left(keys, *offsets):
    return {offset: keys.committed[offset] for offset in offsets}


@pytest.mark.parametrize("offsets", [(0, 1, 2, 3), (1, 2, 3), (1, 2)])
def test_the_last_of_each_key_is_enough_and_a_tombstone_may_go(keys, offsets):
    keys.check(replica(0), 0, 4, left(keys, *offsets))


@pytest.mark.parametrize("offsets", [(0, 1, 3), (2, 3), ()])
def test_the_last_record_of_a_key_is_missing(keys, offsets):
    with pytest.raises(AssertionError, match=r"^I31: .* lacks the last of "):
        keys.check(replica(0), 0, 4, left(keys, *offsets))


def test_what_lies_below_the_start_or_was_not_fetched_yet_is_not_missing(keys):
    keys.check(replica(0), 2, 4, left(keys, 2))
    keys.check(replica(0), 0, 2, left(keys, 0, 1))


def test_what_takes_a_records_place_may_stand_beyond_what_was_followed(keys):
    """Seed 3007037: a leader and its followers go on while the tree has a later epoch, of which nobody heard yet."""
    newer = {6: Kept(b"b", 77, is_tombstone=False)}
    keys.sealed_to = 7
    keys.check(replica(0), 0, 4, left(keys, 2, 3) | newer)
    with pytest.raises(AssertionError, match=r"^I31: .* lacks the last of "):
        keys.check(replica(0), 0, 4, left(keys, 1, 3) | newer)


def test_a_record_that_is_another_or_was_never_committed(keys):
    for offset, kept in ((2, Kept(b"a", 77, is_tombstone=False)), (0, Kept(b"b", 77, is_tombstone=False))):
        with pytest.raises(AssertionError, match=r"^I31: .* holds "):
            keys.check(replica(0), 0, 4, left(keys, 1, 2) | {offset: kept})


def test_nothing_may_go_of_what_nobody_may_compact(keys):
    keys.sealed_to = 1
    keys.check(replica(0), 0, 4, left(keys, 1, 2, 3))
    with pytest.raises(AssertionError, match=r"^I31: .* lacks 3, and nobody may compact"):
        keys.check(replica(0), 0, 4, left(keys, 1, 2))


@pytest.mark.parametrize(("committed", "last"), [(True, 4), (False, 2)])
def test_a_transaction_counts_once_it_is_committed(keys, committed, last):
    keys.take(*written((b"a", b"4"), base=4, producer=5, transactional=True))
    assert keys.last[b"a"] == 2
    keys.take(*marker(committed=committed, base=5))
    assert keys.last[b"a"] == last


def test_markers_of_one_transaction_that_differ():
    known = ghosts()
    transactions.take(known, known.of(NAME), *marker(committed=True))
    transactions.take(known, known.of(OTHER), *marker(committed=True))
    transactions.take(known, known.of(OTHER), *marker(committed=False, epoch=2))
    with pytest.raises(AssertionError, match=r"^I28: u-0 aborts what t-0 commits: epoch 1 of producer 5"):
        transactions.take(known, known.of(OTHER), *marker(committed=False))


def test_the_last_stable_offset_goes_back():
    known, leader = ghosts(), replica(0, ((5, 1),), isr=(0, 1, 2))
    for offset in (3, 5):
        leader.partition.last_stable_offset = offset
        transactions.check_last_stable_offset(known, leader)
    leader.partition.last_stable_offset = 4
    with pytest.raises(AssertionError, match=r"^I27: "):
        transactions.check_last_stable_offset(known, leader)
    known.of(NAME).loss_allowed = "a test"
    transactions.check_last_stable_offset(known, leader)


def test_the_last_stable_offset_beyond_the_high_watermark():
    known, leader = ghosts(), replica(0, ((5, 1),), isr=(0, 1, 2), high_watermark=4)
    leader.partition.last_stable_offset = 5
    with pytest.raises(AssertionError, match=r"^I1: "):
        transactions.check_last_stable_offset(known, leader)


def test_only_what_holds_for_sure_is_held_to_keys(keys):
    """After a loss, and for a replica that may have lost, nobody knows what must be there."""
    known, missing = ghosts(), replica(0, ((4, 1),))
    log = missing.partition.log
    log.segments = []
    ghost = known.of(NAME)
    ghost.keys, ghost.followed_to = keys, 4
    disk = SimpleNamespace()
    with pytest.raises(AssertionError, match=r"^I31: "):
        transactions.check_keys(ghost, missing, disk)
    ghost.unproven.add(0)
    transactions.check_keys(ghost, missing, disk)
    ghost.unproven.clear()
    ghost.losses = 1
    transactions.check_keys(ghost, missing, disk)
