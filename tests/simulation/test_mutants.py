"""Each mutant is found out: at the seed that is known to, or, since what others change moves it, within a few seeds.

Then a warning names the seed that does now: with it in the table, the test takes a second instead of half a minute."""

import warnings
from types import SimpleNamespace

import pytest

from tests.log import test_compaction
from tidelog.log.log import Log
from tidelog.partition.leader import Leader
from tidelog.sim.mutants import hunt as hunting
from tidelog.sim.mutants.catalogue import ELIGIBLE, EVERY, FORMER, MUTANTS, applied, find, named
from tidelog.sim.mutants.hunt import Verdict, hunt
from tidelog.sim.plan import NEW_SEEDS
from tidelog.sim.workload import LATER

WINDOW, WIDE = 60, 300
RARE = frozenset({"kip-101", "kip-279-unfenced", "compaction-ascending", "lso-ignores-markers"})

FOUND = {
    "truncate-to-high-watermark": 5000,
    "kip-101": 5004,
    "kip-279-unfenced": 5004,
    "isr-without-epoch-start": 5001,
    "watermark-over-committed-isr": 5005,
    "alter-partition-without-broker-epoch": 5000,
    "ack-before-isr": 5000,
    "watermark-below-min-isr": 5000,
    "consumer-reads-to-the-end": 5000,
    "lso-ignores-markers": 5015,
    "producers-not-truncated": 5002,
    "dedupe-lost": 5000,
    "recovery-point-before-fsync": 5000,
    "clean-shutdown-stays": 5016,
    "compaction-ascending": 266,
    "anybody-may-follow": 5001,
    "end-txn-without-bump": 5006,
    "checkpoint-in-place": 5005,
    "epochs-not-truncated": 5001,
    "metadata-out-of-order": 5010,
}
"""The first seed from 5000 on that does, without what came later than these were looked for; for the ascending
renames, which no seed from 5000 to 5299 finds, another one."""


FORMER_FOUND = {
    "late-pushes": 20,
    "late-stop-replica": 20,
    "late-leader-and-isr": 20,
    "made-up-controller": 41,
    "compacted-epochs-forgotten": 3260,
    "missing-folders-ignored": 781,
    "coordinator-loads-rot": 45,
    "log-ends-of-earlier-lives": 13,
    "positions-of-an-earlier-topic": 44,
    "several-unacknowledged": 0,
    "transaction-begins-anywhere": 217,
    "early-end-is-fenced": 29,
    "replaced-coordinator-answers": 4349,
}
"""The first seed that finds a defect which was mended, put back."""
WITHOUT_LATER = frozenset({"late-pushes", "late-stop-replica", "late-leader-and-isr"})
"""These seeds do without what came later, which would move them each time."""


ELIGIBLE_FOUND = {
    "elr-keeps-unclean": 20_000_000,
    "elr-ignored-by-leader": 20_000_018,
}
"""Seeds with eligible leader replicas that find a wrong use of them."""


class Moved(UserWarning):
    """Another seed than the kept one finds a mutant."""


pytestmark = pytest.mark.filterwarnings("default::tests.simulation.test_mutants.Moved")


def check(name, *hunts):
    """One of the hunts, each the arguments of `hunt`, finds it; the first one has only the seed that is kept."""
    tried = 0
    for arguments in hunts:
        verdict: Verdict = hunt(find(name), *arguments)
        tried += verdict.tried
        if verdict.killed:
            if tried > 1:
                warnings.warn(f"{name} is now found at seed {verdict.outcome.plan.seed}", Moved, stacklevel=2)
            return
    pytest.fail(f"{name} survived {tried} seeds")


@pytest.mark.parametrize("name", sorted(FOUND))
def test_a_mutant_is_found_out(name):
    check(name, ([FOUND[name]], LATER), (range(WIDE if name in RARE else WINDOW),))


@pytest.mark.parametrize("name", sorted(FORMER_FOUND))
def test_a_former_defect_is_found_out(name):
    check(name, ([FORMER_FOUND[name]], LATER if name in WITHOUT_LATER else ()), (range(WINDOW),))


@pytest.mark.parametrize("name", sorted(ELIGIBLE_FOUND))
def test_a_wrong_use_of_eligible_leader_replicas_is_found_out(name):
    check(name, ([ELIGIBLE_FOUND[name]],), (range(NEW_SEEDS, NEW_SEEDS + WINDOW),))


def test_every_mutant_is_looked_for():
    assert {mutant.name for mutant in MUTANTS} == set(FOUND)
    assert len(MUTANTS) == 20
    assert {mutant.name for mutant in FORMER} == {*FORMER_FOUND}
    assert len(FORMER) == len(FORMER_FOUND)
    assert {mutant.name for mutant in ELIGIBLE} == {*ELIGIBLE_FOUND}


def test_an_unbroken_cluster_runs_once_for_all_mutants_of_a_seed(monkeypatch):
    plain, ran = Leader.may_join, []

    def run(_plan):
        ran.append(Leader.may_join is plain)
        return SimpleNamespace(ok=ran[-1])

    monkeypatch.setattr(hunting, "run", run)
    for _ in range(2):
        assert hunt(find("isr-without-epoch-start"), [-1]).killed
    assert ran == [False, True, False]


def test_mutants_by_their_names():
    assert named([]) == list(MUTANTS)
    assert named(["former"]) == list(FORMER)
    assert [mutant.name for mutant in named(["kip-101", "late-pushes"])] == ["kip-101", "late-pushes"]


def test_a_kill_at_each_operation_of_the_disk_finds_out_a_compaction_that_renames_in_ascending_order():
    with applied(find("compaction-ascending")), pytest.raises(AssertionError):
        test_compaction.test_a_crash_at_any_operation_leaves_the_old_log_or_the_new_one(0, 500, power=False)


def test_a_mutant_is_undone():
    before = Leader.may_join, Log.unsynced
    for mutant in EVERY:
        with applied(mutant):
            replaced = (Leader.may_join, Log.unsynced) != before
        assert replaced == (mutant.name in ("isr-without-epoch-start", "recovery-point-before-fsync"))
    assert (Leader.may_join, Log.unsynced) == before


def test_an_unknown_mutant_is_reported_with_those_that_there_are():
    with pytest.raises(LookupError, match=r"'nobody' is not a mutant; expected one of truncate-to-high-watermark, "):
        find("nobody")
