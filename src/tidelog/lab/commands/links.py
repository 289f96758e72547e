"""Messages between the parties: held, delivered by hand, lost; ways that are cut and healed."""

from tidelog.lab.commands.command_entry import CommandEntry, entry
from tidelog.lab.language import Command
from tidelog.lab.play import Play
from tidelog.lab.post import ANSWER, Letter, Rule

MOST_WAIT = 120_000_000


def _way(play: Play, command: Command) -> tuple[str, str]:
    if command.words[1] != "->":
        raise play.impossible(f"expected `{command.verb} A -> B`, not `{command.text}`.")
    return play.party(command.words[0]), play.party(command.words[2])


def _kinds(command: Command) -> frozenset[str]:
    """`Fetch`, or `Fetch-answer`."""
    return frozenset(word.replace("-answer", ANSWER) for word in command.words[3:])


def hold(play: Play, command: Command) -> None:
    """From now on what goes this way is held."""
    source, target = _way(play, command)
    play.stage.post.rules.append(Rule(source, target, _kinds(command)))


def release(play: Play, command: Command) -> None:
    """Nothing is held this way any more, and what was arrives."""
    source, target = _way(play, command)
    post = play.stage.post
    kept = [rule for rule in post.rules if (rule.source, rule.target) != (source, target)]
    if len(kept) == len(post.rules):
        raise play.impossible(f"nothing is held there; expected `hold {' '.join(command.words)}` before.")
    post.rules = kept
    post.let_go()
    play.run()


def _held(play: Play, command: Command) -> Letter:
    source, target = _way(play, command)
    play.stage.until(lambda: bool(play.stage.post.waiting(source, target, _kinds(command))), 1_000_000)
    found = play.stage.post.waiting(source, target, _kinds(command))
    if not found:
        raise play.impossible("no such message is held; expected one on its way.")
    return found[0]


def deliver(play: Play, command: Command) -> None:
    """The oldest message held this way arrives."""
    play.stage.post.deliver(_held(play, command))
    play.run()


def drop(play: Play, command: Command) -> None:
    """The oldest message held this way is lost, with its connection."""
    play.stage.post.lose(_held(play, command))
    play.run()


def cut(play: Play, command: Command) -> None:
    """Nothing goes between the two, either way."""
    one, other = (play.party(name) for name in command.words)
    play.stage.post.block(one, other)
    play.stage.post.block(other, one)


def heal(play: Play, _command: Command) -> None:
    play.stage.post.heal()
    play.run()


def wait(play: Play, command: Command) -> None:
    number, unit = command.words
    if not number.replace(".", "", 1).isdecimal() or unit not in ("s", "ms"):
        raise play.impossible(f"expected `wait 5 s` or `wait 100 ms`, not `{command.text}`.")
    micros = int(float(number) * (1_000_000 if unit == "s" else 1_000))
    if micros > MOST_WAIT:
        raise play.impossible("expected at most 120 s.")
    play.run(micros)


COMMANDS: dict[str, CommandEntry] = {
    "hold": entry("hold A -> B [KIND[-answer]…]", hold, 3, None),
    "release": entry("release A -> B", release, 3, 3),
    "deliver": entry("deliver A -> B [KIND[-answer]…]", deliver, 3, None),
    "drop": entry("drop A -> B [KIND[-answer]…]", drop, 3, None),
    "cut": entry("cut A B", cut, 2, 2),
    "heal": entry("heal", heal),
    "wait": entry("wait NUMBER s|ms", wait, 2, 2),
}
