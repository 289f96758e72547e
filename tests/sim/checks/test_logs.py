"""I2, I3, I4 and I11 can be broken: what a full scan sees."""

import pytest

from tests.sim.checks.support import NAME, ghosts, replica
from tidelog.log.index import OffsetIndex
from tidelog.sim.checks import logs
from tidelog.sim.checks.crashes import Remains
from tidelog.sim.checks.ghosts import Acked

LOG = ((5, 0), (5, 1), (5, 1))


def test_a_gap_and_an_epoch_that_descends():
    logs.check_log(replica(0, LOG))
    gap = replica(0, LOG)
    gap.log.append(16, 17, 1, 1)
    for broken in (gap, replica(0, ((5, 1), (5, 0)))):
        with pytest.raises(AssertionError, match=r"^I2:"):
            logs.check_log(broken)


def test_an_index_that_points_elsewhere():
    index = OffsetIndex(0)
    index.append(9, 100)
    logs.check_index(replica(0), index, {0: 4, 100: 9})
    for ends in ({0: 4, 99: 9}, {0: 4, 100: 10}):
        with pytest.raises(AssertionError, match=r"^I2:"):
            logs.check_index(replica(0), index, ends)


def test_the_same_epoch_above_other_records():
    logs.check_matching([replica(0, LOG), replica(1, LOG[:2])])
    with pytest.raises(AssertionError, match=r"^I3:"):
        logs.check_matching([replica(0, LOG), replica(1, ((5, 0, 77), *LOG[1:]))])


def test_watermarks_above_other_records():
    logs.check_watermarks([replica(0, LOG), replica(1, (*LOG[:2], (5, 2)), high_watermark=10)])
    with pytest.raises(AssertionError, match=r"^I4:"):
        logs.check_watermarks([replica(0, LOG), replica(1, (*LOG[:2], (5, 2)))])


def test_an_acknowledged_record_that_nobody_has():
    ghost = ghosts().of(NAME)
    ghost.acked[10] = Acked(10, 15, 1010)
    short = [replica(0, LOG[:2])]
    left = Remains(replica(1, LOG), b"", "power loss", 15, torn=False, failed=False, directory=b"")
    logs.check_acked(ghost, short, [left])
    left.synced_to = 10
    with pytest.raises(AssertionError, match=r"^I11:"):
        logs.check_acked(ghost, short, [left])
    ghost.rebase_after = 1
    logs.check_acked(ghost, short, [left])
