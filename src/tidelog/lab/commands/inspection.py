"""Commands that show replicas, and that check an expectation."""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from tidelog.lab.language import Command, StoryError
from tidelog.lab.play import ACKNOWLEDGED, NO_ANSWER, NOT_AWAITED, WAITING, CommandEntry, Play, command_entry
from tidelog.lab.playback import ReplicaView
from tidelog.lab.verdict import differs, lost
from tidelog.lab.views import replica, replicas
from tidelog.model import TopicPartition

NOTHING = "nothing"


def show(play: Play, command: Command) -> None:
    for view in replicas(play.stage, play.shown):
        if not command.words or view.broker in command.words:
            play.told.append(line(view))


def look(play: Play, command: Command) -> None:
    """Show this partition from now on: `look __consumer_offsets-0`, or the story's own."""
    topic, dash, number = command.words[0].rpartition("-")
    if not dash or not number.isdecimal():
        raise play.impossible(f"expected a partition as in t-0, not {command.words[0]}.")
    play.shown = play.captions.shown = TopicPartition(topic, int(number))


def line(view: ReplicaView) -> str:
    """Return one replica as a line of text: records as label@epoch, an unsynced one with a `~`."""
    records = " ".join(f"{r.label}@{r.epoch}{'' if r.synced else '~'}" for r in view.records) or "-"
    epochs = " ".join(f"{epoch}:{start}" for epoch, start in view.epochs) or "-"
    text = f"{view.broker} {view.role:<8} epoch {view.leader_epoch:>2}  LEO {view.leo}  HW {view.hw}"
    text += f"  epochs {epochs}  log {records}" if not view.voters else f"  log {records}"
    if view.isr:
        text += f"  ISR {' '.join(view.isr)}"
    if view.voters:
        text += f"  voters {' '.join(view.voters)}  voted {view.voted or 'nobody'}"
    return text


class Refusing(Protocol):
    """A play, whatever it is of."""

    def impossible(self, sentence: str) -> StoryError: ...


def expect(play: Play, command: Command) -> None:
    check(play, command, LOOKS)


SomePlay = TypeVar("SomePlay", bound=Refusing)


def check(play: SomePlay, command: Command, looks: "Mapping[str, Callable[[SomePlay, list[str]], Look]]") -> None:
    """`expect WHAT VALUES…`: refuse the story with what was found instead."""
    what, *values = command.words
    found_by = looks.get(what)
    if found_by is None:
        raise play.impossible(f"`{what}` cannot be looked at; expected one of: {', '.join(looks)}.")
    found, wanted = found_by(play, values)
    if found != wanted:
        raise play.impossible(
            f"expected `{command.text.removeprefix('expect ')}`, found: {' '.join(found) or NOTHING}."
        )


Look = tuple[list[str], list[str]]
"""What was found, and what was expected, both as words."""


def _of(play: Play, values: list[str]) -> ReplicaView:
    if not values:
        raise play.impossible("expected a broker.")
    return replica(play.stage, play.broker(values[0]), play.shown)


def _log(play: Play, values: list[str]) -> Look:
    return [record.label for record in _of(play, values).records], word_list(values[1:])


def _number(field: str) -> Callable[[Play, list[str]], Look]:
    return lambda play, values: ([str(getattr(_of(play, values), field))], values[1:])


def _epochs(play: Play, values: list[str]) -> Look:
    return [f"{epoch}:{start}" for epoch, start in _of(play, values).epochs], word_list(values[1:])


def _remote(play: Play, values: list[str]) -> Look:
    """`expect remote A B 1`: the log end of B that the leader A knows."""
    return [str(_of(play, values).remote.get(values[1], ""))], values[2:]


def word_list(values: list[str]) -> list[str]:
    return [] if values == [NOTHING] else values


def _leader(play: Play, values: list[str]) -> Look:
    return [play.stage.leader(play.name) or "nobody"], values


def _isr(play: Play, values: list[str]) -> Look:
    state = play.stage.state(play.name)
    return sorted(play.stage.names[member] for member in (state.isr if state else ())), sorted(values)


def _outcome(outcome: str) -> Callable[[Play, list[str]], Look]:
    """Expect that every value's last attempt had this outcome."""

    def found(play: Play, values: list[str]) -> Look:
        last = {sent.label: sent.outcome for sent in play.sent}
        return [last.get(value, "never sent") for value in values], [outcome] * len(values)

    return found


def _refused(play: Play, values: list[str]) -> Look:
    """`expect refused m2 NOT_ENOUGH_REPLICAS`."""
    last = {sent.label: sent.outcome for sent in play.sent}
    return [last.get(values[0], "never sent")], values[1:]


def _lost(play: Play, values: list[str]) -> Look:
    return [record.label for record in lost(play)], word_list(values)


def _differs(play: Play, values: list[str]) -> Look:
    views = [view for view in replicas(play.stage, play.name) if view.alive]
    return [str(offset) for offset in differs(views)], word_list(values)


def _read(play: Play, values: list[str]) -> Look:
    return play.last_read, word_list(values)


def _done(play: Play, values: list[str]) -> Look:
    return play.application.done, word_list(values)


def _gone(play: Play, values: list[str]) -> Look:
    """The topic's replicas that are left."""
    return [view.broker for view in replicas(play.stage, play.name)], word_list(values)


LOOKS: dict[str, Callable[[Play, list[str]], Look]] = {
    "log": _log,
    "hw": _number("hw"),
    "leo": _number("leo"),
    "role": _number("role"),
    "epoch": _number("leader_epoch"),
    "epochs": _epochs,
    "remote": _remote,
    "leader": _leader,
    "isr": _isr,
    "acknowledged": _outcome(ACKNOWLEDGED),
    "waiting": _outcome(WAITING),
    "unanswered": _outcome(NO_ANSWER),
    "unawaited": _outcome(NOT_AWAITED),
    "refused": _refused,
    "lost": _lost,
    "differs": _differs,
    "read": _read,
    "done": _done,
    "replicas": _gone,
}

COMMANDS: dict[str, CommandEntry] = {
    "look": command_entry("look PARTITION", look, 1, 1),
    "show": command_entry("show [BROKER…]", show, 0, None),
    "expect": command_entry("expect WHAT [VALUE…]", expect, 1, None),
}
