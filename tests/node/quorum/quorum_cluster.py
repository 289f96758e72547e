"""Real `Node`s that are a metadata quorum, on simulated disks, in virtual time: the test kills, starts and waits."""

from collections import deque
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import ClassVar

from tidelog.config.broker import BrokerConfig
from tidelog.controller import tree
from tidelog.controller.features import founding
from tidelog.effects import (
    REFUSED,
    Close,
    Compute,
    Connect,
    Event,
    Examine,
    PutBack,
    Replace,
    Send,
    Stop,
    Sync,
    SyncFolders,
    carried_out,
)
from tidelog.log.examination import examine
from tidelog.model import Endpoint, Time
from tidelog.node.log_dirs import sync_folders
from tidelog.node.node import Node
from tidelog.node.quorum.setup import QuorumSetup
from tidelog.ports import Create
from tidelog.quorum.voters import ReplicaKey, VoterSet, voter_record
from tidelog.sim.carry import read_part
from tidelog.sim.disk import SimDisk
from tidelog.wire.messages.cluster.metadata_log import VoterEndpoint

WALL = 1_700_000_000_000
FOLDER = "/data"
CLUSTER_ID = "quorum-of-a-test-cluster"
PORTS = {"PLAINTEXT": 9092, "REPLICATION": 9093, "CONTROLLER": 9094}
NETWORK_MS, DISK_MS = 1, 2


def directory(node):
    return bytes([node + 1]) * 16


class Process:
    """One life of a broker. `ends` are its connections: number → (the process at the other end, its number there)."""

    def __init__(self, cluster, number, disk):
        self.cluster, self.number, self.disk = cluster, number, disk
        self.alive, self.stopped = True, None
        self.ends = {}
        self.inbound = 0
        self.events = []
        self.wakes_at = None
        endpoints = [Endpoint(name, "PLAINTEXT", f"host-{number}", port) for name, port in PORTS.items()]
        config = BrokerConfig(
            {
                "node.id": str(number),
                "log.dirs": FOLDER,
                "listeners": "PLAINTEXT://x:9092,REPLICATION://x:9093",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT",
                "inter.broker.listener.name": "REPLICATION",
                **cluster.options,
            }
        )
        voters = range(cluster.voters)
        setup = QuorumSetup(
            CLUSTER_ID,
            f"{FOLDER}/__cluster_metadata-0",
            cluster.directories[number],
            VoterSet.of(
                voter_record(
                    ReplicaKey(each, directory(each)),
                    [VoterEndpoint(name="CONTROLLER", host=f"host-{each}", port=PORTS["CONTROLLER"])],
                )
                for each in voters
            ),
            {each: Endpoint("CONTROLLER", "PLAINTEXT", f"host-{each}", PORTS["CONTROLLER"]) for each in voters},
            listeners=frozenset({"CONTROLLER"}),
            founding=[Create(tree.CLUSTER_ID, tree.format_cluster_id(CLUSTER_ID)), *founding(config)],
        )._replace(**cluster.setup, **(cluster.bootstrap_only if number >= cluster.voters else {}))
        self.node = Node(
            config,
            disk,
            [each for each in endpoints if each.listener != "CONTROLLER" and number not in cluster.only_controllers],
            entropy=cluster.random.randbytes,
            directories={FOLDER: cluster.directories[number]},
            has_features=True,
            quorum=setup,
        )

    def give(self, name, *arguments):
        if not self.alive or self.stopped is not None:
            return
        for effect in getattr(self.node, name)(*arguments, self.cluster.now):
            self.carry_out(effect)
        self.node.check_invariants()
        deadline = self.node.next_deadline
        if deadline is not None and (self.wakes_at is None or deadline < self.wakes_at):
            self.wakes_at = deadline
            self.cluster.after(max(deadline - self.cluster.now.mono, 0), partial(self.wake, deadline))

    def wake(self, deadline):
        if self.wakes_at == deadline:
            self.wakes_at = None
            self.give("wake")

    def carry_out(self, effect):
        match effect:
            case Send(connection, parts):
                data = b"".join(map(read_part, parts))
                if connection in self.ends:
                    other, number = self.ends[connection]
                    self.cluster.after(NETWORK_MS, partial(other.receive, number, data))
            case Connect(connection, host, port):
                self.cluster.after(NETWORK_MS, partial(self.connect, connection, host, port))
            case Close(connection):
                self.drop(connection)
            case PutBack(connection, frames):
                self.cluster.after(0, partial(self.give, "receive", connection, [memoryview(bytes(f)) for f in frames]))
            case Sync(token, files):
                self.cluster.after(DISK_MS, partial(self.sync, token, files))
            case SyncFolders():
                self.cluster.after(DISK_MS, partial(self.sync_folders, effect))
            case Replace(token, path, content):
                self.cluster.after(DISK_MS, partial(self.replace, token, path, content))
            case Examine(token, stretch):
                self.cluster.after(DISK_MS, lambda: self.give("examined", token, examine(stretch)))
            case Compute(token, _, function, arguments):
                self.cluster.after(0, lambda: self.give("computed", token, carried_out(function, arguments)))
            case Event():
                self.events.append(effect)
                self.cluster.history.append((self.cluster.now.mono, self.number, effect.kind, dict(effect.fields)))
            case Stop(reason):
                self.stopped = reason
                self.end()

    def sync(self, token, files):
        if self.alive:
            for file in files:
                file.sync()
            self.give("synced", token)

    def sync_folders(self, effect):
        if self.alive:
            sync_folders(self.disk, effect)
            self.give("synced", effect.token)

    def replace(self, token, path, content):
        if self.alive:
            self.disk.replace(path, content)
            self.give("synced", token)

    def connect(self, connection, host, port):
        other = self.cluster.processes.get(int(host.removeprefix("host-")))
        if not self.alive:
            return
        if other is None or not other.alive:
            self.give("connect_failed", connection, REFUSED)
            return
        other.inbound += 1
        self.ends[connection] = (other, other.inbound)
        other.ends[other.inbound] = (self, connection)
        listener = next(name for name, number in PORTS.items() if number == port)
        other.give("connected", other.inbound, listener, f"host-{self.number}", "User:ANONYMOUS")
        self.give("connected", connection, "", host, "")

    def receive(self, connection, data):
        if connection not in self.ends:
            return
        frames = deque()
        position = 0
        while position < len(data):
            size = int.from_bytes(data[position : position + 4])
            frames.append(memoryview(data[position + 4 : position + 4 + size]))
            position += 4 + size
        self.give("receive", connection, list(frames))

    def drop(self, connection):
        """Close the connection: the other end notices."""
        found = self.ends.pop(connection, None)
        if found is not None:
            other, number = found
            self.cluster.after(NETWORK_MS, partial(other.broken, number))

    def broken(self, connection):
        if self.ends.pop(connection, None) is not None:
            self.give("disconnected", connection)

    def end(self):
        self.alive = False
        for connection in list(self.ends):
            self.drop(connection)


class QuorumCluster:
    """`size` brokers, of which the first `voters` vote, by default all. The others know one bootstrap server only.
    `only_controllers` are no brokers. `setup` has fields of their `QuorumSetup`."""

    process = Process
    most_spins = 2_000
    bootstrap_only: ClassVar = {
        "voters": VoterSet(directories=False),
        "endpoints": {},
        "bootstrap": (Endpoint("CONTROLLER", "", "host-0", PORTS["CONTROLLER"]),),
    }

    def __init__(self, size=3, seed=1, setup=None, voters=None, only_controllers=(), **options):
        self.size = size
        self.only_controllers = only_controllers
        self.voters = size if voters is None else voters
        self.setup = setup or {}
        self.random = Random(seed)
        self.options = {name.replace("_", "."): str(value) for name, value in options.items()}
        self.disks = {number: SimDisk([FOLDER], Random(seed + number)) for number in range(size)}
        self.directories = {number: directory(number) for number in range(size)}
        self.processes = {}
        self.history = []
        self._events = []
        self._count = 0
        self._mono = self._spins = 0

    @property
    def now(self):
        return Time(self._mono, WALL + self._mono)

    def after(self, delay_ms, action):
        self._count += 1
        heappush(self._events, (self._mono + delay_ms, self._count, action))

    def start(self, *numbers):
        for number in numbers or range(self.size):
            process = self.processes[number] = self.process(self, number, self.disks[number])
            process.give("start")
        return self

    def kill(self, number):
        """SIGKILL: what was written to files stays."""
        self.processes.pop(number).end()

    def replace_disk(self, number):
        """An empty disk, with an ID of its own."""
        self.directories[number] = directory(number + 100)
        self.disks[number] = SimDisk([FOLDER], Random(number))

    def run(self, ms):
        until = self._mono + ms
        while self._events and self._events[0][0] <= until:
            self._next()
        self._mono = until

    def _next(self):
        before = self._mono
        self._mono, _, action = heappop(self._events)
        self._spins = 0 if self._mono > before else self._spins + 1
        assert self._spins < self.most_spins, "time stands still: a node wakes again and again"
        action()

    def wait(self, condition, within_ms=10_000):
        """Let time pass until it holds; returns how many milliseconds that took."""
        begin = self._mono
        while not condition():
            assert self._events, "nothing happens any more"
            assert self._mono < begin + within_ms, "\n".join(map(str, self.history[-40:]))
            self._next()
        return self._mono - begin

    # what the nodes know

    @property
    def nodes(self):
        return {number: process.node for number, process in self.processes.items() if process.alive}

    def controller(self):
        """The number of the broker that leads and is known to all as the controller, or None."""
        leading = [number for number, node in self.nodes.items() if node.broker.controller.leading]
        known = {node.broker.controller.leader_id for node in self.nodes.values()}
        return leading[0] if len(leading) == 1 and known == set(leading) else None

    def is_settled(self):
        """Whether all brokers are registered, and the controller has told each of them so."""
        brokers = {number: node for number, node in self.nodes.items() if number not in self.only_controllers}
        return self.controller() is not None and all(
            node.broker.broker_epoch >= 0 and set(node.broker.image.brokers) == set(brokers)
            for node in brokers.values()
        )

    def settle(self, within_ms=20_000):
        return self.wait(self.is_settled, within_ms)

    def tree(self, number):
        return self.nodes[number].quorum.local.tree

    def submit(self, number, *operations):
        """Submit to the store of a node; the list gets the result."""
        results = []
        process = self.processes[number]
        node = process.node

        def act(now):
            node._at(now)
            node.store.submit(operations, results.append)
            return node._finish()

        node.test_input = act
        process.give("test_input")
        return results
