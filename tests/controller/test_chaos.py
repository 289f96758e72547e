"""Random lives of a cluster: kills, clean and unclean restarts, lost sessions and answers, failovers, moves, options
and AlterPartitions at any moment.

The ghost checks I13, I14 and I17 at every write; at the end, with all brokers back, every partition has a leader, all
brokers have the same picture, and the controller's image equals the tree.
"""

import random

import pytest

from tests.controller.fake_cluster import FakeCluster
from tidelog.client.admin import alter_configs_request
from tidelog.config.alter import BROKER, TOPIC
from tidelog.controller import tree
from tidelog.wire.messages.cluster.alter_partition import AlterPartitionRequest
from tidelog.wire.messages.cluster.brokers import ControlledShutdownRequest
from tidelog.wire.messages.topics.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.topics.topic_changes import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

WITH_ELR = 25
"""From this seed on the cluster keeps eligible leader replicas."""


class Chaos:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.cluster = FakeCluster(4, elr=seed >= WITH_ELR, min_insync_replicas=2).start()
        self.names = 0

    def controllers(self):
        return [b for b in self.cluster.brokers.values() if b.alive and b.controller.leading]

    def act(self):
        act = self.random.choices(
            [
                self.step,
                self.kill,
                self.start,
                self.create,
                self.delete,
                self.alter,
                self.lose,
                self.leave,
                self.prefer,
                self.move,
                self.blip,
                self.configure,
            ],
            [60, 2, 4, 2, 1, 8, 3, 1, 1, 3, 1, 1],
        )[0]
        act()

    def step(self):
        for _ in range(self.random.randrange(1, 8)):
            self.cluster.step_any()

    def kill(self):
        broker = self.random.choice(list(self.cluster.brokers.values()))
        if broker.alive:
            broker.kill() if self.random.random() < 0.6 else broker.stop_cleanly()

    def start(self):
        broker = self.random.choice(list(self.cluster.brokers.values()))
        if not broker.alive:
            broker.start()

    def submit(self, request):
        for broker in self.controllers()[:1]:
            broker.run(broker.controller.handle(next(self.cluster.tokens), request, self.cluster.now))

    def create(self):
        self.names += 1
        factor = self.random.randrange(1, 4)
        topic = CreatableTopic(
            name=f"t{self.names}", num_partitions=self.random.randrange(1, 5), replication_factor=factor
        )
        self.submit(CreateTopicsRequest(topics=[topic]))

    def delete(self):
        name = f"t{self.random.randrange(self.names + 1)}"
        self.submit(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=500))

    def alter(self):
        """A leader, by what it knows, proposes some ISR with the epochs it knows."""
        for broker in self.controllers()[:1]:
            known = list(broker.controller.active.term.cluster.partitions())
            if not known:
                return
            partition = self.random.choice(known)
            leader = self.cluster.brokers.get(partition.state.leader)
            if leader is None or not leader.alive:
                return
            followers = [b for b in partition.replicas if b != leader.id and self.random.random() < 0.7]
            members = [(b, self.cluster.brokers[b].epoch) for b in (leader.id, *followers)]
            wish = self.cluster.wish(partition, members)
            request = AlterPartitionRequest(broker_id=leader.id, broker_epoch=leader.epoch, topics=[wish])
            self.submit(request)

    def lose(self):
        self.cluster.outcomes.append(self.random.choice(["lost", "answer lost"]))

    def leave(self):
        broker = self.random.choice(list(self.cluster.brokers.values()))
        self.submit(ControlledShutdownRequest(broker_id=broker.id, broker_epoch=broker.epoch))

    def move(self):
        """Some partition goes elsewhere, or stays after all."""
        for broker in self.controllers()[:1]:
            known = list(broker.controller.active.term.cluster.partitions())
            if not known:
                return
            partition = self.random.choice(known)
            target = self.random.sample(sorted(self.cluster.brokers), self.random.randrange(1, 4))
            wish = ReassignablePartition(
                partition_index=partition.index, replicas=target if self.random.random() < 0.8 else None
            )
            topic = ReassignableTopic(name=partition.topic.name, partitions=[wish])
            self.submit(AlterPartitionReassignmentsRequest(topics=[topic]))

    def blip(self):
        """A broker loses its session, and nothing else."""
        broker = self.random.choice(list(self.cluster.brokers.values()))
        if broker.alive:
            broker.lose_session()

    def configure(self):
        """Some topic, or the cluster, demands more or fewer replicas in sync."""
        topic = f"t{self.random.randrange(self.names + 1)}"
        kind, name = (TOPIC, topic) if self.random.random() < 0.7 else (BROKER, "")
        value = str(self.random.randrange(1, 4))
        self.submit(alter_configs_request(kind, name, [("min.insync.replicas", value)]))

    def prefer(self):
        self.submit(ElectLeadersRequest(election_type=0, topic_partitions=None))


@pytest.mark.parametrize("seed", range(WITH_ELR + 10))
def test_whatever_happens_the_rules_hold_and_the_cluster_heals(seed):
    chaos = Chaos(seed)
    cluster = chaos.cluster
    for _ in range(400):
        chaos.act()
    cluster.outcomes.clear()
    cluster.settle_if_alive()
    leaving = {
        id_ for b in chaos.controllers() for id_, life in b.controller.active.term.cluster.lives.items() if life.leaving
    }
    for broker in cluster.brokers.values():
        if broker.alive and broker.id in leaving:
            broker.stop_cleanly()
        if not broker.alive:
            broker.start()
    cluster.settle(limit=20_000)
    cluster.catch_up()
    cluster.settle(limit=20_000)
    state = cluster.state
    assert sorted(state.lives) == [0, 1, 2, 3]
    for topic in state.topics.values():
        assert not topic.deleted
        assert sorted(topic.partitions) == sorted(topic.assignment.replicas)
        for partition in topic.partitions.values():
            node = cluster.tree.nodes[tree.state_path(*partition.name)]
            assert (tree.parse_state(node.data), node.version) == (partition.state, partition.version)
            assert partition.state.leader != -1
            assert not partition.is_moving
            assert partition.replicas == topic.assignment.replicas[partition.index]
            assert {b.id for b in cluster.brokers.values() if partition.name in b.log_ends} == set(partition.replicas)
            for broker in cluster.brokers.values():
                image = broker.image.partition(*partition.name)
                assert (image.leader, image.partition_epoch) == (partition.state.leader, partition.version)
            for replica in partition.replicas:
                assert cluster.brokers[replica].roles[partition.name][0] == partition.state.leader
    for broker in cluster.brokers.values():
        assert broker.image.topics.keys() == state.topics.keys()
        held = {key for key in broker.roles if key[0] not in state.topics}
        assert held == set()
