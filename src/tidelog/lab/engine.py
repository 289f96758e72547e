"""Playback a story: each command carried out on the stage, each step looked at, the end judged from bytes."""

from collections.abc import Callable, Iterator, Mapping

from tidelog.lab.commands import COMMANDS
from tidelog.lab.language import Command, StepText, Story, filled, holds
from tidelog.lab.play import Play
from tidelog.lab.playback import Playback, Step
from tidelog.lab.verdict import verdict
from tidelog.lab.views import replicas
from tidelog.sim.world import Violation

Told = Callable[[Command, list[str]], None]
"""Hears of every command what it told."""


def tell(
    story: Story,
    knobs: Mapping[str, str] | None = None,
    *,
    told: Told | None = None,
    ended: Callable[[Play], None] | None = None,
) -> Playback:
    """The same story with the same knobs is the same telling; `ended` gets the play at its end. StoryError where it
    cannot go on, or an expectation is not met; ValueError where a knob is not the story's."""
    settled = story.settled(knobs or {})
    play = Play(story, settled)
    try:
        steps = [_step(play, number, text, told) for number, text in enumerate(_steps(story, settled), 1)]
    except Violation as violation:
        raise play.impossible(f"a broker failed: {str(violation).splitlines()[-1]}") from violation
    if ended is not None:
        ended(play)
    return Playback(story.name, story.title, story.source, settled, steps, verdict(play))


def _steps(story: Story, knobs: Mapping[str, str]) -> Iterator[StepText]:
    return (step for step in story.steps if holds(step.guard, knobs))


def _step(play: Play, number: int, text: StepText, told: Told | None) -> Step:
    play.messages.clear()
    happened: list[str] = []
    for command in text.commands:
        if holds(command.guard, play.knobs):
            happened += _carry_out(play, command, told)
    views = replicas(play.stage, play.shown) if play.has_stage else []
    return Step(
        number,
        play.millis,
        _sentence(play, text, "says"),
        _sentence(play, text, "why"),
        views,
        list(play.messages),
        happened,
    )


def _carry_out(play: Play, command: Command, told: Told | None) -> list[str]:
    """What the command told, and what happened meanwhile."""
    play.told.clear()
    play.command = filled_in(command, play.knobs)
    COMMANDS[command.verb].run(play, play.command)
    lines = list(play.told)
    if told is not None:
        told(command, lines)
    return lines


def filled_in(command: Command, knobs: Mapping[str, str]) -> Command:
    words = [filled(word, knobs) for word in command.words]
    options = {name: filled(value, knobs) for name, value in command.options.items()}
    return Command(command.verb, words, options, command.line, command.guard, filled(command.text, knobs))


def _sentence(play: Play, text: StepText, kind: str) -> str:
    """The sentence for the knobs as they stand: the last one whose guard holds, so that a plain one may be refined."""
    sentences = text.says if kind == "says" else text.why
    fitting = [sentence.text for sentence in sentences if holds(sentence.guard, play.knobs)]
    return filled(fitting[-1], play.knobs) if fitting else ""
