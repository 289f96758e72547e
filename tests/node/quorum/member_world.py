"""Nodes' parts of a metadata quorum without the rest of the nodes, on the simulated machines and network of the quorum.

Machines 0 to 2 vote; the others only read, and each `MemberStore` is the session of one of them.
"""

from itertools import count
from random import Random

from tidelog.controller.controller import NO_OFFICE
from tidelog.effects import PeerRequest, Reply, Store
from tidelog.model import Endpoint
from tidelog.node.quorum.member import QuorumMember
from tidelog.node.quorum.notices import Changed, Result, SessionLost, SessionStarted
from tidelog.node.quorum.setup import QuorumSetup
from tidelog.ports import StoreResult
from tidelog.quorum.voters import ReplicaKey, VoterSet
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.quorum.machines import CLUSTER_ID, FOLDER, World
from tidelog.wire.messages.cluster.features import ApiVersionsRequest, ApiVersionsResponse

VOTERS, SESSIONS = 3, 8
UNKNOWN = StoreResult("unknown")


class Process:
    """A member with the inputs that `World` gives to a replica of the quorum."""

    def __init__(self, world, machine):
        self.out = []
        self.machine = machine
        setup = QuorumSetup(
            CLUSTER_ID,
            FOLDER,
            machine.key.directory,
            machine.voters,
            {each: Endpoint("CONTROLLER", "PLAINTEXT", f"host-{each}", 1) for each in range(VOTERS)},
            segment_bytes=2_048,
            own_endpoints=world.endpoints.get(machine.id, ()),
            **world.setup,
        )
        self.member = QuorumMember(
            setup,
            machine.id,
            machine.disk,
            self.out,
            entropy=world.random.randbytes,
            directories=lambda: [machine.key.directory],
        )
        self.session, self.results, self.events, self.sessions = 0, {}, {}, 0
        self._asked, self._tokens = {}, count(1)

    def start(self, now):
        self.member.start(now)

    def request(self, token, request, now):
        if isinstance(request, ApiVersionsRequest):
            self.out.append(Reply(token, ApiVersionsResponse()))
        else:
            self.member.request(token, request, now)

    def answered(self, token, response, now):
        ask = self._asked.pop(token)
        self.member.answered(ask.owner, ask.token, response, now)

    def synced(self, token, now):
        self.member.synced(token, now)

    def wake(self, now):
        self.member.wake(now)

    def gone(self, node, now):
        self.member.gone(node, now, by_probe=True)

    def submit(self, token, operations, now):
        self.member.submit(Store(token, tuple(operations)))
        self.member.pump(now)

    @property
    def next_deadline(self):
        return self.member.next_deadline

    def effects(self):
        notices, self.member.notices[:] = list(self.member.notices), []
        for each in notices:
            match each:
                case SessionStarted(session):
                    self.session = session
                    self.sessions += 1
                    self.member.accept(session)
                case SessionLost():
                    self.session = 0
                case Result(token, result):
                    self.results[token] = result
                case Changed(path):
                    self.events[path] = None
        effects, self.out[:] = list(self.out), []
        return [self._numbered(effect) if isinstance(effect, PeerRequest) else effect for effect in effects]

    def _numbered(self, ask):
        token = next(self._tokens)
        self._asked[token] = ask
        return ask._replace(token=token)


class MemberWorld(World):
    """Started with its voters; `session` starts another machine."""

    def __init__(self, random=None, **setup):
        keys = [ReplicaKey(number, bytes([7, number]) * 8) for number in range(VOTERS + SESSIONS)]
        super().__init__(random or Random(1), len(keys), VoterSet(keys[:VOTERS]), keys)
        self.setup = setup
        self.endpoints = {}
        """Where machines say that they are reached."""
        self.tokens = count(1)

    def start(self, machine):
        if machine.quorum is None and not machine.is_off:
            machine.life += 1
            machine.wakes_at = -1
            machine.quorum = Process(self, machine)
            self.give(machine, "start")

    def begin(self):
        for machine in self.machines[:VOTERS]:
            self.start(machine)
        self.until(self.leader)

    def leader(self):
        """The process that is in office, or None."""
        found = [m.quorum for m in self.machines if m.quorum is not None and m.quorum.member.office != NO_OFFICE]
        return found[0] if len(found) == 1 else None

    def until(self, condition, within=60 * SECOND):
        """Let time pass until it holds; returns what it returned."""
        end = self.micros + within
        while not (found := condition()):
            assert self.micros < end, "\n".join(self.history[-40:])
            self.run(MILLI)
        return found

    def submit(self, machine, operations):
        """The token of operations that a machine's node submits."""
        token = next(self.tokens)
        self.give(machine, "submit", token, operations)
        return token


class MemberStore:
    """`ports.MetadataStore` on one machine that only reads the log. Its broker's number is that of the machine."""

    def __init__(self, world, machine):
        self._world, self._machine = world, machine
        world.start(machine)
        world.until(lambda: machine.quorum.session)
        self.session = machine.quorum.session

    def apply(self, operations):
        process = self._machine.quorum
        if process is None or process.session != self.session:
            return UNKNOWN
        token = self._world.submit(self._machine, operations)
        self._world.until(lambda: token in process.results or process.session != self.session)
        return process.results.get(token, UNKNOWN)

    def events(self):
        """Once this node has applied what the leader has, as a session that has asked others."""
        process = self._machine.quorum
        if process is None:
            return ()
        leader = self._world.until(self._world.leader)
        end = leader.member.local.applied
        self._world.until(lambda: process.member.local.applied >= end)
        events, process.events = tuple(process.events), {}
        return events

    def close(self):
        """End the process, and wait until all have noticed."""
        if self._machine.quorum is None:
            return
        self._world.kill(self._machine)
        leader = self._world.until(self._world.leader)
        for other in self._world.machines:
            if other.quorum is leader:  # which watches the connection to it
                self._world.give(other, "gone", self._machine.id)
        running = [each.quorum for each in self._world.machines if each.quorum is not None]
        self._world.until(lambda: all(self.session not in each.member.local.tree.sessions for each in running))
