"""What the controller told a broker arrives again after its connection broke, when the topic was created anew under its
name: it is about the topic before."""

import pytest

from tidelog.effects import CONTROLLER
from tidelog.model import TopicPartition
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import SECOND
from tidelog.wire.messages.topics.topic_changes import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

NAME = TopicPartition("t", 0)
LATE = 12


class Story:
    """Four brokers: the controller, and three that hold t-0; the first of them leads."""

    def __init__(self):
        self.cluster = Cluster(5, brokers=4, properties={"leader.imbalance.check.interval.seconds": "300"})
        self.cluster.start()
        self.controller = self.cluster.controller
        self.leader, self.second, self.third = (h for h in self.cluster.world.hosts if h is not self.controller)
        self.create()

    def create(self):
        brokers = [host.broker_id for host in (self.leader, self.second, self.third)]
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=brokers)
        wish = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=[assignment])
        answers = []
        self.ask(CreateTopicsRequest(topics=[wish], timeout_ms=1000), answers)
        self.cluster.expect(lambda: bool(answers), 20, "created")
        assert answers[0].topics[0].error_code == 0

    def delete(self):
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], topic_names=["t"], timeout_ms=1000)
        self.ask(request, [])

    def ask(self, request, answers):
        self.cluster.world.after(0, lambda: self.cluster.admin.ask(request, CONTROLLER, answers.append))

    def gone(self):
        self.cluster.expect(lambda: "t" not in self.cluster.suite.ghosts.topic_ids, 20, "t is gone")

    def next_push_is_late(self, kind):
        """The next push of this kind to the leader is held; the controller gives its connection up and goes on."""
        network, queues = self.cluster.world.network, self.controller.node.broker.controller.active.term.pushes.queues
        queue = queues[self.leader.broker_id]
        self.cluster.expect(lambda: queue.flight is not None and queue.flight.kind == kind, 10, f"{kind} are told")
        way = self.controller.name, self.leader.name
        network.block(*way)
        self.cluster.run(1)
        network.abandon(*way, LATE * SECOND)

    def holds(self, acked):
        partition = self.leader.node.replicas.get(*NAME)
        return partition is not None and partition.log.log_end_offset >= acked

    def goes_on(self):
        """Records are acknowledged; then what is late arrives, and another controller tells everybody its role."""
        producer = self.cluster.produce(NAME)
        self.cluster.run(3)
        producer.stopped = True
        self.cluster.expect(lambda: producer.idle, 20, "all is answered")
        assert producer.acked > 0
        self.cluster.run(LATE)
        assert self.holds(producer.acked)
        self.cluster.world.kill(self.controller)
        self.cluster.run(15)
        assert self.holds(producer.acked)


@pytest.fixture
def story():
    return Story()


def test_a_late_deletion_leaves_the_next_topic_alone(story):
    story.delete()
    story.next_push_is_late("deletions")
    story.gone()
    story.create()
    story.goes_on()


def test_late_roles_leave_the_next_topic_alone(story):
    story.cluster.world.kill(story.third)  # its death is told to the replicas
    story.next_push_is_late("roles")
    story.third.start()
    story.cluster.run(2)
    story.delete()
    story.gone()
    story.create()
    story.goes_on()
