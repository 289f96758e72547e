"""Each mutant is found out: at the seed that is known to, or, since what others change moves it, within a few seeds."""

import pytest

from tests.log import test_compaction
from tidelog.log.contents import Contents
from tidelog.partition.leader import Leader
from tidelog.sim.mutants.catalogue import MUTANTS, applied, find
from tidelog.sim.mutants.hunt import hunt

WINDOW, WIDE = 60, 300
RARE = frozenset({"kip-101", "kip-279-unfenced", "compaction-ascending"})

FOUND = {
    "truncate-to-high-watermark": 1,
    "kip-101": 35,
    "kip-279-unfenced": 35,
    "isr-without-epoch-start": 6,
    "watermark-over-committed-isr": 1,
    "alter-partition-without-broker-epoch": 1,
    "ack-before-isr": 0,
    "watermark-below-min-isr": 6,
    "consumer-reads-to-the-end": 0,
    "lso-ignores-markers": 13,
    "producers-not-truncated": 1,
    "dedupe-lost": 1,
    "recovery-point-before-fsync": 0,
    "clean-shutdown-stays": 6,
    "compaction-ascending": 3056,
    "anybody-may-follow": 1,
    "end-txn-without-bump": 5,
    "checkpoint-in-place": 10,
    "epochs-not-truncated": 1,
    "metadata-out-of-order": 5,
}
"""The first seed that does."""


@pytest.mark.parametrize("name", sorted(FOUND))
def test_a_mutant_is_found_out(name):
    verdict = hunt(find(name), [FOUND[name], *range(WIDE if name in RARE else WINDOW)])
    assert verdict.killed, f"{name} survived {verdict.tried} seeds"


def test_every_mutant_is_looked_for():
    assert {mutant.name for mutant in MUTANTS} == set(FOUND)
    assert len(MUTANTS) == 20


def test_a_kill_at_each_operation_of_the_disk_finds_out_a_compaction_that_renames_in_ascending_order():
    with applied(find("compaction-ascending")), pytest.raises(AssertionError):
        test_compaction.test_a_crash_at_any_operation_leaves_the_old_log_or_the_new_one(0, 500, power=False)


def test_a_mutant_is_undone():
    before = Leader.may_join, Contents.unsynced
    for mutant in MUTANTS:
        with applied(mutant):
            replaced = (Leader.may_join, Contents.unsynced) != before
        assert replaced == (mutant.name in ("isr-without-epoch-start", "recovery-point-before-fsync"))
    assert (Leader.may_join, Contents.unsynced) == before


def test_an_unknown_mutant_is_told_with_those_that_there_are():
    with pytest.raises(LookupError, match=r"no mutant nobody: truncate-to-high-watermark, "):
        find("nobody")
