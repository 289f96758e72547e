"""A log as a chain of batches: where it begins, and what of it can be compared."""

from types import SimpleNamespace

import pytest

from tests.log.support import NOW, batch, open_log, sim_disk
from tidelog.sim.checks.replica import Chain, Replica


def test_a_log_that_starts_within_its_first_batch_has_that_batch():
    chain = Chain()
    chain.skip_to(5)
    assert (chain.first_offset, chain.end) == (5, 5)
    chain.skip_to(0)
    batch = chain.append(0, 9, 1, 77)
    assert chain.at(0) is batch
    assert (chain.first_offset, chain.end) == (0, 9)


def test_what_lies_below_a_logs_start_is_not_compared():
    """Seeds 3002052 and 3007110: nobody truncates what is deleted, and a start may be within a batch."""
    one, other = Chain(), Chain()
    for chain, crc in ((one, 7), (other, 8)):
        chain.append(0, 5, 1, crc)
        chain.append(5, 9, 1, 77)
    assert not one.agrees(other, 9)
    one.deleted_to = 5
    assert one.agrees(other, 9)
    assert other.agrees(one, 5)
    other.append(9, 12, 1, 78)
    assert not one.agrees(other, 12)


def cut_in_a_hole():
    """A replica whose log has records up to 1 and 5, of which those from 3 on are cut off."""
    disk = sim_disk()
    log = open_log(disk)
    for base in (0, 1, 5):
        log.append_as_follower(batch(base_offset=base, leader_epoch=0), NOW)
    made = Replica(1, SimpleNamespace(log=log, name="t-0"), lambda: 6)
    made.catch_up(disk)
    log.truncate_to(3)
    made.cut(3)
    return made, disk


def test_a_compacted_log_may_be_cut_between_two_records():
    """Seed 3007787: it ends there, and a start finds it to end where its records do."""
    made, disk = cut_in_a_hole()
    made.catch_up(disk)
    assert (made.log.end, made.records_end) == (3, 2)
    made.partition.log.append_as_follower(batch(base_offset=3, leader_epoch=1), NOW)
    made.catch_up(disk)
    assert (made.log.end, made.records_end) == (4, 4)


def test_a_log_that_was_not_compacted_may_not():
    made, disk = cut_in_a_hole()
    made.compacted_to = lambda: 2
    with pytest.raises(AssertionError, match=r"^I2: .*up to 2 only"):
        made.catch_up(disk)
