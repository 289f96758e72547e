"""A story of voters under way: its machines, what was written to whom, and what became of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidelog.effects import Event
from tidelog.lab.language import Command, Story, StoryError
from tidelog.lab.play import ACKNOWLEDGED, NO_ANSWER, WAITING
from tidelog.lab.playback import Message, RecordView
from tidelog.lab.stage import TURN
from tidelog.lab.voters.captions import Captions
from tidelog.lab.voters.flawed import replica_of
from tidelog.lab.voters.views import records_on
from tidelog.lab.voters.world import Letter, VoterWorld
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.states import Leader
from tidelog.sim.quorum.machines import Machine


@dataclass(slots=True, eq=False)
class Written:
    """One record that was given to a leader. `outcome`: waiting, acknowledged (it is committed), or no answer."""

    label: str
    leader: Machine
    life: int
    epoch: int
    offset: int
    outcome: str = WAITING


class VoterPlay:
    """What commands of voters work on. `told` collects the lines of the current command, `messages` those of the
    step."""

    def __init__(self, story: Story, knobs: dict[str, str]) -> None:
        self.story = story
        self.knobs = knobs
        self.command: Command | None = None
        self.messages: list[Message] = []
        self.told: list[str] = []
        self.written: list[Written] = []
        self.leaders: dict[int, list[str]] = {}
        """Who led, by epoch."""
        self.committed: dict[tuple[int, str], RecordView] = {}
        """What some leader committed, by offset and label."""
        self.broken: list[str] = []
        """Whose process ended because its state was in doubt."""
        self._world: VoterWorld | None = None
        self._captions: Captions | None = None

    def __repr__(self) -> str:
        return f"VoterPlay({self.story.name}, {self._world!r})"

    def impossible(self, sentence: str) -> StoryError:
        return self.story.error(self.command.line if self.command else 0, sentence)

    # The stage

    def open(self, names: Sequence[str], observers: Sequence[str], *, directories: bool) -> None:
        if self._world is not None:
            raise self.impossible("the voters stand already; a story has one quorum.")
        everyone = [*names, *observers]
        world = VoterWorld(
            everyone,
            len(names),
            replica_of(self.knobs),
            self._on_letter,
            self._ended,
            directories=directories,
        )
        self._captions = Captions(world)
        world.observe = self._observe
        self._world = world
        for machine in world.machines:
            world.start(machine)
        self.run()
        self.until(lambda: self.leader() is not None, TURN)
        self.run()
        self.messages.clear()

    @property
    def world(self) -> VoterWorld:
        if self._world is None:
            raise self.impossible("there is no quorum yet; expected `voters A B C` first.")
        return self._world

    post = world
    """Its messages can be held."""

    @property
    def has_stage(self) -> bool:
        return self._world is not None

    @property
    def millis(self) -> float:
        return round(self._world.micros / 1000, 1) if self._world is not None else 0.0

    def _on_letter(self, letter: Letter, delivered: bool) -> None:
        text = self._captions.letter(letter) if self._captions is not None else ""
        if text and (delivered or self._is_held(letter) or letter.kind == "Vote"):
            self.messages.append(Message(letter.source, letter.target, letter.kind, text, delivered))

    def _is_held(self, letter: Letter) -> bool:
        return self._world is not None and letter in self._world.held

    def _observe(self, machine: Machine, events: Sequence[Event]) -> None:
        """After every input of a machine."""
        name = self.world.names[machine.id]
        for event in events:
            if event.kind == "quorum.state" and event.fields["state"] == "Leader":
                self.leaders.setdefault(event.fields["epoch"], []).append(name)
            if event.kind == "quorum.committed":
                self._note_committed(machine, event.fields["offset"])
            self._tell(self._captions.event(name, event) if self._captions is not None else "")
        for written in self.written:
            if written.leader is machine and written.outcome == WAITING:
                self._follow_up(written, machine.quorum)

    def _note_committed(self, machine: Machine, end: int) -> None:
        for record in records_on(self.world, machine):
            if record.offset < end and not record.is_control:
                self.committed.setdefault((record.offset, record.label), record)

    def _tell(self, line: str) -> None:
        if line and line not in self.told:
            self.told.append(line)

    def _follow_up(self, written: Written, quorum: Quorum | None) -> None:
        led = quorum is not None and isinstance(quorum.state, Leader) and quorum.epoch == written.epoch
        if quorum is None or not led or written.leader.life != written.life:
            written.outcome = NO_ANSWER
            self._tell(f"{written.label}: no answer, nobody knows")
        elif quorum.replica.high_watermark > written.offset:
            written.outcome = ACKNOWLEDGED
            self._tell(f"{written.label}: committed at {written.offset}")

    def _ended(self, machine: Machine, reason: str) -> None:
        name = self.world.names[machine.id]
        self.broken.append(name)
        self._tell(f"{name} ends: {reason}")

    # Time

    def run(self, micros: int | None = None) -> None:
        self.world.run(TURN if micros is None else micros)
        for written in self.written:
            if written.outcome == WAITING:
                self._follow_up(written, written.leader.quorum)

    def until(self, condition: Callable[[], bool], micros: int) -> bool:
        return self.world.until(condition, micros)

    # Machines

    def party(self, name: str) -> str:
        if name not in self.world.names:
            raise self.impossible(f"there is no {name}; expected one of: {', '.join(self.world.names)}.")
        return name

    def machine(self, name: str) -> Machine:
        return self.world.machines[self.world.names.index(self.party(name))]

    def running(self, name: str) -> Machine:
        machine = self.machine(name)
        if machine.quorum is None:
            raise self.impossible(f"{name} is down; expected a voter that runs.")
        return machine

    def down(self, name: str) -> Machine:
        machine = self.machine(name)
        if machine.quorum is not None:
            raise self.impossible(f"{name} runs already; expected a voter that is down.")
        return machine

    def leader(self) -> Machine | None:
        """Return the leader of the highest epoch; of two in one epoch, the first by name."""
        leading = [m for m in self.world.machines if m.quorum is not None and isinstance(m.quorum.state, Leader)]
        return max(leading, key=lambda machine: machine.quorum.epoch if machine.quorum else -1, default=None)
