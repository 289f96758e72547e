"""Messages between the parties: held, delivered by hand, lost; links that are cut and healed; fetches of followers, one
round at a time or freely.
"""

from typing import Any

from tidelog.lab.language import Command
from tidelog.lab.play import CommandEntry, Mailing, Play, command_entry
from tidelog.lab.post import ANSWER, Rule
from tidelog.partition.follower import Follower
from tidelog.partition.leader import Leader

MOST_WAIT = 120_000_000
MOST_QUESTIONS = 8
FIRST_QUESTION = 3_000_000
LEVEL_WITHIN = 5_000_000


def _way(play: Mailing, command: Command) -> tuple[str, str]:
    if command.words[1] != "->":
        raise play.impossible(f"expected `{command.verb} A -> B`, not `{command.text}`.")
    return play.party(command.words[0]), play.party(command.words[2])


def _kinds(command: Command) -> frozenset[str]:
    """`Fetch`, or `Fetch-answer`."""
    return frozenset(word.replace("-answer", ANSWER) for word in command.words[3:])


def hold(play: Mailing, command: Command) -> None:
    """Hold messages of this way from now on."""
    source, target = _way(play, command)
    play.post.rules.append(Rule(source, target, _kinds(command)))


def release(play: Mailing, command: Command) -> None:
    """Hold nothing of this way any more, and deliver what was held."""
    source, target = _way(play, command)
    post = play.post
    kept = [rule for rule in post.rules if (rule.source, rule.target) != (source, target)]
    if len(kept) == len(post.rules):
        raise play.impossible(f"nothing is held there; expected `hold {' '.join(command.words)}` before.")
    post.rules = kept
    post.let_go()
    play.run()


def _held(play: Mailing, command: Command) -> Any:
    source, target = _way(play, command)
    play.until(lambda: bool(play.post.waiting(source, target, _kinds(command))), 1_000_000)
    found = play.post.waiting(source, target, _kinds(command))
    if not found:
        raise play.impossible("no such message is held; expected one on its way.")
    return found[0]


def deliver(play: Mailing, command: Command) -> None:
    """Deliver the oldest message held of this way."""
    play.post.deliver(_held(play, command))
    play.run()


def drop(play: Mailing, command: Command) -> None:
    """Lose the oldest message held of this way, with its connection."""
    play.post.lose(_held(play, command))
    play.run()


def cut(play: Mailing, command: Command) -> None:
    """Block both ways between the two, or one of them: `cut A B`, `cut A -> B`."""
    one, *arrow, other = command.words
    if arrow not in ([], ["->"]):
        raise play.impossible(f"expected `cut A B` or `cut A -> B`, not `{command.text}`.")
    source, target = play.party(one), play.party(other)
    play.post.block(source, target)
    if not arrow:
        play.post.block(target, source)


def heal(play: Mailing, _command: Command) -> None:
    play.post.heal()
    play.run()


def wait(play: Mailing, command: Command) -> None:
    number, unit = command.words
    if not number.replace(".", "", 1).isdecimal() or unit not in ("s", "ms"):
        raise play.impossible(f"expected `wait 5 s` or `wait 100 ms`, not `{command.text}`.")
    micros = int(float(number) * (1_000_000 if unit == "s" else 1_000))
    if micros > MOST_WAIT:
        raise play.impossible("expected at most 120 s.")
    play.run(micros)


def fetch(play: Play, command: Command) -> None:
    """Run one round: the requests that the follower needs to reconcile its log, then one fetch and its response."""
    for name in command.words:
        partition = play.stage.partition(play.running(name), play.name)
        if partition is None or not isinstance(partition.role, Follower):
            raise play.impossible(f"{name} follows nobody; expected a follower.")
        _round(play, name)


def _round(play: Play, name: str) -> None:
    for _ in range(MOST_QUESTIONS):
        if not play.stage.until(lambda: bool(play.questions(name)), FIRST_QUESTION):
            raise play.impossible(f"{name} asks its leader nothing; expected a leader that it can reach.")
        question = play.questions(name)[0]
        play.passed.clear()
        play.stage.post.deliver(question)
        play.run()
        if question.kind == "Fetch" and not _diverged(play, question.message):
            return


def _diverged(play: Play, request: object) -> bool:
    """Whether the response to this fetch reported a divergence: nothing was fetched then."""
    for letter in play.passed:
        if letter.request is request:
            data = [data for topic in letter.message.responses for data in topic.partitions]
            return any(one.diverging_epoch.end_offset >= 0 for one in data)
    return False


def replicate(play: Play, _command: Command) -> None:
    """Run rounds freely until all replicas that can be are level, then by hand again."""
    _release_replication(play)
    play.stage.until(lambda: is_level(play), LEVEL_WITHIN)
    play.stage.post.by_hand = True
    play.run()


def set_replication(play: Play, command: Command) -> None:
    if command.words[0] == "free":
        _release_replication(play)
    elif command.words[0] == "hand":
        play.stage.post.by_hand = True
    else:
        raise play.impossible(f"expected `replication free` or `replication hand`, not {command.words[0]!r}.")
    play.run()


def _release_replication(play: Play) -> None:
    play.stage.post.by_hand = False
    play.stage.post.let_go()


def is_level(play: Play) -> bool:
    """Whether every running replica is in the ISR, at the leader's end, and knows that everything is committed."""
    state = play.stage.state(play.name)
    if state is None or state.leader < 0:
        return False
    held = {name: play.stage.partition(name, play.name) for name in play.stage.brokers}
    running = {name: partition for name, partition in held.items() if partition is not None}
    ends = {partition.log.log_end_offset for partition in running.values()}
    marks = {partition.high_watermark for partition in running.values()}
    members = {play.stage.names[member] for member in state.isr}
    leads = sum(isinstance(partition.role, Leader) for partition in running.values())
    return ends == marks and len(ends) == 1 and members == set(running) and leads == 1


COMMANDS: dict[str, CommandEntry] = {
    "fetch": command_entry("fetch BROKER…", fetch, 1, None),
    "replicate": command_entry("replicate", replicate),
    "replication": command_entry("replication free|hand", set_replication, 1, 1),
    "hold": command_entry("hold A -> B [KIND[-answer]…]", hold, 3, None),
    "release": command_entry("release A -> B", release, 3, 3),
    "deliver": command_entry("deliver A -> B [KIND[-answer]…]", deliver, 3, None),
    "drop": command_entry("drop A -> B [KIND[-answer]…]", drop, 3, None),
    "cut": command_entry("cut A [->] B", cut, 2, 3),
    "heal": command_entry("heal", heal),
    "wait": command_entry("wait NUMBER s|ms", wait, 2, 2),
}
