"""`tidelog simulate --quorum`."""

from click.testing import CliRunner

from tidelog.cli.simulate.simulate_command import simulate
from tidelog.sim.quorum.mutants import applied


def run(*arguments):
    return CliRunner().invoke(simulate, ["--quorum", *arguments])


def test_a_seed_and_a_violation():
    found = run("--from", "5", "--seeds", "1")
    assert (found.exit_code, found.output.splitlines()[0][:17]) == (0, "1 seeds, 0 failed")
    with applied("unsynced_fetch_offset"):
        found = run("--seed", "0", "--transcript")
    assert found.exit_code == 1
    assert "quorum.state" in found.output
    assert found.output.splitlines()[-1].startswith("I39: ")


def test_a_mutant():
    found = run("--mutants", "unsynced_fetch_offset")
    assert (found.exit_code, found.output[:35]) == (0, "unsynced_fetch_offset: seed 0, I39:")
    assert run("--mutants", "other").exit_code == 2


def test_an_option_without_effect_is_refused():
    found = run("--seeds", "1", "--brokers", "5")
    assert (found.exit_code, found.output.splitlines()[-1]) == (2, "Error: --brokers has no effect with --quorum.")
