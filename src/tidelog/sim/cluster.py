"""A simulated cluster: real `Node`s in a world, with the checks and clients that runs, tests and the lab start from."""

from collections.abc import Callable, Mapping

from tidelog.client.options import ConsumerOptions, ProducerOptions
from tidelog.config.broker import BrokerConfig
from tidelog.controller import tree
from tidelog.controller.commands.elections import UNCLEAN
from tidelog.controller.features import founding
from tidelog.controller.image import ClusterImage
from tidelog.model import Endpoint, TopicPartition
from tidelog.node.node import Node
from tidelog.node.quorum.setup import QuorumSetup
from tidelog.partition.truncation import KIP_320, Generation
from tidelog.ports import Create
from tidelog.quorum.voters import ReplicaKey, VoterSet
from tidelog.sim.checks.coordinators import CoordinatorLoads
from tidelog.sim.checks.replica import Replica
from tidelog.sim.checks.suite import Suite, partitions_of
from tidelog.sim.clients.admin import Admin
from tidelog.sim.clients.commits import Commits
from tidelog.sim.clients.producer import Pace, Producer
from tidelog.sim.clients.reader import Reader
from tidelog.sim.clients.seen_records import SeenRecords
from tidelog.sim.faults import SECOND, Faults
from tidelog.sim.host import Host
from tidelog.sim.world import (
    BROKER_PORT,
    CLIENT_LISTENER,
    CLIENT_PORT,
    CONTROLLER_LISTENER,
    CONTROLLER_PORT,
    ROOT,
    World,
)

CLUSTER_ID = "simulated-cluster-0001"
PROPERTIES = {
    "log.dirs": ROOT,
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
    "replica.lag.time.max.ms": "4000",
    "auto.create.topics.enable": "false",
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "300",
}


class Cluster:
    """`properties` are brokers' options beyond those of every simulated broker; `factor` is the default replication
    factor; `elr`: the cluster keeps eligible leader replicas (KIP-966); the first `voters` brokers are the voters of a
    metadata quorum, without any the metadata is in a store outside. Static voters are known by their IDs only
    (kraft.version 0).
    """

    def __init__(
        self,
        seed: int,
        *,
        brokers: int = 3,
        properties: dict[str, str] | None = None,
        faults: Faults | None = None,
        generation: Generation = KIP_320,
        factor: int = 3,
        elr: bool = False,
        voters: int = 0,
        has_static_voters: bool = False,
    ) -> None:
        self.properties = {**PROPERTIES, **(properties or {})}
        self.generation = generation
        self.factor = factor
        self.elr = elr
        self.voters = voters
        self.has_static_voters = has_static_voters
        self.folders = self.properties["log.dirs"].split(",")
        self.world = World(seed, self.node_of, brokers=brokers, faults=faults, folders=self.folders, quorum=voters > 0)
        self._directories = {
            host.broker_id: host.disk.directory_id(self.folders[0]) for host in self.world.hosts[:voters]
        }
        if elr and not voters:
            self.world.tree.change(founding(BrokerConfig({**self.properties, "node.id": "0"})), 0)
        self.suite = Suite()
        self.world.observers += [self.suite, CoordinatorLoads()]
        self.seen_records = SeenRecords(self.suite)
        self.commits = Commits(self.suite.ghosts)
        self.admin = Admin(self.world, "admin")
        self._behind: TopicPartition | None = None
        """The partition that had not converged at the last call."""
        self.producers: list[Producer] = []
        self.readers: list[Reader] = []

    def __repr__(self) -> str:
        return f"Cluster({self.world!r})"

    def node_of(self, host: Host) -> Node:
        quorum = self._quorum_of(host) if self.voters else None
        return build_node(host, self.properties, self.generation, has_features=self.elr, quorum=quorum)

    def _voter_set(self) -> VoterSet:
        if self.has_static_voters:
            return VoterSet(map(ReplicaKey, self._directories), directories=False)
        return VoterSet(ReplicaKey(number, directory) for number, directory in self._directories.items())

    def _quorum_of(self, host: Host) -> QuorumSetup:
        """A voter whose disk is replaced has another directory and does not vote any more."""
        folder = self.folders[0]
        names = {number: self.world.hosts[number].name for number in self._directories}
        properties = {**self.properties, "node.id": str(host.broker_id)}
        return QuorumSetup(
            CLUSTER_ID,
            f"{folder}/__cluster_metadata-0",
            host.disk.directory_id(folder),
            self._voter_set(),
            {
                number: Endpoint(CONTROLLER_LISTENER, "PLAINTEXT", name, CONTROLLER_PORT)
                for number, name in names.items()
            },
            listeners=frozenset({CONTROLLER_LISTENER}) if host.broker_id in names else frozenset(),
            founding=[
                Create(tree.CLUSTER_ID, tree.format_cluster_id(CLUSTER_ID)),
                *(founding(BrokerConfig(properties)) if self.elr else ()),
            ],
            session_timeout_ms=self.world.faults.session_term // 1000,
        )

    # Start.

    def start(self) -> None:
        self.world.start()
        self.expect(lambda: len(self.suite.ghosts.epochs) == len(self.world.hosts), 20, "all brokers register")

    def create(self, topic: str, partitions: int = 1, replicas: int | None = None, **configs: str) -> None:
        options = {name.replace("_", "."): value for name, value in configs.items()}
        factor = self.factor if replicas is None else replicas
        self.world.after(0, lambda: self.admin.create(topic, partitions, factor, options))
        self.expect(lambda: topic in self.admin.created, 30, f"{topic} is created")

    def produce(
        self,
        *partitions: TopicPartition,
        pace: Pace | None = None,
        options: ProducerOptions | None = None,
    ) -> Producer:
        """Start a producer to these partitions, by default with acks=all and idempotence."""
        name = f"producer-{len(self.producers)}"
        producer = Producer(self.world, self.seen_records, name, partitions, options=options, pace=pace)
        self.attend(producer)
        return producer

    def attend(self, producer: Producer) -> None:
        """Start a producer; at the end everything that it sent must be answered."""
        self.producers.append(producer)
        producer.process.after(0, producer.start)

    def consume(self, *partitions: TopicPartition, options: ConsumerOptions | None = None) -> Reader:
        """Start a reader of these partitions, from their first records on."""
        name = f"reader-{len(self.readers)}"
        reader = Reader(self.world, self.seen_records, name, partitions, options=options)
        self.readers.append(reader)
        reader.process.after(0, reader.start)
        return reader

    # Queries.

    def leader(self, name: TopicPartition) -> Host | None:
        state = self.suite.ghosts.states.get(name)
        return self.world.hosts[state.leader] if state is not None and state.leader >= 0 else None

    @property
    def controller(self) -> Host | None:
        node = self.world.tree.nodes.get(tree.CONTROLLER)
        return self.world.hosts[tree.parse_controller(node.data)] if node is not None else None

    def replicas(self, name: TopicPartition) -> list[Replica]:
        return [replica for (_, held), replica in sorted(self.suite.replicas.items()) if held == name]

    def run(self, seconds: float) -> None:
        self.world.run(int(seconds * SECOND))

    def expect(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Let time pass until the condition holds; otherwise raise a violation of liveness."""
        if not self.world.run(int(seconds * SECOND), condition):
            raise self.world.violation(f"liveness: within {seconds} s {what}")

    # The end.

    def heal(self) -> None:
        """Begin the liveness phase: no more faults, and every broker runs."""
        world = self.world
        world.faults.calm()
        world.network.heal()
        for host in world.hosts:
            host.mend()
            if host.disk.away and host.life is not None:
                world.kill(host)  # it restarts with all of its log directories
            host.disk.mount()
            if host.life is None:
                host.start()
            elif host.life.paused:
                world.resume(host)

    def settle(self, seconds: float = 120) -> None:
        """Wait until everything sent is answered, every replica is in sync and complete, and every reader is at the
        end.
        """
        for producer in self.producers:
            producer.stopped = True
        if not self.world.run(int(seconds * SECOND), self.all_is_answered) and not self.forsaken():
            self.expect(self.all_is_answered, 0, "every produce is answered")
        if not self.world.run(int(seconds * SECOND), self.is_converged):
            self.elect_forsaken()
        self.expect(self.all_is_answered, seconds, "every produce is answered")
        self.expect(self.is_converged, seconds, "ISR = AR, HW = LEO on every replica, none of a deleted topic")
        self.expect(self.is_known, seconds, "every broker reports the current brokers, topics and leaders")
        self.expect(self.all_is_read, seconds, "every reader reaches the end")
        self.suite.scan(self.world)
        for reader in self.readers:
            for name in reader.positions:
                self.seen_records.check(name, self.suite.ghosts.of(name).true_high_watermark)

    def relieve(self, seconds: float = 30) -> None:
        """Look for partitions that wait for lost log directories, as an operator does, and elect unclean leaders for
        them.
        """
        replaced = any(host.disk.replaced for host in self.world.hosts)
        if (replaced or len(self.folders) > 1) and not self.world.run(int(seconds * SECOND), self.is_led):
            self.elect_forsaken()

    def elect_forsaken(self) -> None:
        """Request unclean elections for partitions that wait for an operator."""
        if forsaken := self.forsaken():
            self.admin.elect(UNCLEAN, forsaken, lambda _: None)

    def is_led(self) -> bool:
        """Whether every partition has a leader that lives and counts."""
        ghosts = self.suite.ghosts
        return all(ghosts.in_sync(name, state.leader) for name, state in ghosts.states.items())

    def all_is_answered(self) -> bool:
        return all(producer.idle for producer in self.producers)

    def forsaken(self) -> list[TopicPartition]:
        """Return partitions without a leader whose in-sync replicas all lack log directories that they had: they wait
        for an operator.
        """
        ghosts = self.suite.ghosts
        return [
            name
            for name, state in ghosts.states.items()
            if state.leader < 0
            and not any(
                broker in ghosts.epochs and ghosts.holds(broker, ghosts.epochs[broker], recorded)
                for broker, recorded in state.recorded.items()
            )
        ]

    def is_converged(self) -> bool:
        """Whether all partitions have converged.

        This is called after every step; a partition that was behind at the last call is nearly always still behind.
        """
        if self._behind is not None and self._is_behind(self._behind):
            return False
        ghosts = self.suite.ghosts
        self._behind = next(filter(self._is_behind, ghosts.assignments), None)
        # A replica whose topic was deleted while its broker was down is kept, as Kafka keeps stray replicas, but serves
        # nobody.
        return self._behind is None and all(
            partition.role is None or partition.log.topic_id == ghosts.topic_ids.get(partition.name.topic)
            for host in self.world.hosts
            for partition in partitions_of(host)
        )

    def _is_behind(self, name: TopicPartition) -> bool:
        """Whether the partition exists, and not every assigned replica is in sync and complete."""
        ghosts = self.suite.ghosts
        assigned, state = ghosts.assignments.get(name), ghosts.states.get(name)
        if assigned is None:
            return False
        if state is None or sorted(state.isr) != sorted(assigned) or state.leader < 0:
            return True
        found = self.suite.of(name)
        marks = {(r.state.high_watermark, r.state.end, r.state.epoch) for r in found if r.state is not None}
        return len(found) != len(assigned) or len(marks) != 1 or len({*next(iter(marks))[:2]}) != 1

    def is_known(self) -> bool:
        """Whether the metadata that brokers report equals the tree."""
        ghosts = self.suite.ghosts
        states = {name: (state.leader, state.leader_epoch, *state.isr) for name, state in ghosts.states.items()}
        nodes = [host.node for host in self.world.hosts]
        return all(
            isinstance(node, Node)
            and node.broker.image.brokers.keys() == ghosts.epochs.keys()
            and pictured(node.broker.image) == states
            for node in nodes
        )

    def is_in_sync(self) -> bool:
        """Whether every assigned replica is in its ISR."""
        ghosts = self.suite.ghosts
        return all(sorted(ghosts.states[name].isr) == sorted(all_) for name, all_ in ghosts.assignments.items())

    def all_is_read(self) -> bool:
        ghosts = [(reader, name, self.suite.ghosts.of(name)) for reader in self.readers for name in reader.positions]
        return all(
            ghost.loss_allowed or reader.has_read(name, ghost.true_high_watermark) for reader, name, ghost in ghosts
        )


def pictured(image: ClusterImage) -> dict[TopicPartition, tuple[int, ...]]:
    """Return (leader, its epoch, ISR) of every partition, as a broker reports it."""
    return {
        TopicPartition(topic.name, number): (partition.leader, partition.leader_epoch, *partition.isr)
        for topic in image.topics.values()
        for number, partition in topic.partitions.items()
    }


def build_node(
    host: Host,
    properties: Mapping[str, str],
    generation: Generation,
    *,
    has_features: bool = False,
    quorum: QuorumSetup | None = None,
) -> Node:
    """Build the broker of a simulated machine: its own options over those of the cluster."""
    own = {
        "node.id": str(host.broker_id),
        "log.dirs": ",".join(host.disk.mounted),
        "listeners": f"{CLIENT_LISTENER}://{host.name}:{CLIENT_PORT},REPLICATION://{host.name}:{BROKER_PORT}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT",
        "inter.broker.listener.name": "REPLICATION",
        "broker.session.timeout.ms": str(host.world.faults.session_term // 1000),
    }
    if host.rack:
        own["broker.rack"] = host.rack
    config = BrokerConfig({**properties, **own})
    return Node(
        config,
        host.disk,
        [endpoint for endpoint in host.endpoints if endpoint.listener != CONTROLLER_LISTENER],
        entropy=host.random.randbytes,
        generation=generation,
        directories={folder: host.disk.directory_id(folder) for folder in config.folders},
        has_features=has_features,
        quorum=quorum,
    )
