"""Followers' fetches, one by one or all at once."""

from tidelog.lab.commands.command_entry import CommandEntry, entry
from tidelog.lab.language import Command
from tidelog.lab.play import Play
from tidelog.partition.follower import Follower
from tidelog.partition.leader import Leader

MOST_QUESTIONS = 8
FIRST_QUESTION = 3_000_000
LEVEL_WITHIN = 5_000_000


def fetch(play: Play, command: Command) -> None:
    """One round: what the follower must ask to reconcile its log, then one fetch and its answer."""
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
    """Whether the answer to this fetch said where the logs part: nothing was fetched then."""
    for letter in play.passed:
        if letter.asked is request:
            data = [data for topic in letter.message.responses for data in topic.partitions]
            return any(one.diverging_epoch.end_offset >= 0 for one in data)
    return False


def replicate(play: Play, _command: Command) -> None:
    """Rounds without a hand until all that can be are level, then by hand again."""
    _free(play)
    play.stage.until(lambda: is_level(play), LEVEL_WITHIN)
    play.stage.post.by_hand = True
    play.run()


def mode(play: Play, command: Command) -> None:
    if command.words[0] == "free":
        _free(play)
    elif command.words[0] == "hand":
        play.stage.post.by_hand = True
    else:
        raise play.impossible(f"expected `replication free` or `replication hand`, not {command.words[0]!r}.")
    play.run()


def _free(play: Play) -> None:
    play.stage.post.by_hand = False
    play.stage.post.let_go()


def is_level(play: Play) -> bool:
    """Every running replica is in the ISR, at the leader's end, and knows that all is committed."""
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
    "fetch": entry("fetch BROKER…", fetch, 1, None),
    "replicate": entry("replicate", replicate),
    "replication": entry("replication free|hand", mode, 1, 1),
}
