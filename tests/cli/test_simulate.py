"""`tidelog simulate`: seeds in order, the same ones every time, and an exit code that tells."""

from tidelog.cli import simulate
from tidelog.sim import run as sim_run


def outcome(seed, violation=""):
    return sim_run.Outcome(seed, f"d{seed}", 1.0, 10, 5, {"kill": 1}, violation=violation)


def test_seeds_run_and_are_summed_up(tidelog, monkeypatch):
    monkeypatch.setattr(sim_run, "run_seed", outcome)
    result = tidelog("simulate", "--seeds", "3", "--from", "7")
    assert result.code == 0
    assert result.lines[0].startswith("simulate: seeds 3 steps 30 acknowledged 15 simulated 3 s in ")
    assert result.lines[1:] == ["happened: kill 3", "broken 0 ok"]


def test_a_broken_seed_tells_how_to_repeat_it(tidelog, monkeypatch):
    monkeypatch.setattr(sim_run, "run_seed", lambda seed: outcome(seed, "I7 is broken" if seed == 8 else ""))
    result = tidelog("simulate", "--seeds", "3", "--from", "7")
    assert result.code == 1
    assert result.lines[0] == "seed 8 (digest d8, repeat: tidelog simulate --from 8 --seeds 1)"
    assert result.lines[1] == "I7 is broken"
    assert result.err == "seed 8 broke an invariant\n"
    assert result.lines[-1] == "broken 1 FAILED"


def test_nothing_is_begun_after_the_deadline(monkeypatch):
    begun = []
    monkeypatch.setattr(sim_run, "run_seed", lambda seed: begun.append(seed) or outcome(seed))
    assert list(simulate.run(iter(range(5)), 1, deadline=0.0)) == []
    assert begun == []


def test_bounds_are_named(tidelog):
    assert "0 is not in the range x>=1." in tidelog("simulate", "--seeds", "0").err
    assert "1<=x<=64" in tidelog("simulate", "--workers", "65").err
