"""The stage of a story: real brokers on simulated machines, by the names the story gives them.

Beside the story's brokers stands one more, `controller`: it leads the cluster and holds no replica of the story's
topic, so that a story may do with the others as it likes. Nothing here is left to chance: messages take the same time,
a power loss keeps exactly what was synced.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from tidelog.config.broker import BrokerConfig
from tidelog.controller import tree
from tidelog.controller.features import founding
from tidelog.effects import Event
from tidelog.lab.post import OnMessage, Post
from tidelog.lab.requests import PendingRequest, StoryClient
from tidelog.model import TopicPartition
from tidelog.node.node import Node
from tidelog.partition.partition import Partition
from tidelog.partition.truncation import Generation
from tidelog.sim.cluster import build_node
from tidelog.sim.faults import SECOND, Faults
from tidelog.sim.host import Host
from tidelog.sim.network import Weather
from tidelog.sim.world import CLIENT_PORT, ROOT, World

CONTROLLER = "controller"
PROPERTIES = {
    "log.dirs": ROOT,
    "min.insync.replicas": "1",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "replica.fetch.wait.max.ms": "100",
    "replica.lag.time.max.ms": "30000",
}
"""Kafka's defaults, except for internal topics (one replica, one partition) and `replica.fetch.wait.max.ms`: a fetch
that finds nothing is answered after 100 ms.
"""

TURN = SECOND // 5
"""How long the world continues after a command."""
PATIENCE = 20 * SECOND


class OnlyWhatWasSynced(Random):
    """What a disk draws at a power loss, without randomness: nothing survives that was not synced."""

    def random(self) -> float:
        return 1 - 2**-53

    def choice(self, seq: Any) -> Any:
        return seq[0]


def weather() -> Faults:
    calm = Weather(delay=(300, 300), split_chance=0, reset_on_heal=0)
    pace = (500, 500)
    return Faults(
        weather=calm, sync_delay=pace, examine_delay=(0, 0), store_delay=pace, event_delay=pace, expiry_notice=pace
    )


class Stage:
    """Calls `happened(host, event)` for every event of a node, and `on_message` for every message. `has_elr`: the
    cluster keeps eligible leader replicas (KIP-966)."""

    def __init__(
        self,
        names: Sequence[str],
        options: Mapping[str, str],
        generation: Generation,
        *,
        has_elr: bool = False,
        happened: Callable[[str, Event], None],
        on_message: OnMessage,
    ) -> None:
        self.options = {**PROPERTIES, **options}
        self.generation = generation
        self.has_elr = has_elr
        self.world = World(0, self._node, brokers=len(names) + 1, faults=weather())
        if has_elr:
            self.world.tree.change(founding(BrokerConfig({**self.options, "node.id": "0"})), 0)
        self.post = Post(self.world, self.world.faults.weather, on_message)
        self.world.network = self.post
        self.world.observers.append(self)
        self.hosts = dict(zip((CONTROLLER, *names), self.world.hosts, strict=True))
        self.names = {host.broker_id: name for name, host in self.hosts.items()}
        self.brokers = list(names)
        self._happened = happened
        for host in self.world.hosts:
            host.disk.random = OnlyWhatWasSynced(0)

    def __repr__(self) -> str:
        return f"Stage({', '.join(self.hosts)}, {self.world!r})"

    def _node(self, host: Host) -> Node:
        return build_node(host, self.options, self.generation, has_features=self.has_elr)

    # Time.

    def run(self, micros: int = TURN) -> None:
        self.world.run(micros)

    def until(self, condition: Callable[[], bool], micros: int = PATIENCE) -> bool:
        """Let time pass until the condition holds; return whether it does."""
        return self.world.run(micros, condition)

    def open(self) -> None:
        """Start the controller, then the others in their order."""
        for name, host in self.hosts.items():
            host.start()
            registration = tree.broker_path(host.broker_id)
            assert self.until(lambda path=registration: path in self.world.tree.nodes), name  # type: ignore[misc]
            self.run()
        assert self.controller == CONTROLLER

    # Looking.

    @property
    def controller(self) -> str:
        node = self.world.tree.nodes.get(tree.CONTROLLER)
        return self.names[tree.parse_controller(node.data)] if node is not None else ""

    def name_of(self, party: str) -> str:
        """Return a broker's name in the story, from its name on the network."""
        number = party.removeprefix("broker-")
        return self.names[int(number)] if number.isdecimal() else party

    def state(self, name: TopicPartition) -> tree.LeadershipState | None:
        """Return the partition's state as the controller has written it."""
        node = self.world.tree.nodes.get(tree.state_path(*name))
        return tree.parse_state(node.data) if node is not None else None

    def leader(self, name: TopicPartition) -> str:
        state = self.state(name)
        return self.names[state.leader] if state is not None and state.leader >= 0 else ""

    def partition(self, broker: str, name: TopicPartition) -> Partition | None:
        """Return the replica of a running broker."""
        node = self.hosts[broker].node
        return node.replicas.get(*name) if isinstance(node, Node) else None

    # Doing.

    def ask(self, client: StoryClient, broker: str, key: int, request: Any) -> PendingRequest:
        return client.ask(self.hosts[broker].name, CLIENT_PORT, key, request)

    @contextmanager
    def controller_paused(self) -> Iterator[None]:
        """Pause the controller: it notices everything that happens meanwhile at once."""
        controller = self.hosts[CONTROLLER]
        assert controller.life is not None
        controller.life.pause()
        yield
        self.world.resume(controller)

    def bounce(self, broker: str, *, power: bool = False) -> None:
        """Kill the process, or cut its machine's power, and restart it before the controller notices."""
        host = self.hosts[broker]
        registration = tree.broker_path(host.broker_id)
        with self.controller_paused():
            old = self.world.tree.nodes[registration].created
            (self.world.lose_power if power else self.world.kill)(host)
            self.run()
            host.start()
            nodes = self.world.tree.nodes
            self.until(lambda: registration in nodes and nodes[registration].created != old)

    def write_back(self, broker: str) -> None:
        """Write dirty data to the disk, as the operating system does every few seconds."""
        disk = self.hosts[broker].disk
        for inode in disk.names.values():
            if inode is not None:
                inode.sync()
        disk.durable = dict(disk.names)
        disk.pending = []

    # sim.world.Observer.

    def happened(self, world: World, host: Host, event: Event) -> None:
        self._happened(self.names[host.broker_id], event)

    def stepped(self, world: World, host: Host) -> None:
        """Views are taken when a step of the story is over."""

    def ended(self, world: World, host: Host, how: str) -> None:
        """Only the story ends brokers."""

    def tree_changed(self, world: World) -> None:
        """The controller's events report elections."""
