"""Machines that run one replica of the quorum each, and the network between them, in virtual time.

Every message passes through its bytes. A machine that lost its power answers nothing; one whose process ended refuses
connections, which is how the others learn that a process is gone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Any

from tidelog.effects import Effect, Event, PeerRequest, Replace, Reply, Sync
from tidelog.errors import CorruptLog, DiskFailed
from tidelog.model import Time
from tidelog.ports import File
from tidelog.quorum.formatting import METADATA_FOLDER
from tidelog.quorum.options import DEFAULTS, Options
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.records import Decoded
from tidelog.quorum.replica import Replica, config_of
from tidelog.quorum.requests import NODE_ENDPOINTS
from tidelog.quorum.state_file import load_state
from tidelog.quorum.tree import Applied
from tidelog.quorum.voters import ReplicaKey, VoterSet
from tidelog.quorum.voting import QuorumConfig
from tidelog.sim.carry import read_part
from tidelog.sim.disk import PowerCut, SimDisk
from tidelog.sim.faults import MILLI, POWER, SECOND
from tidelog.sim.quorum.state import State
from tidelog.wire import codec
from tidelog.wire.message import key_of
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.messages.cluster.features import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from tidelog.wire.messages.cluster.metadata_log import VoterEndpoint

ROOT = "/metadata"
FOLDER = f"{ROOT}/{METADATA_FOLDER}"
CLUSTER_ID = "simulated"
KRAFT_VERSIONS = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
WALL_START = 1_700_000_000_000
REQUEST_TIMEOUT = 2 * SECOND
SEGMENT_BYTES = 2_048
LOOKS_AGAIN = 200 * MILLI
"""How long a write whose disk hung goes on after the disk is well again, at most."""


@dataclass(slots=True)
class Network:
    """`cut` has the directions (from, to) in which nothing passes."""

    delay: tuple[int, int] = (100, 2 * MILLI)
    loss: float = 0.0
    tail_chance: float = 0.0
    tail: int = 100 * MILLI
    repeats: float = 0.0
    """How often a request arrives twice."""
    cut: set[tuple[int, int]] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class Machine:
    """One machine. `quorum` is None while no process runs; `life` counts the processes."""

    id: int
    disk: SimDisk
    key: ReplicaKey
    voters: VoterSet
    quorum: Quorum | None = None
    life: int = 0
    is_off: bool = False
    paused_until: int = 0
    wakes_at: int = -1
    wipes: int = 0
    rate: float = 1.0
    """Of its clock, to which `offset` milliseconds are added."""
    offset: int = 0
    wall_offset: int = 0
    """Milliseconds that its wall clock is ahead."""
    port: int = 9093
    """Where its process listens; another one after it has moved."""
    hangs_until: int = 0
    """No write of its disk ends before."""
    state: State | None = None
    """What was applied by this process."""
    last_voters: VoterSet = field(default_factory=VoterSet)
    """Those of its log when it last ran."""
    is_rotten: bool = False
    """Damage was done to what it had synced: it must not start with that."""


def _ignore(*_: Any) -> None:
    """Nobody watches."""


def endpoint_of(machine: Machine) -> VoterEndpoint:
    """Where the machine's process listens."""
    return VoterEndpoint(name="CONTROLLER", host=f"host-{machine.id}", port=machine.port)


def _sync(files: Sequence[File]) -> None:
    for file in files:
        file.sync()


class World:
    """`observe(machine, events)` is called after every input, `asks(machine, request)` and `heard(machine, request,
    response)` for every request and answer as it leaves."""

    def __init__(
        self, random: Random, machines: int, voters: VoterSet, keys: Sequence[ReplicaKey], options: Options = DEFAULTS
    ) -> None:
        self.random = random
        self.options = options
        self.micros = 0
        self.network = Network()
        self.sync_delay = (100, 2 * MILLI)
        self.machines = [Machine(n, SimDisk([ROOT], random), keys[n], voters) for n in range(machines)]
        self.observe: Callable[[Machine, Sequence[Event]], None] = _ignore
        self.noticed: Callable[[Machine, Sequence[Event]], None] = _ignore
        """As `observe`, for whoever aims faults."""
        self.asks: Callable[[Machine, Any], None] = _ignore
        self.heard: Callable[[Machine, Any, Any], None] = _ignore
        self.applied: Callable[[Machine, int, Decoded, Applied], None] = _ignore
        """Called for every record that a process applies."""
        self.loses: Callable[[Machine], None] = _ignore
        """Called before a disk is replaced, or rots."""
        self.history: list[str] = []
        self.restarts = True
        self.tells_endpoints = False
        """Processes say where they are reached (UpdateRaftVoter), and nobody is reached where it was before."""
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self._requests: dict[tuple[int, int, int], tuple[Any, Callable[[Any], None]]] = {}
        """What a machine was asked, by its number, its life and the token it knows the request by."""
        self._token = 0

    def __repr__(self) -> str:
        return f"World({self.micros / SECOND:.3f} s, {len(self.machines)} machines)"

    # time

    def after(self, delay: int, action: Callable[[], None]) -> None:
        self._number += 1
        heappush(self._events, (self.micros + max(delay, 0), self._number, action))

    def run(self, micros: int) -> None:
        until = self.micros + micros
        while self._events and self._events[0][0] <= until:
            self.micros, _, action = heappop(self._events)
            action()
        self.micros = until

    def now(self, machine: Machine) -> Time:
        """The time by the machine's clock."""
        ms = int(self.micros * machine.rate) // MILLI + machine.offset
        return Time(ms, WALL_START + ms + machine.wall_offset)

    def _micros_at(self, machine: Machine, ms: int) -> int:
        """When the machine's monotonic clock shows so many milliseconds."""
        return int((ms - machine.offset) * MILLI / machine.rate) + 1

    def note(self, text: str) -> None:
        self.history.append(f"{self.micros / SECOND:10.6f} {text}")

    # processes

    def start(self, machine: Machine) -> None:
        """Start the process, unless one runs."""
        if machine.quorum is not None or machine.is_off:
            return
        machine.life += 1
        machine.wakes_at = -1
        self.note(f"{machine.id} starts")
        try:
            machine.quorum = self.make(machine, self.open(machine))
            machine.state = State()
        except (PowerCut, DiskFailed, CorruptLog) as failure:
            self._fail(machine, failure)
            return
        self.give(machine, "start")

    def make(self, machine: Machine, replica: Replica) -> Quorum:
        state, bootstrap = load_state(machine.disk, FOLDER), range(len(self.machines))
        own = (endpoint_of(machine),) if self.tells_endpoints else ()
        return Quorum(
            QuorumConfig(machine.key, CLUSTER_ID, replica, state, self.random.randint, self.options, bootstrap, own)
        )

    def open(self, machine: Machine) -> Replica:
        return Replica.open(machine.disk, FOLDER, machine.voters, config_of(SEGMENT_BYTES), self.now(machine))

    def give(self, machine: Machine, name: str, *arguments: Any) -> None:
        """Give the process an input, and carry out what it wants."""
        quorum, life = machine.quorum, machine.life
        if quorum is None:
            return
        if machine.paused_until > self.micros:
            self.after(machine.paused_until - self.micros, partial(self._give_later, machine, life, name, arguments))
            return
        try:
            getattr(quorum, name)(*arguments, self.now(machine))
            effects = quorum.effects()
            events = [effect for effect in effects if isinstance(effect, Event)]
            self.observe(machine, events)
            self.noticed(machine, events)
            for effect in effects:
                self._carry(machine, effect)
        except (PowerCut, DiskFailed, CorruptLog) as failure:
            self._fail(machine, failure)
            return
        self._arm(machine, quorum)

    def _give_later(self, machine: Machine, life: int, name: str, arguments: tuple[Any, ...]) -> None:
        if machine.life == life:
            self.give(machine, name, *arguments)

    def _arm(self, machine: Machine, quorum: Quorum) -> None:
        at = max(self._micros_at(machine, quorum.next_deadline), self.micros + 1)
        if machine.wakes_at <= self.micros or at < machine.wakes_at:
            machine.wakes_at = at
            self.after(at - self.micros, partial(self._wake, machine, machine.life, at))

    def _wake(self, machine: Machine, life: int, at: int) -> None:
        if machine.life == life and machine.wakes_at == at:
            self.give(machine, "wake")

    def _fail(self, machine: Machine, failure: BaseException) -> None:
        """A disk operation failed: the process ends, as after any failed fsync, or the machine lost its power. A disk
        with rot is replaced, as the message says."""
        if isinstance(failure, CorruptLog):
            if not machine.is_rotten:
                raise failure
            self.note(f"{machine.id} refuses: {failure}")
            self.wipe(machine)
        elif isinstance(failure, PowerCut) and machine.disk.ends_by == POWER:
            self.lose_power(machine)
        else:
            self.kill(machine)
        self.revive(machine)

    def stop(self, machine: Machine) -> None:
        """A clean stop."""
        if machine.quorum is None:
            return
        self.note(f"{machine.id} stops")
        try:
            machine.quorum.replica.close()
        except (PowerCut, DiskFailed) as failure:
            self._fail(machine, failure)
        else:
            machine.disk.kill()
            self._end(machine)

    def kill(self, machine: Machine) -> None:
        self.note(f"{machine.id} is killed")
        machine.disk.kill()
        self._end(machine)

    def lose_power(self, machine: Machine) -> None:
        self.note(f"{machine.id} loses its power")
        machine.disk.mend()
        machine.disk.lose_power()
        self._end(machine)
        machine.is_off = True

    def _end(self, machine: Machine) -> None:
        machine.quorum = None
        machine.state = None
        machine.life += 1
        machine.paused_until = 0

    def revive(self, machine: Machine) -> None:
        """Start it again after a while."""
        if self.restarts:
            self.after(self.random.randint(5, 3_000) * MILLI, partial(self.power_on, machine))

    def power_on(self, machine: Machine) -> None:
        machine.is_off = False
        self.start(machine)

    def wipe(self, machine: Machine) -> None:
        """Replace the disk: another directory ID, and nothing known about who votes."""
        self.note(f"{machine.id} is wiped")
        self.loses(machine)
        self._end(machine)
        machine.is_rotten = False
        machine.wipes += 1
        machine.disk = SimDisk([ROOT], self.random)
        machine.key = ReplicaKey(machine.id, bytes([machine.wipes, machine.id]) * 8)
        machine.voters = VoterSet()

    # effects

    def _carry(self, machine: Machine, effect: Effect) -> None:
        match effect:
            case Event():
                self.note(f"{machine.id} {effect.kind} {dict(effect.fields)}")
            case Sync(token, files):
                self._later(machine, token, partial(_sync, files))
            case Replace(token, path, content):
                self._later(machine, token, lambda: machine.disk.replace(path, content))
            case PeerRequest(target, request, _, token):
                self._ask(machine, self.machines[target], request, token)
            case Reply(token, response):
                self._reply(machine, token, response)

    def _later(self, machine: Machine, token: int, work: Callable[[], Any]) -> None:
        life = machine.life

        def carry_out() -> None:
            if machine.life != life:
                return
            if (hangs := machine.hangs_until - self.micros) > 0:
                self.after(min(hangs, LOOKS_AGAIN), carry_out)
                return
            try:
                work()
            except (PowerCut, DiskFailed) as failure:
                self._fail(machine, failure)
            else:
                self.give(machine, "synced", token)

        self.after(self.write_delay(machine), carry_out)

    def write_delay(self, machine: Machine) -> int:
        """How long a sync or a write of a file takes, in microseconds."""
        return self.random.randint(*self.sync_delay)

    def _ask(self, machine: Machine, target: Machine, request: Any, token: int) -> None:
        life, answered, is_former = machine.life, False, self._knows_former_place(machine, target)

        def answer(response: Any) -> None:
            nonlocal answered
            if not answered and machine.life == life:
                answered = True
                self.give(machine, "answered", token, response)

        def arrive() -> None:
            if is_former and not target.is_off:
                self._refuse(machine, target, life, answer)
            elif target.quorum is not None and isinstance(request, ApiVersionsRequest):
                self._back(target, machine, answer, ApiVersionsResponse(supported_features=[KRAFT_VERSIONS]))
            elif target.quorum is not None:
                self.request(target, sent, partial(self._back, target, machine, answer))
            elif not target.is_off:
                self._refuse(machine, target, life, answer)

        self.asks(machine, request)
        key = key_of(request)
        version = SCHEMAS[key].max_version
        frame = b"".join(map(read_part, codec.encode_request(key, version, token, None, request)))[4:]
        sent = codec.decode_request(frame)[1]
        self.send(machine, target, request, arrive)
        if self.network.repeats and self.random.random() < self.network.repeats:
            self.send(machine, target, request, arrive)
        self.after(REQUEST_TIMEOUT, partial(answer, None))

    def _knows_former_place(self, machine: Machine, target: Machine) -> bool:
        """Whether the process would connect to where the target listened before it moved."""
        if not self.tells_endpoints or machine.quorum is None:
            return False
        told = machine.quorum.endpoints_of(target.id)
        return bool(told) and told[0].port != target.port

    def request(self, machine: Machine, request: Any, back: Callable[[Any], None]) -> None:
        """A request arrives at the machine's process; `back` gets its answer as it leaves."""
        self._token += 1
        self._requests[machine.id, machine.life, self._token] = (request, back)
        self.give(machine, "request", self._token, request)

    def _refuse(self, machine: Machine, target: Machine, life: int, answer: Callable[[Any], None]) -> None:
        """Nobody listens there: the connection is refused, which proves that the process is gone."""

        def refused() -> None:
            answer(None)
            if machine.life == life:
                self.give(machine, "gone", target.id)

        self.send(target, machine, None, refused)

    def _reply(self, machine: Machine, token: int, response: Any) -> None:
        request, back = self._requests.pop((machine.id, machine.life, token))
        self.heard(machine, request, response)
        self._name_leader(machine, response)
        key = key_of(request)
        version = SCHEMAS[key].max_version
        try:
            parts = [read_part(part) for part in codec.encode_response(key, version, 0, response)]
        except EOFError:
            return  # the log was cut meanwhile: the connection breaks
        back(codec.decode_response(key, version, b"".join(parts)[4:])[1])

    def _name_leader(self, machine: Machine, response: Any) -> None:
        """Say where the leader is reached, as nodes do."""
        endpoint_of_node, quorum = NODE_ENDPOINTS.get(type(response)), machine.quorum
        if self.tells_endpoints and endpoint_of_node is not None and quorum is not None and quorum.election.leader >= 0:
            leader = quorum.election.leader
            for place in quorum.endpoints_of(leader):
                response.node_endpoints = [endpoint_of_node(node_id=leader, host=place.host, port=place.port)]

    def _back(self, target: Machine, machine: Machine, answer: Callable[[Any], None], response: Any) -> None:
        self.send(target, machine, response, partial(answer, response))

    def send(self, source: Machine, target: Machine, message: Any, arrive: Callable[[], None]) -> None:
        """Send a request or a response, or refuse a connection (None); `arrive` is called where it arrives."""
        network = self.network
        delay = self.random.randint(*network.delay)
        if network.tail_chance and self.random.random() < network.tail_chance:
            delay += self.random.randint(0, network.tail)
        is_lost = network.loss and self.random.random() < network.loss
        if (source.id, target.id) in network.cut or is_lost:
            return
        self.after(delay, arrive)
