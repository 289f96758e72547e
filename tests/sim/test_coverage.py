"""States are counted from outside, and leave no trace behind."""

import pytest

from tidelog.errors import ApiError, ErrorCode
from tidelog.partition.partition import Partition
from tidelog.sim.coverage import COUNTED, PROBES, never, probed, states
from tidelog.sim.plan import Plan
from tidelog.sim.run import run


class Fenced:
    epoch = 3


def test_a_refused_call_is_counted_and_refused_all_the_same():
    seen = []
    with probed(seen.append):
        Partition.check_epoch(Fenced, 3)
        with pytest.raises(ApiError) as refusal:
            Partition.check_epoch(Fenced, 2)
    assert refusal.value.code == ErrorCode.FENCED_LEADER_EPOCH
    assert seen == ["fenced: leader epoch"]


def test_probes_go():
    before = Partition.check_epoch
    with probed(lambda _: None):
        assert Partition.check_epoch is not before
    assert Partition.check_epoch is before


def test_what_never_happened_is_named():
    assert set(never({})) == set(PROBES) | set(COUNTED)
    counts = {"partition.leader": 2, "log truncated": 1}
    assert states(counts)["became leader"] == 2
    assert set(never(counts)) == (set(PROBES) | set(COUNTED)) - {"became leader", "log truncated"}


def test_a_run_reaches_states():
    outcome = run(Plan(1, seconds=5))
    assert states(outcome.counts)["became leader"] >= 1
    assert states(outcome.counts)["controller elected"] >= 1
