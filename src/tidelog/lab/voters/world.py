"""The simulator's machines and network as a story needs them: named, without chance, and with messages to hold."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidelog.lab.post import ANSWER, Rule
from tidelog.lab.stage import OnlyWhatWasSynced
from tidelog.quorum.options import DEFAULTS
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.replica import Replica
from tidelog.quorum.state_file import load_state
from tidelog.quorum.voters import ReplicaKey, VoterSet
from tidelog.quorum.voting import QuorumConfig
from tidelog.sim.faults import SECOND
from tidelog.sim.quorum.machines import CLUSTER_ID, FOLDER, Machine, Network, World

MESSAGE_TIME, WRITE_TIME = 300, 500
STALLED = 3_600 * SECOND
FETCH_BYTES = 1
"""Of an answer to a fetch: it has one batch, so that a story can stop between two."""
RESPONSE = "Response"


@dataclass(slots=True, eq=False)
class Letter:
    """A message on its way. `kind` is the request's name, followed by " answer" for a response."""

    source: str
    target: str
    kind: str
    message: Any
    arrive: Callable[[], None]


OnLetter = Callable[[Letter, bool], None]


def kind_of(message: Any) -> str:
    name = type(message).__name__
    return name.removesuffix(RESPONSE) + ANSWER if name.endswith(RESPONSE) else name.removesuffix("Request")


class VoterWorld(World):
    """Calls `on_letter(letter, delivered)` for every message; `ended(machine, reason)` if a process fails an assertion,
    which ends it. With `directories` voters are known by their directories (kraft.version 1), and can be changed."""

    def __init__(
        self,
        names: Sequence[str],
        voters: int,
        replica: type[Quorum],
        on_letter: OnLetter,
        ended: Callable[[Machine, str], None],
        *,
        directories: bool,
    ) -> None:
        keys = [ReplicaKey(n, bytes([7, n]) * 8) for n in range(len(names))]
        options = DEFAULTS._replace(fetch_bytes=FETCH_BYTES)
        known = keys[:voters] if directories else [ReplicaKey(n) for n in range(voters)]
        first = VoterSet(known, directories=directories)
        super().__init__(OnlyWhatWasSynced(0), len(names), first, keys, options)
        self.names = list(names)
        self.network = Network(delay=(MESSAGE_TIME, MESSAGE_TIME))
        self.rules: list[Rule] = []
        self.held: list[Letter] = []
        self.stalled: set[int] = set()
        """Machines whose disks write nothing."""
        self._replica = replica
        self._on_letter = on_letter
        self._ended = ended
        for machine in self.machines:
            machine.disk.random = OnlyWhatWasSynced(0)
            if directories and machine.id >= voters:
                machine.voters = VoterSet()

    # sim.quorum.machines.World

    def make(self, machine: Machine, replica: Replica) -> Quorum:
        state, everyone = load_state(machine.disk, FOLDER), range(len(self.machines))
        dice = partial(self._between, machine)
        return self._replica(QuorumConfig(machine.key, CLUSTER_ID, replica, state, dice, self.options, everyone))

    def _between(self, machine: Machine, low: int, high: int) -> int:
        """In place of a drawn number: the first name waits shortest."""
        return low + (high - low) * machine.id // len(self.machines)

    def write_delay(self, machine: Machine) -> int:
        return STALLED if machine.id in self.stalled else WRITE_TIME

    def give(self, machine: Machine, name: str, *arguments: Any) -> None:
        try:
            super().give(machine, name, *arguments)
        except AssertionError as failure:  # as in a broker: its state is in doubt, so its process ends
            self.kill(machine)
            self._ended(machine, str(failure).splitlines()[0])

    def send(self, source: Machine, target: Machine, message: Any, arrive: Callable[[], None]) -> None:
        if message is None:
            super().send(source, target, message, arrive)
            return
        letter = Letter(self.names[source.id], self.names[target.id], kind_of(message), message, arrive)
        if any(rule.names(letter) for rule in self.rules):
            self.held.append(letter)
            self._on_letter(letter, False)
        else:
            self._go(letter)

    def _go(self, letter: Letter) -> None:
        source, target = (self.machines[self.names.index(name)] for name in (letter.source, letter.target))
        is_cut = (source.id, target.id) in self.network.cut
        self._on_letter(letter, not is_cut)
        super().send(source, target, letter.message, letter.arrive)

    def until(self, condition: Callable[[], bool], micros: int) -> bool:
        """Let time pass until the condition holds; return whether it does."""
        end = self.micros + micros
        while not condition() and self.micros < end:
            self.run(MESSAGE_TIME)
        return condition()

    # By hand: lab.play.Mailbox

    def waiting(self, source: str = "", target: str = "", kinds: frozenset[str] = frozenset()) -> list[Letter]:
        return [
            letter
            for letter in self.held
            if source in ("", letter.source) and target in ("", letter.target) and (not kinds or letter.kind in kinds)
        ]

    def deliver(self, letter: Letter) -> None:
        self.held.remove(letter)
        self._go(letter)

    def lose(self, letter: Letter) -> None:
        self.held.remove(letter)

    def let_go(self) -> None:
        letters, self.held = self.held, []
        for letter in letters:
            if any(rule.names(letter) for rule in self.rules):
                self.held.append(letter)
            else:
                self._go(letter)

    def block(self, source: str, target: str) -> None:
        self.network.cut.add((self.names.index(source), self.names.index(target)))

    def heal(self) -> None:
        self.network.cut.clear()
