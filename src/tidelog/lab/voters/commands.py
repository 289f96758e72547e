"""What a story of voters can do. Commands on messages are those of stories of brokers."""

from collections.abc import Callable

from tidelog.errors import ErrorCode
from tidelog.lab.commands import messages
from tidelog.lab.commands.inspection import Look, check, line, word_list
from tidelog.lab.language import Command, Verb
from tidelog.lab.play import ACKNOWLEDGED, NO_ANSWER, WAITING, CommandEntry, command_entry
from tidelog.lab.verdict import differs
from tidelog.lab.voters.play import VoterPlay, Written
from tidelog.lab.voters.verdict import lost
from tidelog.lab.voters.views import voter, voters
from tidelog.ports import Create
from tidelog.quorum.records import NO_SESSION, TreeChanges, encode
from tidelog.quorum.states import Leader, Resigned
from tidelog.sim.quorum.machines import CLUSTER_ID, Machine
from tidelog.wire.messages.cluster.quorum_voters import AddRaftVoterRequest, Listener, RemoveRaftVoterRequest

CHANGE_WITHIN_MS = 30_000
ELECTION = 20_000
"""How long the world continues after a timer: longer than an election, and shorter than the wait after a lost one."""
LookUp = Callable[[VoterPlay, list[str]], Look]


def begin(play: VoterPlay, command: Command) -> None:
    observers = [name for name in command.options.get("observers", "").split(",") if name]
    everyone = [*command.words, *observers]
    version = command.options.get("kraft.version", "0")
    if len(set(everyone)) < len(everyone):
        raise play.impossible("expected a name for each voter and observer, none of them twice.")
    if version not in ("0", "1"):
        raise play.impossible(f"expected kraft.version=0 or kraft.version=1, not {version}.")
    if sorted(everyone) != everyone:
        raise play.impossible("expected the names in their order: timers run out in it.")
    play.open(command.words, observers, directories=version == "1")


def write(play: VoterPlay, command: Command) -> None:
    """Give records to a leader, one after the other."""
    machine = play.leader()
    if "to" in command.options:
        machine = play.running(command.options["to"])
    if machine is None or machine.quorum is None or not isinstance(machine.quorum.state, Leader):
        who = command.options.get("to", "nobody")
        raise play.impossible(f"{who} does not lead; expected a leader for this.")
    for label in command.words:
        offset, epoch = machine.quorum.replica.end, machine.quorum.epoch
        play.written.append(Written(label, machine, machine.life, epoch, offset))
        value = encode(TreeChanges(NO_SESSION, 0, (Create(f"/{label}", b""),)))
        play.world.give(machine, "append", [value])
    play.run()


def kill(play: VoterPlay, command: Command) -> None:
    for name in command.words:
        play.world.kill(play.running(name))
    play.run()


def power(play: VoterPlay, command: Command) -> None:
    """Cut the power of the machines; unsynced data are lost, and no connection is closed."""
    for name in command.words:
        play.world.lose_power(play.running(name))
    play.run()


def start(play: VoterPlay, command: Command) -> None:
    for name in command.words:
        play.world.stalled.discard(play.down(name).id)
        play.world.power_on(play.machine(name))
    play.run()


def stall(play: VoterPlay, command: Command) -> None:
    """From now on the disks write nothing, until their machines start again."""
    play.world.stalled.update(play.running(name).id for name in command.words)


def time_out(play: VoterPlay, command: Command) -> None:
    """The timer that the replica waits for runs out now."""
    for name in command.words:
        machine = play.running(name)
        assert machine.quorum is not None
        state = machine.quorum.state
        if isinstance(state, Leader | Resigned):
            raise play.impossible(f"{name} leads, or did; expected a voter that waits for a leader.")
        state.deadline = play.world.now(machine).mono
        play.world.give(machine, "wake")
    play.run(ELECTION)


def change(play: VoterPlay, command: Command) -> None:
    """Add an observer to the voters, or remove a voter."""
    machine, leader = play.machine(command.words[0]), play.leader()
    if leader is None:
        raise play.impossible("nobody leads; expected a leader for this.")
    number, directory = machine.key
    request: AddRaftVoterRequest | RemoveRaftVoterRequest
    if command.verb == "add":
        request = AddRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            timeout_ms=CHANGE_WITHIN_MS,
            voter_id=number,
            voter_directory_id=directory,
            listeners=[Listener(name="CONTROLLER", host=command.words[0], port=9093)],
            ack_when_committed=True,
        )
    else:
        request = RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=number, voter_directory_id=directory)
    text = f"{command.verb} {command.words[0]}"
    play.world.request(leader, request, lambda answer: play.told.append(f"{text}: {_outcome_of(answer.error_code)}"))
    play.run()


def _outcome_of(code: int) -> str:
    return f"refused with {ErrorCode(code).name}" if code else "committed"


def show(play: VoterPlay, command: Command) -> None:
    for view in voters(play.world):
        if not command.words or view.broker in command.words:
            play.told.append(line(view))


def expect(play: VoterPlay, command: Command) -> None:
    check(play, command, LOOKS)


def _of(play: VoterPlay, values: list[str]) -> Machine:
    if not values:
        raise play.impossible("expected a voter.")
    return play.machine(values[0])


def _log(play: VoterPlay, values: list[str]) -> Look:
    return [r.label for r in voter(play.world, _of(play, values)).records if not r.is_control], word_list(values[1:])


def _field(name: str) -> LookUp:
    return lambda play, values: ([str(getattr(voter(play.world, _of(play, values)), name))], values[1:])


def _voted(play: VoterPlay, values: list[str]) -> Look:
    return [voter(play.world, _of(play, values)).voted or "nobody"], values[1:]


def _voters(play: VoterPlay, values: list[str]) -> Look:
    return voter(play.world, _of(play, values)).voters, values[1:]


def _leader(play: VoterPlay, values: list[str]) -> Look:
    leader = play.leader()
    return [play.world.names[leader.id] if leader is not None else "nobody"], values


def _outcome(outcome: str) -> LookUp:
    def found(play: VoterPlay, values: list[str]) -> Look:
        last = {written.label: written.outcome for written in play.written}
        return [last.get(value, "never written") for value in values], [outcome] * len(values)

    return found


def _lost(play: VoterPlay, values: list[str]) -> Look:
    return [record.label for record in lost(play)], word_list(values)


def _differs(play: VoterPlay, values: list[str]) -> Look:
    views = [view for view in voters(play.world) if view.alive]
    return [str(offset) for offset in differs(views)], word_list(values)


LOOKS: dict[str, LookUp] = {
    "log": _log,
    "hw": _field("hw"),
    "leo": _field("leo"),
    "role": _field("role"),
    "epoch": _field("leader_epoch"),
    "voted": _voted,
    "voters": _voters,
    "leader": _leader,
    "committed": _outcome(ACKNOWLEDGED),
    "waiting": _outcome(WAITING),
    "unanswered": _outcome(NO_ANSWER),
    "lost": _lost,
    "differs": _differs,
}

COMMANDS: dict[str, CommandEntry] = {
    "voters": CommandEntry(
        Verb("voters VOTER… [observers=D,E] [kraft.version=0|1]", 1, None, frozenset({"observers", "kraft.version"})),
        begin,
    ),
    "write": command_entry("write VALUE… [to=VOTER]", write, 1, None, "to"),
    "kill": command_entry("kill VOTER…", kill, 1, None),
    "power": command_entry("power VOTER…", power, 1, None),
    "start": command_entry("start VOTER…", start, 1, None),
    "stall": command_entry("stall VOTER…", stall, 1, None),
    "timeout": command_entry("timeout VOTER…", time_out, 1, None),
    "add": command_entry("add VOTER", change, 1, 1),
    "remove": command_entry("remove VOTER", change, 1, 1),
    **{verb: messages.COMMANDS[verb] for verb in ("hold", "release", "deliver", "drop", "cut", "heal", "wait")},
    "show": command_entry("show [VOTER…]", show, 0, None),
    "expect": command_entry("expect WHAT [VALUE…]", expect, 1, None),
}
