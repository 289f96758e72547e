"""The controller dies at each step of what it is asked to do: it ends right all the same, and nothing is left behind.

Method: a cluster without other faults is asked for one thing. The k-th change of the metadata tree since then is the
last that the controller makes: it dies before it hears of it, or a little later, when some brokers have been told. For
each k, until the thing is done in fewer steps. Another broker takes over; the asker asks again; the dead one returns.
"""

from itertools import count

import pytest

from tidelog.controller import tree
from tidelog.effects import CONTROLLER
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import MILLI, SECOND
from tidelog.wire.messages.topics.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.topics.topic_changes import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

TOPIC = "t"
PARTITIONS = 2
MOST_STEPS = 60


class Death:
    """A `world.Observer`: the controller dies `delay` after the change number `at`, from when it is armed."""

    def __init__(self, cluster, at, delay):
        self.cluster, self.at, self.delay = cluster, at, delay
        self.seen = 0
        self.has_struck = False

    def tree_changed(self, world):
        self.seen += 1
        if self.seen == self.at:
            self.has_struck = True
            world.after(self.delay, self.strike)

    def strike(self):
        host = self.cluster.controller
        if host is not None and host.running:
            self.cluster.world.kill(host)
            self.cluster.world.after(SECOND, host.start)

    def stepped(self, world, host):
        """Only the tree counts."""

    def happened(self, world, host, event):
        """Only the tree counts."""

    def ended(self, world, host, how):
        """Only the tree counts."""


class Command:
    """What is asked for, again and again until the answer is one of `ENDS`, and whether it is there."""

    ENDS = frozenset({ErrorCode.NONE})

    def __init__(self, cluster):
        self.cluster = cluster
        self.ghosts = cluster.suite.ghosts
        self.is_answered = False

    def prepare(self):
        """What must be there before."""
        self.cluster.create(TOPIC, PARTITIONS, replicas=3)
        for number in range(PARTITIONS):
            self.cluster.produce(TopicPartition(TOPIC, number))
        self.cluster.run(0.5)

    def ask(self):
        self.cluster.admin.ask(self.request(), CONTROLLER, self.answered)

    def answered(self, response):
        code = ErrorCode.NETWORK_EXCEPTION if response is None else ErrorCode(self.code_in(response))
        if code in self.ENDS:
            self.is_answered = True
        else:
            self.cluster.admin.process.after(200 * MILLI, self.ask)

    def partitions(self):
        return {name: replicas for name, replicas in self.ghosts.assignments.items() if name.topic == TOPIC}


class Create(Command):
    ENDS = frozenset({ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS})

    def prepare(self):
        """Nothing."""

    def request(self):
        wish = CreatableTopic(name=TOPIC, num_partitions=3, replication_factor=3)
        return CreateTopicsRequest(topics=[wish], timeout_ms=2_000)

    def code_in(self, response):
        return response.topics[0].error_code

    def is_there(self):
        return len(self.partitions()) == 3


class Delete(Command):
    ENDS = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})

    def prepare(self):
        self.cluster.seen_records.free.add(TOPIC)
        self.cluster.create(TOPIC, PARTITIONS, replicas=3, retention_ms="100000")

    def request(self):
        return DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=2_000)

    def code_in(self, response):
        return response.responses[0].error_code

    def is_there(self):
        nodes = [path for path in self.cluster.world.tree.nodes if path.endswith(f"/{TOPIC}")]
        folders = [path for host in self.cluster.world.hosts for path in host.disk.names if f"/{TOPIC}-" in path]
        return not nodes and not [path for path in folders if "-delete" not in path] and not self.partitions()


class Grow(Command):
    ENDS = frozenset({ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS})

    def request(self):
        return CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=TOPIC, count=4, assignments=None)], timeout_ms=2_000
        )

    def code_in(self, response):
        return response.results[0].error_code

    def is_there(self):
        return len(self.partitions()) == 4


class Reassign(Command):
    """One replica of each partition goes to the broker that has none, and another one changes its place."""

    def prepare(self):
        super().prepare()
        everybody = {host.broker_id for host in self.cluster.world.hosts}
        self.wanted = {
            name: [*sorted(everybody - set(replicas)), *reversed(replicas[1:])]
            for name, replicas in self.partitions().items()
        }

    def request(self):
        proposals = [
            ReassignablePartition(partition_index=name.partition, replicas=replicas)
            for name, replicas in self.wanted.items()
        ]
        topics = [ReassignableTopic(name=TOPIC, partitions=proposals)]
        return AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=2_000)

    def code_in(self, response):
        codes = [part.error_code for topic in response.responses for part in topic.partitions]
        return response.error_code or next(filter(None, codes), 0)

    def is_there(self):
        moved = all(list(replicas) == self.wanted[name] for name, replicas in self.partitions().items())
        busy = any(adding or removing for adding, removing in self.ghosts.reassigning.values())
        return moved and not busy and all(self.held(host) == self.assigned(host) for host in self.cluster.world.hosts)

    def held(self, host):
        names = (path.removeprefix("/data/").partition("/")[0] for path in host.disk.names if f"/{TOPIC}-" in path)
        return {name for name in names if "-delete" not in name}

    def assigned(self, host):
        return {str(name) for name, replicas in self.partitions().items() if host.broker_id in replicas}


class Elect(Command):
    """Leaderships go back to where they belong."""

    ENDS = frozenset({ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED})

    def prepare(self):
        super().prepare()
        cluster = self.cluster
        host = cluster.leader(TopicPartition(TOPIC, 0))
        cluster.world.kill(host)
        cluster.run(0.5)
        host.start()
        cluster.expect(cluster.is_in_sync, 30, "all are in sync again")
        assert not self.is_there()

    def request(self):
        return ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=2_000)

    def code_in(self, response):
        codes = [part.error_code for topic in response.replica_election_results for part in topic.partition_result]
        others = set(codes) - {0, ErrorCode.ELECTION_NOT_NEEDED}
        return response.error_code or next(iter(others), 0)

    def is_there(self):
        return all(self.ghosts.states[name].leader == replicas[0] for name, replicas in self.partitions().items())


def carry_out(kind, at, delay):
    """Whether the controller died on the way."""
    cluster = Cluster(at, brokers=4, properties={"file.delete.delay.ms": "0", "auto.leader.rebalance.enable": "false"})
    cluster.start()
    command = kind(cluster)
    command.prepare()
    death = Death(cluster, at, delay)
    cluster.world.observers.append(death)
    command.ask()
    cluster.expect(lambda: command.is_answered, 60, f"{kind.__name__} is answered")
    cluster.expect(command.is_there, 60, f"{kind.__name__} is done")
    death.at = -1
    cluster.run(2)
    cluster.heal()
    cluster.settle()
    assert command.is_there()
    leftovers = [tree.DELETE_TOPICS, tree.REASSIGN_PARTITIONS]
    assert not [path for path in cluster.world.tree.nodes if path.startswith(f"{tree.DELETE_TOPICS}/")], leftovers
    assert tree.REASSIGN_PARTITIONS not in cluster.world.tree.nodes
    return death.has_struck


@pytest.mark.parametrize("delay", [0, 3 * MILLI], ids=["before it knows", "when some were told"])
@pytest.mark.parametrize("kind", [Create, Delete, Grow, Reassign, Elect])
def test_the_controller_dies_at_each_step(kind, delay):
    for at in count(1):
        if not carry_out(kind, at, delay):
            assert at > 1, "it changes nothing"
            break
        assert at < MOST_STEPS
