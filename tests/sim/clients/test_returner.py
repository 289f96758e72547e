"""A consumer that asks for its positions by the topic's name, while the topic is deleted and comes back."""

from random import Random

import pytest

from tidelog.effects import CONTROLLER
from tidelog.sim.clients.commits import GROUPS
from tidelog.sim.clients.returner import Returner
from tidelog.sim.cluster import Cluster
from tidelog.sim.mutants.catalogue import applied, find
from tidelog.sim.world import Violation
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from tidelog.wire.messages.topics.topic_changes import DeleteTopicsRequest, DeleteTopicState

TOPIC = "fleeting"


class Story:
    def __init__(self, seed=1):
        self.cluster = Cluster(seed)
        self.ghosts = self.cluster.suite.ghosts
        self.cluster.start()
        self.cluster.create(TOPIC, 2, replicas=1)
        self.returner = Returner(self.cluster, TOPIC, Random(seed))
        self.returner.process.after(0, self.returner.start)
        self.cluster.expect(lambda: self.returner.reads > 3 and self.returner.offset > 3, 20, "it commits and reads")

    def delete_topic(self):
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=3_000)
        self.cluster.admin.ask(request, CONTROLLER, lambda _: None)
        self.cluster.expect(lambda: TOPIC not in self.ghosts.topic_ids, 20, "the topic is gone")

    def replace_topic(self):
        before = self.ghosts.topic_ids[TOPIC]
        self.delete_topic()
        self.cluster.admin.created.discard(TOPIC)
        self.cluster.create(TOPIC, 1, replicas=1)
        assert self.ghosts.topic_ids[TOPIC] != before

    def reads_again(self):
        reads = self.returner.reads
        self.cluster.expect(lambda: self.returner.reads > reads + 2, 30, "it reads again")

    def fail_over_while_the_topic_is_replaced(self):
        """Those who hear of it do not lead the groups' partition yet, and its next leader loads the old positions."""
        coordinator = self.cluster.leader(GROUPS)
        self.cluster.world.lose_power(coordinator)
        self.replace_topic()
        assert self.cluster.leader(GROUPS) is coordinator, "the session of the dead ended too early"
        self.reads_again()


def elsewhere():
    """A story whose coordinator neither is the controller nor holds the topic."""
    for seed in range(20):
        story = Story(seed)
        holders = [story.cluster.leader(name) for name in story.ghosts.assignments if name.topic == TOPIC]
        if story.cluster.leader(GROUPS) not in (story.cluster.controller, *holders):
            return story
    raise LookupError("no such story")


def answer(offset):
    partition = OffsetFetchResponsePartition(partition_index=0, committed_offset=offset)
    return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name=TOPIC, partitions=[partition])])


def test_what_it_reads_is_of_the_topic_that_is_there():
    story = Story()
    for _ in range(3):
        story.replace_topic()
        story.reads_again()
    story.cluster.settle()
    story.returner.stop()
    story.cluster.expect(lambda: story.returner.is_over, 20, "it reads once more")
    assert len(set(story.returner._committed.values())) == 4


def test_a_coordinator_that_loads_positions_of_an_earlier_topic_does_not_return_them():
    elsewhere().fail_over_while_the_topic_is_replaced()


def test_one_that_forgets_only_topics_whose_name_is_gone_is_found_out():
    story = elsewhere()
    with applied(find("positions-of-an-earlier-topic")), pytest.raises(Violation, match=r"I29: .* an earlier topic"):
        story.fail_over_while_the_topic_is_replaced()


def test_an_answer_counts_only_of_a_broker_that_knew_the_topic_and_lives_on():
    story = Story()
    returner, broker = story.returner, story.ghosts.states[GROUPS].leader
    topic_id, earlier = story.ghosts.topic_ids[TOPIC], b"an earlier topic"
    life = returner._node_that_knows(broker, topic_id)
    assert life is not None
    assert returner._node_that_knows(broker, earlier) is None
    returner._committed[77] = earlier
    reads = returner.reads
    returner._was_read(topic_id, broker, None, answer(77))
    returner._was_read(earlier, broker, life, answer(77))
    returner._was_read(topic_id, broker, life, None)
    assert returner.reads == reads
    returner._was_read(topic_id, broker, life, answer(-1))
    assert returner.reads == reads + 1
    with pytest.raises(AssertionError, match=r"I29: .* reads 77 in partition 0, committed for an earlier topic"):
        returner._was_read(topic_id, broker, life, answer(77))
    story.cluster.world.kill(story.cluster.world.hosts[broker])
    returner._was_read(topic_id, broker, life, answer(77))


def test_it_is_over_where_the_topic_is_gone_in_the_end():
    story = Story()
    story.delete_topic()
    story.returner.stop()
    story.cluster.expect(lambda: story.returner.is_over, 20, "there is nothing to read")
