"""The scenario language: what it reads, and what each mistake is answered with."""

from pathlib import Path

import pytest

from tidelog.lab.commands.inspection import LOOKS
from tidelog.lab.engine import tell
from tidelog.lab.kinds import VERBS
from tidelog.lab.language import StoryError, read, rewritten
from tidelog.lab.voters.commands import LOOKS as LOOKS_OF_VOTERS

BEGIN = "cluster A B\ntopic A B\n"


def parse(text):
    return read("own", "own.txt", text, VERBS)


def test_a_story_has_a_header_knobs_and_steps():
    story = parse(
        "title: One\nsource: mine\nabout: First\nabout: line.\nknob acks: [all] 1\n"
        "step: It begins.\nwhy: Because.\nwhy {acks=1}: Otherwise.\ncluster A\n{acks=1} topic A  # one\n"
    )
    assert (story.title, story.about, story.knobs["acks"].default) == ("One", "First line.", "all")
    step = story.steps[0]
    assert [sentence.text for sentence in step.why] == ["Because.", "Otherwise."]
    assert [(c.verb, c.words, len(c.guard)) for c in step.commands] == [("cluster", ["A"], 0), ("topic", ["A"], 1)]


def test_sentences_and_commands_follow_the_knobs():
    text = (
        "knob acks: [all] 1\nstep: With acks=$acks.\nwhy: a\nwhy {acks!=all}: b\n"
        + BEGIN
        + "produce m1\n{acks=1} expect acknowledged m1\n{acks=all} expect waiting m1\n"
    )
    told = {acks: tell(parse(text), {"acks": acks}).steps[0] for acks in ("all", "1")}
    assert (told["all"].says, told["all"].why) == ("With acks=all.", "a")
    assert (told["1"].says, told["1"].why) == ("With acks=1.", "b")


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 0, "the story has no step; expected `step: …` or a command."),
        ("step:\n", 1, "expected a sentence after the colon."),
        ("why: x\n", 1, "`why:` belongs to a step; expected `step:` first."),
        ("\nfly A\n", 2, "`fly` is no command; expected one of: add, cluster,"),
        ("kill\n", 1, "expected `kill BROKER…`, not `kill`."),
        ("heal A\n", 1, "expected `heal`, not `heal A`."),
        ("produce m1 ack=all\n", 1, "expected `produce VALUE… [acks=0|1|all]"),
        ("knob acks: all 1\nkill A\n", 1, "expected exactly one value in brackets, the default"),
        ("kill A\nknob acks: [all]\n", 2, "a knob stands above the first step."),
        ("kill A\ntitle: late\n", 2, "`title:` stands above the first step"),
        ("{acks=1} kill A\n", 1, "there is no knob acks; expected one of: none."),
        ("knob acks: [all] 1\n{acks=2} kill A\n", 2, "acks is never 2; expected one of: all, 1."),
        ("knob acks: [all] 1\n{acks} kill A\n", 2, "expected a condition as in {acks=all}, not {acks}."),
        ("step: $acks\n", 1, "there is no knob acks"),
        ("----\nx\n", 1, "`----` stands below the command whose output it begins."),
    ],
)
def test_a_mistake_names_the_line_and_what_was_expected(text, line, reason):
    with pytest.raises(StoryError) as refused:
        parse(text)
    assert str(refused.value).startswith(f"own.txt:{line or 0}: {reason}")


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("kill A\n", 1, "there is no cluster yet; expected `cluster A B` first."),
        ("cluster A A\n", 1, "expected a name for each broker, none of them twice"),
        ("cluster A no.such.option=1\n", 1, "there is no option no.such.option; expected one of a broker's."),
        ("cluster A log.roll.ms=soon\n", 1, "log.roll.ms must be"),
        (BEGIN + "look t\n", 3, "expected a partition as in t-0, not t."),
        (BEGIN + "restart A power=off\n", 3, "expected power=lost, not power=off."),
        ("cluster A\ncluster B\n", 2, "the cluster stands already; a story has one."),
        (BEGIN + "kill C\n", 3, "there is no broker C; expected one of: A, B."),
        (BEGIN + "kill A\nkill A\n", 4, "A is down; expected a broker that runs: B."),
        (BEGIN + "kill A B\nkill B\n", 4, "B is down; expected a broker that runs: none does."),
        (BEGIN + "start A\n", 3, "A runs already; expected a broker that is down."),
        (BEGIN + "resume A\n", 3, "A is not paused; expected `pause A` before."),
        (BEGIN + "pause A\npause A\n", 4, "A is paused already; expected a broker that goes on."),
        (BEGIN + "erase A\n", 3, "A runs already; expected a broker that is down."),
        (BEGIN + "fetch A\n", 3, "A follows nobody; expected a follower."),
        (BEGIN + "kill A\nkill B\nproduce m1\n", 5, "nobody leads the partition; expected a leader for this."),
        (BEGIN + "retry m1\n", 3, "m1 was never sent; expected `produce m1` before."),
        (BEGIN + "produce m1 acks=2\n", 3, "expected acks=0, acks=1 or acks=all, not acks=2."),
        (BEGIN + "produce m1 lose=all\n", 3, "expected lose=request or lose=answer, not lose=all."),
        (BEGIN + "hold A to B\n", 3, "expected `hold A -> B`, not `hold A to B`."),
        (BEGIN + "hold A -> C\n", 3, "there is no C; expected one of: controller, A, B, client."),
        (BEGIN + "release A -> B\n", 3, "nothing is held there; expected `hold A -> B` before."),
        (BEGIN + "deliver A -> B\n", 3, "no such message is held; expected one on its way."),
        (BEGIN + "wait 5\n", 3, "expected `wait NUMBER s|ms`"),
        (BEGIN + "wait long s\n", 3, "expected `wait 5 s` or `wait 100 ms`, not `wait long s`."),
        (BEGIN + "wait 500 s\n", 3, "expected at most 120 s."),
        (BEGIN + "elect A\n", 3, "expected `elect preferred` or `elect unclean`, not 'A'."),
        (BEGIN + "topic A B\n", 3, "the topic cannot be made"),
        (BEGIN + "topic A retention=1\n", 3, "the topic cannot be made"),
        (BEGIN + "config no.such.option=1\n", 3, "refused: "),
        (BEGIN + "expect sun A\n", 3, "`sun` cannot be looked at; expected one of: log, hw,"),
        (BEGIN + "expect hw A 7\n", 3, "expected `hw A 7`, found: 0."),
        (BEGIN + "expect log A m1\n", 3, "expected `log A m1`, found: nothing."),
        (BEGIN + "work semantics=now\n", 3, "expected semantics=at_most_once|at_least_once|exactly_once."),
        (BEGIN + "consume from=x\n", 3, "expected an offset, not 'x'."),
    ],
)
def test_an_impossible_story_is_refused_at_its_line(text, line, reason):
    with pytest.raises(StoryError) as refused:
        tell(parse(text))
    assert str(refused.value).startswith(f"own.txt:{line}: {reason}")


VOTERS = "voters A B C observers=D\n"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (VOTERS + "produce m1\n", 2, "`produce` is no command of a story of voters."),
        ("cluster A\nwrite m1\n", 2, "`write` is no command of a story of brokers."),
        ("write m1\nvoters A B C\n", 1, "there is no quorum yet; expected `voters A B C` first."),
        (VOTERS + "voters A B C\n", 2, "the voters stand already; a story has one quorum."),
        ("voters A A\n", 1, "expected a name for each voter and observer, none of them twice."),
        ("voters B A\n", 1, "expected the names in their order: timers run out in it."),
        ("voters A kraft.version=2\n", 1, "expected kraft.version=0 or kraft.version=1, not 2."),
        (VOTERS + "kill F\n", 2, "there is no F; expected one of: A, B, C, D."),
        (VOTERS + "kill B\nkill B\n", 3, "B is down; expected a voter that runs."),
        (VOTERS + "start B\n", 2, "B runs already; expected a voter that is down."),
        (VOTERS + "write m1 to=B\n", 2, "B does not lead; expected a leader for this."),
        (VOTERS + "kill A\nadd D\n", 3, "nobody leads; expected a leader for this."),
        (VOTERS + "timeout A\n", 2, "A leads, or did; expected a voter that waits for a leader."),
        (VOTERS + "cut A to B\n", 2, "expected `cut A B` or `cut A -> B`, not `cut A to B`."),
        (VOTERS + "deliver A -> B\n", 2, "no such message is held; expected one on its way."),
        (VOTERS + "expect isr A\n", 2, "`isr` cannot be looked at; expected one of: log, hw,"),
        (VOTERS + "expect voted A B\n", 2, "expected `voted A B`, found: A."),
    ],
)
def test_an_impossible_story_of_voters_is_refused_at_its_line(text, line, reason):
    with pytest.raises(StoryError) as refused:
        tell(parse(text))
    assert str(refused.value).startswith(f"own.txt:{line}: {reason}")


def test_voters_of_static_quorums_are_not_changed_and_others_are():
    refused = tell(parse(VOTERS + "add D\n")).steps[-1]
    assert "add D: refused with UNSUPPORTED_VERSION" in refused.happened
    text = "voters A B C observers=D kraft.version=1\nadd D\nexpect voters C A B C D\nremove B\nexpect voters A A C D\n"
    assert tell(parse(text)).verdict.ok


def test_expected_output_stands_below_its_command_and_can_be_rewritten():
    text = "cluster A\n----\nold\n\n# a comment\ntopic A\nshow\n----\nalso old\nolder\n\nheal\n"
    story = parse(text)
    commands = [command for step in story.steps for command in step.commands]
    assert [command.expected for command in commands] == [["old"], None, ["also old", "older"], None]
    told = {command.line: [command.verb] for command in commands}
    new = rewritten(text, told)
    assert new == (
        "cluster A\n----\ncluster\n\n# a comment\ntopic A\n----\ntopic\n\nshow\n----\nshow\n\nheal\n----\nheal\n"
    )
    assert rewritten(new, {c.line: [c.verb] for step in parse(new).steps for c in step.commands}) == new


DOCUMENT = Path(__file__).parents[2] / "docs" / "lab.md"


def test_the_document_names_every_command_and_everything_that_can_be_looked_at():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [verb for verb in VERBS if f"`{verb}" not in text] == []
    assert [what for what in LOOKS | LOOKS_OF_VOTERS if f"`{what} " not in text] == []


def test_the_story_in_the_document_ends_as_it_says():
    text = DOCUMENT.read_text(encoding="utf-8").split("```\n")
    story = parse(next(block for block in text if block.startswith("title: My first loss")))
    assert [record.label for record in tell(story).verdict.lost] == ["m1"]
    assert tell(story, {"acks": "all"}).verdict.ok
