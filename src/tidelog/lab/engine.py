"""Find a story, tell it, and export what it leaves on its brokers' disks.

Each command is carried out on the stage, each step is recorded, and the end is judged from bytes.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tidelog.check.history.operation import INVOKE, OK, SEND, Header, Operation, Send
from tidelog.check.history.text import end_line, header_line, operation_line
from tidelog.lab.kinds import VERBS, Kind, kind_of
from tidelog.lab.language import Command, StepText, Story, StoryError, filled, holds, read
from tidelog.lab.play import ACKNOWLEDGED, Play
from tidelog.lab.playback import Playback, Step
from tidelog.lab.voters.play import VoterPlay
from tidelog.log.checkpoints import META_PROPERTIES, MetaProperties, format_meta_properties
from tidelog.sim.disk import SimDisk
from tidelog.sim.quorum.machines import ROOT as METADATA_ROOT
from tidelog.sim.world import ROOT, Violation

SUFFIX = ".txt"
ORDER = (
    "two-fetches-to-commit",
    "three-records-two-speeds",
    "reading-above-the-high-watermark",
    "loss-by-high-watermark",
    "loss-without-a-restart",
    "divergence-by-high-watermark",
    "fast-failover",
    "zombie-fetch",
    "acks-one",
    "last-replica",
    "eligible-replica",
    "slow-follower",
    "unclean-election",
    "delivery-semantics",
    "topic-that-will-not-die",
    "topic-deleted-during-a-move",
    "consumer-offsets-grow",
    "majority-not-all",
    "vote-in-the-power-cut",
    "cut-off-leader",
    "own-record-commits",
    "pre-vote",
    "adding-a-voter",
)
"""Reading order."""

CLUSTER = "lab"
HISTORY = "history.jsonl"


@cache
def names() -> tuple[str, ...]:
    """Return the names of the lab's stories, in reading order."""
    folder = resources.files(__package__).joinpath("stories")
    found = {item.name.removesuffix(SUFFIX) for item in folder.iterdir() if item.name.endswith(SUFFIX)}
    return tuple(sorted(found, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name)))


@cache
def find(name: str) -> Story:
    """Return a story of the lab; ValueError if there is none of this name."""
    if name not in names():
        raise ValueError(f"Unknown story {name!r}; expected a file or one of {', '.join(names())}.")
    file = f"{name}{SUFFIX}"
    text = resources.files(__package__).joinpath("stories", file).read_text(encoding="utf-8")
    return read(name, file, text, VERBS)


def open_file(path: Path | str) -> Story:
    """Read a user's own story; StoryError if it is not one, OSError if the file cannot be read."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise StoryError(str(path), 1, "expected a text in UTF-8.") from error
    return read(path.stem, str(path), text, VERBS)


def tell_by_name(name: str, knobs: Mapping[str, str]) -> Playback:
    return tell(find(name), knobs)


Told = Callable[[Command, list[str]], None]
"""Called for every command with the lines that it told."""


def tell(
    story: Story,
    knobs: Mapping[str, str] | None = None,
    *,
    told: Told | None = None,
    ended: Callable[[Any], None] | None = None,
) -> Playback:
    """Tell a story; the same story with the same knobs is the same telling.

    `ended` gets the play at its end. StoryError if the story cannot continue or an expectation is not met; ValueError
    if the story does not have a knob.
    """
    settled, kind = story.settled(knobs or {}), kind_of(story)
    play = kind.play(story, settled)
    try:
        steps = [_step(kind, play, number, text, told) for number, text in enumerate(_steps(story, settled), 1)]
    except Violation as violation:
        raise play.impossible(f"a broker failed: {str(violation).splitlines()[-1]}") from violation
    if ended is not None:
        ended(play)
    return Playback(story.name, story.title, story.source, settled, steps, kind.verdict(play))


def _steps(story: Story, knobs: Mapping[str, str]) -> Iterator[StepText]:
    return (step for step in story.steps if holds(step.guard, knobs))


def _step(kind: Kind, play: Play | VoterPlay, number: int, text: StepText, told: Told | None) -> Step:
    play.messages.clear()
    happened: list[str] = []
    for command in text.commands:
        if holds(command.guard, play.knobs):
            happened += _carry_out(kind, play, command, told)
    views = kind.views(play) if play.has_stage else []
    return Step(
        number,
        play.millis,
        _sentence(play, text, "says"),
        _sentence(play, text, "why"),
        views,
        list(play.messages),
        happened,
    )


def _carry_out(kind: Kind, play: Play | VoterPlay, command: Command, told: Told | None) -> list[str]:
    """Carry out the command; return what it told, and what happened meanwhile."""
    play.told.clear()
    play.command = filled_in(command, play.knobs)
    kind.commands[command.verb].run(play, play.command)
    lines = list(play.told)
    if told is not None:
        told(command, lines)
    return lines


def filled_in(command: Command, knobs: Mapping[str, str]) -> Command:
    words = [filled(word, knobs) for word in command.words]
    options = {name: filled(value, knobs) for name, value in command.options.items()}
    return Command(command.verb, words, options, command.line, command.guard, filled(command.text, knobs))


def _sentence(play: Play | VoterPlay, text: StepText, kind: str) -> str:
    """Return the sentence for the knobs: the last one whose guard holds, so that a plain one may be refined."""
    sentences = text.says if kind == "says" else text.why
    fitting = [sentence.text for sentence in sentences if holds(sentence.guard, play.knobs)]
    return filled(fitting[-1], play.knobs) if fitting else ""


def export_disks(play: Play | VoterPlay, folder: Path) -> None:
    """Write what each broker has in its page cache to `folder`/its name, and acknowledged records as a history; of
    voters, their metadata logs.

    For `tidelog audit`, `tidelog dump-log` and Kafka's own tools. FileExistsError if something is there already: logs
    of two stories must not be mixed.
    """
    if isinstance(play, VoterPlay):
        for machine in play.world.machines:
            _write_disk(machine.disk, METADATA_ROOT, folder / play.world.names[machine.id])
        return
    for broker in play.stage.brokers:
        host, home = play.stage.hosts[broker], folder / broker
        _write_disk(host.disk, ROOT, home)
        (home / META_PROPERTIES).write_bytes(format_meta_properties(MetaProperties(CLUSTER, host.broker_id)))
    (folder / HISTORY).write_text("".join(f"{line}\n" for line in _history(play)), encoding="utf-8")


def _write_disk(disk: SimDisk, root: str, home: Path) -> None:
    home.mkdir(parents=True)
    for path, inode in disk.names.items():
        place = home / path.removeprefix(root).lstrip("/")
        if inode is None:
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(bytes(inode.cached))


def _history(play: Play) -> list[str]:
    """Return the history as `tidelog check` writes it: every acknowledged record, the last time that it was sent."""
    told = {sent.label: sent.offset for sent in play.sent if sent.outcome == ACKNOWLEDGED and sent.offset >= 0}
    lines = [header_line(Header([play.name], {"story": play.story.name}))]
    for number, (label, offset) in enumerate(told.items()):
        for place, (type_, sent) in enumerate(((INVOKE, None), (OK, offset))):
            moment = 2 * number + place
            lines.append(operation_line(Operation(0, moment, moment, 0, type_, SEND, [Send(0, sent, label)])))
    return [*lines, end_line(2 * len(told))]
