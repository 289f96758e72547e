"""Simulated metadata quorums (`sim/quorum`): kept and drawn seeds hold every invariant, and every mutant dies.

A drawn seed that fails is printed: `run_seed(N).history` tells what happened.
"""

from os import environ
from random import SystemRandom

import pytest

from bench.elections import KILLED, RESIGNED, failover_ms
from tests.hash_seeds import outputs_under_two_hash_seeds
from tidelog.sim.quorum.mutants import MUTANTS, applied
from tidelog.sim.quorum.run import run_seed

FORMER = 74844658483
KEPT = (0, 1, 3, 4, 5, 6, 11, 13, 16, 19, 29, 49, 54, 75, 95, 100, FORMER, 1_000_004, 1_000_024)
"""The mutants' seeds, and one in which a voter's disk rots after others have committed with it, one in which old
code did not know the epoch at the log's first offset after a start (100), one in which it made other snapshots of the
same tree (16), and one in which a power loss restored what had been cut, because an fsync had failed."""
DRAWN = int(environ.get("TIDELOG_QUORUM_SEEDS", "10"))


@pytest.mark.parametrize("seed", KEPT)
def test_a_seed_holds_every_invariant(seed):
    outcome = run_seed(seed, is_former=seed == FORMER)
    assert outcome.ok, outcome.violation
    assert outcome.committed > 10
    assert outcome.elections > 1


@pytest.mark.parametrize("seed", [SystemRandom().randrange(2**40) for _ in range(DRAWN)], ids=lambda _: "drawn")
def test_drawn_seeds_hold_every_invariant(seed):
    outcome = run_seed(seed)
    assert outcome.ok, f"quorum seed {seed}: {outcome.violation}"


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_dies_of_its_seed(name):
    with applied(name) as mutant:
        assert not run_seed(mutant.seed).ok
    assert mutant.seed in KEPT


def test_the_same_seed_is_the_same_run():
    script = "from tidelog.sim.quorum.run import run_seed; print('\\n'.join(run_seed(40).history))"
    first, second = outputs_under_two_hash_seeds(script)
    assert first == second
    assert len(first.splitlines()) > 100


@pytest.mark.parametrize("how", [KILLED, RESIGNED])
def test_a_dead_leader_has_a_successor_within_a_second(how):
    """Seeds in which voters took each other's votes, or asked too early; `python -m bench.elections` has all."""
    found = {seed: failover_ms(seed, 3, how) for seed in (8, 139, 173, 261, *range(10))}
    assert max(found.values()) < 1_000, found
