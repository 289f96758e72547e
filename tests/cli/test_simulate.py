"""`tidelog simulate`: seeds in order, the same ones every time, and an exit code that shows the outcome."""

from dataclasses import replace

import pytest

from tidelog.cli.simulate import process_pool
from tidelog.sim import run as sim_run
from tidelog.sim.checks.costs import Cost
from tidelog.sim.outcome import Outcome
from tidelog.sim.workload import LATER, PARTS


def outcome(plan, _prepared=None, broken=()):
    violation = "I7: the watermark is ahead" if plan.seed in broken else ""
    return Outcome(plan, f"d{plan.seed}", 3600.0, 10, 5, {"kill": 1}, {1: "kill"}, violation=violation)


@pytest.fixture
def nothing_happens(monkeypatch):
    """Runs cost nothing; seed 8 fails."""
    monkeypatch.setattr(sim_run, "run", lambda plan, prepared=None: outcome(plan, prepared, broken={8}))


def test_seeds_run_and_are_summed_up(tidelog, nothing_happens):
    result = tidelog("simulate", "--seeds", "3", "--from", "9")
    assert result.code == 0
    assert result.lines[0].startswith("simulate: seeds 3, 3.0 simulated hours in ")
    assert result.lines[0].endswith("steps 30, acknowledged records 15, partitions allowed to lose records 0")
    assert result.lines[1].startswith("CPU seconds per seed: median 0.00, mean 0.00, maximum 0.00; ")
    assert result.lines[2:4] == ["faults: 3: kill 3", "states: broker killed 3"]
    assert result.lines[4].startswith("never reached: became leader, became follower, ")
    assert result.lines[5:] == ["broken 0 ok"]


def test_an_interrupted_run_sums_up_what_there_is(tidelog, monkeypatch):
    def run(plan, prepared=None):
        if plan.seed == 2:
            raise KeyboardInterrupt
        return outcome(plan)

    monkeypatch.setattr(sim_run, "run", run)
    result = tidelog("simulate", "--seeds", "5")
    assert result.code == 130
    assert "interrupted; results so far:" in result.err
    assert result.lines[0].startswith("simulate: seeds 2, 2.0 simulated hours in ")
    assert result.lines[-1] == "broken 0 ok"


def test_a_broken_seed_reports_how_to_repeat_it(tidelog, nothing_happens):
    result = tidelog("simulate", "--seeds", "3", "--from", "7", "--truncation", "kip_279", "--seconds", "12")
    assert result.code == 1
    assert result.err == "seed 8 broke I7: the watermark is ahead\n"
    assert result.lines[:4] == [
        "seed 8: I7: the watermark is ahead",
        "step 10: I7: the watermark is ahead",
        "faults: 1 kill",
        "repeat: tidelog simulate --seed 8 --truncation kip_279 --seconds 12",
    ]
    assert result.lines[-1] == "broken 1 FAILED"


def test_one_seed_reports_its_digest_and_its_faults(tidelog, nothing_happens):
    result = tidelog("simulate", "--seed", "4")
    assert result.code == 0
    assert result.lines == ["seed 4: 10 steps, 3600 simulated seconds, ok", "digest: d4", "faults: 1 kill"]


def test_an_input_that_takes_too_long_in_each_run_breaks_its_seed(tidelog, monkeypatch):
    slow = (Cost(0.2, "receive Fetch", 77),)
    monkeypatch.setattr(sim_run, "run", lambda plan, prepared=None: replace(outcome(plan), dearest=slow[0], slow=slow))
    result = tidelog("simulate", "--seeds", "1")
    assert result.code == 1
    assert (
        result.err == "seed 0 broke I49: an input took 200 ms (receive Fetch, step 77) of CPU time in each of 3 runs\n"
    )
    assert "is not reproducible" not in result.out
    assert "; most expensive input: 200 ms (receive Fetch, step 77)" in result.out
    assert tidelog("simulate", "--seed", "0").code == 1


def test_the_transcript_of_a_seed_is_what_happened(tidelog):
    result = tidelog("simulate", "--seed", "1", "--seconds", "1", "--transcript")
    assert any("START" in line for line in result.lines)
    assert any("partition.leader" in line for line in result.lines)


def test_a_failing_seed_is_made_smaller_on_request(tidelog, nothing_happens):
    result = tidelog("simulate", "--seed", "8", "--shrink")
    assert result.code == 1
    assert result.lines[-1] == (
        "repeat: tidelog simulate --seed 8 --seconds 2.4 --only '' "
        f"--without {','.join((*PARTS, *LATER))} --brokers 3 --partitions 1"
    )


def test_mutants_are_named_where_one_is_unknown(tidelog):
    result = tidelog("simulate", "--mutants", "unheard-of")
    assert result.code == 1
    assert "'unheard-of' is not a mutant; expected one of truncate-to-high-watermark, kip-101, " in result.err


def test_a_mutant_that_is_found_out_is_a_row_of_the_table(tidelog):
    result = tidelog("simulate", "--mutants", "dedupe-lost", "--seeds", "40")
    assert result.code == 0
    assert result.lines[0].split() == ["MUTANT", "KILLED", "BY", "SEED", "TRIED", "SECONDS"]
    assert result.lines[1].split()[0] == "dedupe-lost"
    assert result.lines[-1] == "mutants: killed 1 of 1 ok"


def test_nothing_is_begun_after_the_deadline():
    begun = []
    assert list(process_pool.run_in_order(begun.append, iter(range(5)), 1, deadline=0.0)) == []
    assert begun == []


def test_results_come_in_order_from_several_processes():
    assert list(process_pool.run_in_order(abs, iter(range(-7, 0)), 2)) == [7, 6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--seeds", "0"), "0 is not in the range x>=1."),
        (("--workers", "65"), "1<=x<=64"),
        (
            ("--truncation", "kip_1"),
            "--truncation: unknown value 'kip_1'; expected one of high_watermark, kip_101, kip_279, kip_320.",
        ),
        (("--kinds", "flood"), "--kinds: unknown value 'flood'; "),
        (("--without", "faults"), "--without: unknown value 'faults'; "),
        (("--only", "1,x"), "'1,x' is not a list of numbers."),
        (("dedupe-lost",), "Unexpected argument dedupe-lost; mutant names require --mutants."),
    ],
)
def test_bounds_are_named(tidelog, arguments, sentence):
    assert sentence in tidelog("simulate", *arguments).err
