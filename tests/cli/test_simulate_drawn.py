"""`tidelog simulate --mutants drawn`: who hunts a mutant, in which order, what is kept, and what is printed."""

import json
import marshal
from pathlib import Path
from signal import SIGALRM

import click
import pytest

from tidelog.cli.simulate.drawn import child_process, drawn_hunt, hunt_results, reached_blocks
from tidelog.cli.simulate.drawn.child_main import end_of, playbacks
from tidelog.cli.simulate.drawn.child_process import Killer, run_child
from tidelog.cli.simulate.drawn.hunt_results import MutantVerdict, StoredVerdicts
from tidelog.cli.simulate.drawn.source_tree import SourceTree, mirror, this_tree
from tidelog.sim.mutants.drawn.drawing import Site, known_types, sites

LEADER = "tidelog.partition.leader"
SITE = Site(LEADER, "Leader.may_join", "neighbour", ">= to >", 80, "and end >= high_watermark", 0, 7, 67)
NEAR, FAR = "tests/partition/test_a.py::test_one", "tests/node/test_b.py::test_two[a::b]"


def mutant(old, new):
    """The leader's module with a line that is another one, as a child gets it."""
    source = this_tree().sources[LEADER]
    assert source.count(old) == 1
    return marshal.dumps(compile(source.replace(old, new), str(this_tree().path(LEADER)), "exec"))


@pytest.fixture
def uncommitted():
    """The high watermark is always the leader's end."""
    return mutant("return committed_offset(current, end, counted)", "return end")


def hunted(stage, by, code, **orders):
    return run_child({"stage": stage, "module": LEADER, **orders}, by, this_tree().root, code)


def test_a_mutant_is_killed_by_a_test_that_reaches_it(tidelog, monkeypatch, tmp_path):
    source = this_tree().sources[LEADER]
    known = known_types(this_tree().sources)
    site = next(s for s in sites(LEADER, source, known) if s.text == SITE.text and s.what == "negate: >= to <")
    monkeypatch.setattr(reached_blocks, "TEST_FOLDERS", ("partition",))
    monkeypatch.setattr(drawn_hunt, "draw", lambda sources, count, seed: [site])
    monkeypatch.setattr(drawn_hunt, "_story_ends", lambda tree, keep: keep / "no stories are needed")
    arguments = ("simulate", "--mutants", "drawn", "--count", "1", "--seed", "1", "--keep", str(tmp_path))
    first = tidelog(*arguments)
    assert first.lines[0].startswith(
        f"   1 src/tidelog/partition/leader.py:{site.line} Leader.may_join (negate: >= to <)"
    )
    assert " test tests/partition/test_p" in first.lines[0]
    assert first.lines[1:] == [
        "killed by: test 1, story 0, seed 0, time-out 0",
        "drawn: killed 1 of 1 (100 %), equivalent 0, survived 0 ok",
    ]
    assert first.code == 0
    monkeypatch.setattr(drawn_hunt, "_hunt", lambda *_: pytest.fail("what is known is not hunted again"))
    assert tidelog(*arguments).lines == first.lines


def test_a_mutant_is_killed_by_a_story_that_ends_otherwise(uncommitted):
    name, tell = next(playbacks(None))
    found = hunted("stories", "story", uncommitted, scenarios=None, ends={name: end_of(tell)})
    assert (found.by, found.name) == ("story", name)


def test_a_mutant_is_killed_by_a_seed_that_breaks_an_invariant(uncommitted):
    found = hunted("seeds", "seed", uncommitted, first=0, count=3)
    assert (found.by, found.name) == ("seed", "0")
    assert found.message.startswith("I")


def test_a_module_that_cannot_be_imported_is_found_out():
    found = hunted("seeds", "seed", mutant("class Leader:", "class Leader(Nobody):"), first=0, count=1)
    assert found.name == "an exception"
    assert "Nobody" in found.message


def test_a_child_that_changes_nothing_finds_nothing():
    limits = {"tests/partition/test_truncation.py::test_kip_101_believes_the_offset_alone": 30}
    assert hunted("tests", "test", mutant("class Leader:", "class Leader:"), limits=limits) is None


def test_what_the_lines_of_a_child_mean():
    at, found, done = {"at": NEAR}, {"found": NEAR, "message": "assert 1 == 2"}, {"done": True}

    def meaning(lines, code, *, is_mutant=True):
        return child_process._interpret(lines, code, "test", "what it printed", is_mutant=is_mutant)

    assert meaning([at, done], 0) is None
    assert meaning([at, found, done], 1) == Killer("test", NEAR, "assert 1 == 2")
    assert meaning([at], -SIGALRM) == Killer("time-out", NEAR, "test")
    assert meaning([at], -9) == Killer("test", NEAR, "the process ended with -9")
    with pytest.raises(click.ClickException, match=r"ended with 3 at .*\nwhat it printed"):
        meaning([at], 3, is_mutant=False)
    with pytest.raises(click.ClickException, match=NEAR):
        meaning([at, {"broken": "no space left"}], 1)
    with pytest.raises(click.ClickException, match="at the start"):
        meaning([], 1)


@pytest.fixture
def measured(tmp_path):
    def add(tests, imported=()):
        path = tmp_path / "reach.json"
        path.write_text(json.dumps({"imported": list(imported), "tests": tests}))
        found = reached_blocks.ReachedBlocks()
        found.add(path)
        return found

    return add


def test_tests_that_reach_the_block_hunt_the_near_ones_first(measured):
    block = f"{LEADER}:{SITE.block}"
    other = "tests/partition/test_a.py::test_other"
    found = measured({NEAR: [3.0, [block]], FAR: [0.1, [block]], other: [0.2, [f"{LEADER}:1"]]})
    assert list(found.waves(SITE, mirror(LEADER))) == [{NEAR: 30}, {FAR: reached_blocks.LEAST_LIMIT_S}]


def test_the_quickest_tests_hunt_and_those_of_a_file_stand_together(measured):
    block = f"{LEADER}:{SITE.block}"
    names = {f"tests/partition/test_{file}.py::test_{number}": number for number in (1, 4, 20) for file in "ab"}
    found = measured({name: [float(number), [block]] for name, number in names.items()})
    (wave,) = found.waves(SITE, mirror(LEADER))
    assert [name[-10:] for name in wave] == ["py::test_1", "py::test_4", "py::test_1", "py::test_4"]


def test_a_block_that_runs_at_import_is_hunted_by_all_tests_beside_it(measured):
    found = measured({NEAR: [0.1, []], FAR: [0.1, []]}, imported=[f"{LEADER}:{SITE.block}"])
    assert list(found.waves(SITE, mirror(LEADER))) == [{NEAR: reached_blocks.LEAST_LIMIT_S}]


def test_where_nothing_reaches_the_block_no_test_hunts(measured):
    assert list(measured({NEAR: [0.1, []]}).waves(SITE, mirror(LEADER))) == []


def test_the_mirror_of_a_module():
    assert mirror("tidelog.log.compaction.steps") == "tests/log/"
    assert mirror("tidelog.api.records.fetch") == "tests/api/records/"


def test_a_test_that_fails_by_itself_kills_nothing(monkeypatch, measured, tmp_path):
    """The far test fails without the mutant, too; the mutant is hunted without it."""
    asked = []

    def child(orders, by, root, code=None):
        asked.append((list(orders["limits"]), code is not None))
        return Killer("test", FAR) if FAR in orders["limits"] else None

    path = tmp_path / "reach.json"
    measured({FAR: [0.1, [f"{LEADER}:{SITE.block}"]], f"{FAR}2": [0.2, [f"{LEADER}:{SITE.block}"]]})
    monkeypatch.setattr(drawn_hunt, "run_child", child)
    hunters = drawn_hunt.Hunters((path,), tmp_path / "ends", 0, 1)
    assert drawn_hunt._by_tests(hunters, drawn_hunt.DrawnMutant(SITE, b"")) is None
    assert asked == [([FAR, f"{FAR}2"], True), ([FAR, f"{FAR}2"], False), ([f"{FAR}2"], True)]


def test_a_seed_that_an_unbroken_cluster_fails_kills_nothing(monkeypatch, tmp_path):
    def child(orders, by, root, code=None):
        if code is None:
            return Killer("seed", "2") if orders["first"] == 2 else None
        seed = next((seed for seed in (2, 5) if seed >= orders["first"]), None)
        return Killer("seed", str(seed), "I7") if seed else None

    monkeypatch.setattr(drawn_hunt, "run_child", child)
    hunters = drawn_hunt.Hunters((), tmp_path / "ends", 0, 10)
    assert drawn_hunt._by_seeds(hunters, drawn_hunt.DrawnMutant(SITE, b"")) == Killer("seed", "5", "I7")


def test_results_are_kept_and_survivors_are_hunted_by_new_tests(tmp_path):
    path = tmp_path / "mutants.jsonl"
    other = Site(LEADER, "Leader.commit_isr", "drop call", "self._widen", 57, "self._widen()", 0, 8, 49)
    killed, survived = (
        MutantVerdict(SITE, Killer("test", NEAR, "why"), "a", "b", 1.0),
        MutantVerdict(other, None, "c", "d", 2.0),
    )
    kept = StoredVerdicts(path, "tests", 0, 200)
    kept.add(killed)
    kept.add(survived)
    for key, seeds, known in (("tests", 200, survived), ("others", 200, None), ("tests", 300, None)):
        again = StoredVerdicts(path, key, 0, seeds)
        again.load()
        assert (again.find(SITE), again.find(other)) == (killed, known)


def test_survivors_are_shown_with_what_was_changed(capsys):
    tree = SourceTree(Path("/checkout/src/tidelog"), None)
    seed = MutantVerdict(SITE, Killer("seed", "7", "I9"))
    survivor = MutantVerdict(SITE, None, "end >= high_watermark", "end > high_watermark")
    assert hunt_results.verdict_row(tree, 3, seed).endswith(
        "leader.py:80 Leader.may_join (neighbour: >= to >) seed 7 I9"
    )
    equivalent = MutantVerdict(SITE, Killer("equivalent", "It is never equal."))
    assert hunt_results.print_summary(tree, [seed, survivor, equivalent]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "survived tidelog/partition/leader.py:80 Leader.may_join (neighbour: >= to >, nth 0)",
        "-  end >= high_watermark",
        "+  end > high_watermark",
        "killed by: test 0, story 0, seed 1, time-out 0",
        "drawn: killed 1 of 3 (33 %), equivalent 1, survived 1 FAILED",
    ]


def test_a_tree_without_tests_says_so(tidelog, monkeypatch, tmp_path):
    monkeypatch.setattr(drawn_hunt, "this_tree", lambda: SourceTree(this_tree().package, None))
    monkeypatch.setattr(drawn_hunt, "_story_ends", lambda tree, keep: keep / "ends")
    monkeypatch.setattr(drawn_hunt, "_hunt", lambda hunters, site: MutantVerdict(site, None, "a", "b"))
    other = Site(LEADER, "Leader.commit_isr", "drop call", "self._widen", 57, "self._widen()", 0, 8, 49)
    monkeypatch.setattr(drawn_hunt, "draw", lambda sources, count, seed: [SITE, other])
    result = tidelog("simulate", "--mutants", "drawn", "--count", "2", "--keep", str(tmp_path))
    assert result.code == 1
    assert drawn_hunt.NO_TESTS in result.err
    assert result.lines[-1] == "drawn: killed 0 of 2 (0 %), equivalent 0, survived 2 FAILED"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--count", "3"), "--count and --keep require --mutants drawn."),
        (("--mutants", "dedupe-lost", "--keep", "x"), "--count and --keep require --mutants drawn."),
        (("--mutants", "drawn", "dedupe-lost"), "--mutants drawn takes no other names."),
        (("--mutants", "drawn", "--count", "0"), "0 is not in the range x>=1."),
    ],
)
def test_options_that_do_not_fit_are_named(tidelog, arguments, sentence):
    assert sentence in tidelog("simulate", *arguments).err
