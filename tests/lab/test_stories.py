"""Every story of the lab with every switch: how it ends, read from bytes. The expectations inside the stories hold, too."""

import itertools
import json
import re

import pytest

from tests.hash_seeds import outputs_under_two_hash_seeds
from tidelog.lab import story
from tidelog.lab.engine import ORDER, find, names, tell
from tidelog.lab.playback import to_json

WELL = (True, [], [])
"""Nothing acknowledged is gone, and the replicas agree."""

ENDS = {
    ("two-fetches-to-commit",): WELL,
    ("three-records-two-speeds",): WELL,
    ("reading-above-the-high-watermark", "high_watermark"): WELL,
    ("reading-above-the-high-watermark", "log_end"): (False, [], []),
    ("loss-by-high-watermark", "high_watermark"): (False, ["m2"], []),
    ("loss-by-high-watermark",): WELL,
    ("loss-without-a-restart", "high_watermark"): (False, ["m2"], []),
    ("loss-without-a-restart",): WELL,
    ("divergence-by-high-watermark", "high_watermark"): (False, ["m2"], [1]),
    ("divergence-by-high-watermark", "true"): (False, ["m2"], []),
    ("divergence-by-high-watermark", "false"): WELL,
    ("fast-failover", "kip_101"): (False, [], [1]),
    ("fast-failover",): WELL,
    ("zombie-fetch", "kip_101"): (False, [], [1]),
    ("zombie-fetch", "kip_279"): (False, [], [1]),
    ("zombie-fetch",): WELL,
    ("acks-one", "1"): (False, ["m2"], []),
    ("acks-one", "all"): WELL,
    ("last-replica", "all", "2"): WELL,
    ("last-replica",): (False, ["m2"], []),
    ("eligible-replica", "off"): (False, ["m1"], []),
    ("eligible-replica", "on"): WELL,
    ("slow-follower",): WELL,
    ("unclean-election", "true", "1"): (False, ["m2", "m3"], []),
    ("unclean-election",): WELL,
    ("delivery-semantics", "exactly_once"): WELL,
    ("delivery-semantics",): (False, [], []),
    ("topic-that-will-not-die",): WELL,
    ("topic-deleted-during-a-move",): WELL,
    ("consumer-offsets-grow",): WELL,
    ("majority-not-all",): WELL,
    ("vote-in-the-power-cut", "saved"): WELL,
    ("vote-in-the-power-cut", "unsaved"): (False, [], []),
    ("cut-off-leader",): WELL,
    ("own-record-commits", "own_epoch"): WELL,
    ("own-record-commits", "any_epoch"): (False, ["m1"], []),
    ("pre-vote",): WELL,
    ("adding-a-voter", "one_by_one"): WELL,
    ("adding-a-voter", "together"): (False, ["m2"], []),
}
"""(story, values that its knobs must have) → (ok, lost, differs); the first line that fits counts."""


def switches():
    for name in names():
        knobs = find(name).knobs.values()
        for values in itertools.product(*(knob.values for knob in knobs)):
            yield pytest.param(
                name, dict(zip((k.name for k in knobs), values, strict=True)), id="-".join((name, *values))
            )


def end_of(name, knobs):
    for (story_name, *values), end in ENDS.items():
        if story_name == name and all(value in knobs.values() for value in values):
            return end
    raise AssertionError(f"no end is known for {name}")


@pytest.mark.parametrize(("name", "knobs"), list(switches()))
def test_a_story_ends_as_it_must(name, knobs):
    telling = tell(find(name), knobs)
    ok, lost, differs = end_of(name, knobs)
    found = telling.verdict
    assert (found.ok, [record.label for record in found.lost], found.differs) == (ok, lost, differs)
    assert found.sentences
    assert all(step.says and step.why for step in telling.steps), "every step says what happens, and why"
    assert json.loads(json.dumps(to_json(telling)))["knobs"] == knobs


@pytest.mark.parametrize("name", names())
def test_a_story_has_as_many_steps_whatever_its_switches(name):
    """So that two playbacks can be drawn side by side."""
    found = find(name)
    assert not any(step.guard for step in found.steps)
    assert "KIP" in found.source or "KAFKA-" in found.source
    assert not re.search(r"\bseeds? \d", found.source), "a number of a document that its readers do not have"


def test_every_story_of_the_list_is_there():
    assert names() == ORDER


def test_the_same_story_is_the_same_telling_whatever_the_hash_seed():
    script = (
        "import json\n"
        "from tidelog.lab.engine import find, names, tell\n"
        "from tidelog.lab.playback import to_json\n"
        "print(json.dumps([to_json(tell(find(name))) for name in names()]))\n"
    )
    outputs = outputs_under_two_hash_seeds(script)
    assert outputs[0] == outputs[1]
    assert json.loads(outputs[0]) == json.loads(json.dumps([to_json(tell(find(name))) for name in names()]))


def test_what_a_step_shows_comes_from_the_replicas():
    step = tell(find("loss-by-high-watermark")).steps[3]
    a, b = step.replicas
    assert (a.broker, a.role, a.leo, a.hw, a.epochs) == ("A", "follower", 2, 1, [(0, 0)])
    assert (b.role, b.hw, b.isr, b.remote) == ("leader", 2, ["B", "A"], {"A": 2})
    assert [(r.label, r.offset, r.epoch, r.synced) for r in b.records] == [("m1", 0, 0, True), ("m2", 1, 0, False)]
    held = [message for message in step.messages if not message.delivered]
    assert [(m.source, m.target, m.kind, m.text) for m in held] == [("B", "A", "Fetch answer", "no records, HW 2")]
    assert step.happened == ["m2: acknowledged at 1"]


def test_what_a_step_shows_of_voters():
    steps = tell(find("cut-off-leader")).steps
    a, b, c = steps[3].replicas
    assert (a.role, a.leader_epoch, a.leo, a.hw, a.voted) == ("leader", 1, 3, 2, "A")
    assert (b.role, b.leader_epoch, b.voted, b.remote, b.voters) == ("leader", 2, "B", {"C": 3}, ["A", "B", "C"])
    assert (c.role, c.leo, c.voted) == ("follower", 3, "B")
    assert [(r.label, r.offset, r.epoch, r.synced) for r in a.records] == [
        ("A leads", 0, 1, True), ("m1", 1, 1, True), ("m2", 2, 1, True)
    ]  # fmt: skip
    asked = [(m.source, m.target, m.text) for m in steps[3].messages if m.kind == "Vote" and m.delivered]
    assert ("B", "C", "vote for me in epoch 2: my log ends at 2 with epoch 1") in asked
    assert "B leads in epoch 2" in steps[3].happened


def test_without_a_rule_of_the_quorum_the_verdict_says_what_broke():
    verdict = tell(find("vote-in-the-power-cut"), {"vote": "unsaved"}).verdict
    assert verdict.sentences[0] == "Epoch 2 had two leaders: B and C."
    verdict = tell(find("own-record-commits"), {"commits": "any_epoch"}).verdict
    assert verdict.sentences[0] == "m1 was committed at offset 1, and is gone."
    quiet, loud = (tell(find("pre-vote"), {"pre_vote": value}).steps[-1].replicas[0] for value in ("on", "off"))
    assert (quiet.leader_epoch, loud.leader_epoch > quiet.leader_epoch) == (1, True)


def test_the_verdict_says_what_is_gone_in_sentences():
    verdict = tell(find("divergence-by-high-watermark")).verdict
    assert verdict.sentences == [
        "m2 was acknowledged at offset 1 with acks=all, and is gone.",
        "At offset 1 A holds m3 of epoch 2, B holds m2 of epoch 0.",
    ]


def test_a_notebook_asks_for_a_story_by_name_and_knobs():
    shown = story("last-replica", acks="all", min_insync_replicas=2)
    assert shown.telling.verdict.ok
    assert "min.insync.replicas=2" in repr(shown)
    both = shown | story("last-replica")
    assert len(both.playbacks) == 2
    assert both._repr_html_().startswith("<iframe srcdoc=")


@pytest.mark.parametrize(
    ("knobs", "reason"),
    [
        ({"acks": "all"}, "loss-by-high-watermark has no knob acks; it has: truncation, unclean."),
        (
            {"truncation": "kip_1"},
            "loss-by-high-watermark: 'kip_1' is not a value of truncation; expected one of high_watermark, kip_101, kip_279, kip_320.",
        ),
    ],
)
def test_a_knob_that_is_not_the_storys_is_refused(knobs, reason):
    with pytest.raises(ValueError, match=reason.replace(".", r"\.")):
        story("loss-by-high-watermark", **knobs)


def test_a_story_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="Unknown story 'nonsense'; expected a file or one of two-fetches"):
        story("nonsense")
