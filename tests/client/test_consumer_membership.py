"""The consumer as a member whose coordinator assigns (KIP-848): it takes, gives up first, says so, and begins anew."""

import pytest

from tests.client.ground import OFFSET_COMMIT, OFFSET_FETCH
from tests.client.test_consumer import T0, T1, Story
from tidelog.client.group.member import MemberState
from tidelog.client.results import Assigned, CommittedOffset, Failed, Lost, Revoked
from tidelog.errors import ErrorCode, InvalidOption
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tidelog.wire.messages.groups.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitionsResponse,
)

HEARTBEAT = 68
INTERVAL_MS = 1_000
SILENCE = None


class ProtocolStory(Story):
    """A member, and a coordinator that answers every heartbeat with `epoch`, and with `target` where that is news."""

    def __init__(self, **options):
        super().__init__(group_id="g", group_protocol="consumer", **options)
        self.membership = self.consumer.group.membership
        self.epoch, self.target, self.told = 1, [T0, T1], None
        self.refusals = []
        self.ground.handlers |= {
            HEARTBEAT: self.heartbeat,
            OFFSET_FETCH: self.fetch,
            OFFSET_COMMIT: self.commit,
        }

    def heartbeat(self, _broker, request, reply):
        if request.member_epoch < 0:
            reply(ConsumerGroupHeartbeatResponse(member_epoch=request.member_epoch))
            return
        if self.refusals:
            code = self.refusals.pop(0)
            if code is not SILENCE:
                reply(ConsumerGroupHeartbeatResponse(error_code=code))
            return
        is_news = request.member_epoch == 0 or request.rebalance_timeout_ms > 0 or self.told != self.target
        self.told = list(self.target)
        reply(
            ConsumerGroupHeartbeatResponse(
                member_id=request.member_id,
                member_epoch=self.epoch,
                heartbeat_interval_ms=INTERVAL_MS,
                assignment=self._assignment() if is_news else None,
            )
        )

    def _assignment(self):
        numbers = [partition.partition for partition in self.target]
        topic = TopicPartitionsResponse(topic_id=self.ground.topic_ids["t"], partitions=numbers)
        return Assignment(topic_partitions=[topic] if numbers else [])

    def fetch(self, _broker, request, reply):
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetFetchResponsePartitions(partition_index=number, committed_offset=-1)
                    for number in topic.partition_indexes
                ],
            )
            for topic in request.groups[0].topics
        ]
        reply(OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=topics)]))

    def commit(self, _broker, request, reply):
        topics = [
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[OffsetCommitResponsePartition(partition_index=p.partition_index) for p in topic.partitions],
            )
            for topic in request.topics
        ]
        reply(OffsetCommitResponse(topics=topics))

    def subscribe(self, *topics):
        self.ground.call(self.consumer.subscribe, topics or ("t",), self.ground.now)

    def until_stable(self):
        self.poll_until(
            lambda: self.membership.state is MemberState.STABLE and self.membership.generation == self.epoch
        )

    @property
    def heartbeats(self):
        return self.ground.requests(HEARTBEAT)

    def said(self, index):
        """What it said to have: None where it said nothing of it."""
        topics = self.heartbeats[index].topic_partitions
        return None if topics is None else sorted(number for topic in topics for number in topic.partitions)


def joined(**options):
    story = ProtocolStory(**options)
    story.subscribe()
    story.until_stable()
    return story


def test_a_member_joins_with_all_of_itself_and_says_what_it_took():
    story = joined(max_poll_interval_ms=7_000, group_remote_assignor="range")
    first, second = story.heartbeats
    assert (first.member_epoch, first.subscribed_topic_names, first.rebalance_timeout_ms) == (0, ["t"], 7_000)
    assert (first.server_assignor, story.said(0)) == ("range", [])
    assert (second.member_epoch, second.subscribed_topic_names, story.said(1)) == (1, None, [0, 1])
    assert story.events == [Assigned(frozenset({T0, T1}), 1)]
    assert story.consumer.group_place[:3] == ("g", 1, first.member_id)


def test_a_heartbeat_with_nothing_to_say_says_nothing():
    story = joined()
    story.ground.run(5 * INTERVAL_MS + 100)
    assert [story.said(index) for index in range(2, 7)] == [None] * 5
    assert story.heartbeats[-1].rebalance_timeout_ms == -1


def test_nothing_happens_before_the_first_poll():
    story = ProtocolStory()
    story.subscribe()
    story.ground.run(2_000)
    assert story.heartbeats == []


def test_what_is_to_go_is_committed_first_and_kept_until_the_user_polls_again():
    story = joined(enable_auto_commit=True)
    story.poll_until(lambda: story.consumer.position(T0) is not None and story.consumer.position(T1) is not None)
    story.epoch, story.target = 2, [T0]
    before = len(story.heartbeats)
    story.poll_until(lambda: len(story.ground.requests(OFFSET_COMMIT)) == 1)
    story.ground.run(3 * INTERVAL_MS)
    assert story.consumer.take_events() == [Revoked(frozenset({T1}))]
    assert story.consumer.assignment == [T0]
    assert story.membership.state is MemberState.ASSIGNING
    assert {story.said(index) for index in range(before, len(story.heartbeats))} == {None}
    story.until_stable()
    assert story.said(-1) == [0]


def test_what_is_new_comes_after_what_is_to_go():
    story = ProtocolStory(enable_auto_commit=False)
    story.target = [T0]
    story.subscribe()
    story.until_stable()
    story.epoch, story.target = 2, [T1]
    story.until_stable()
    assert story.events[-2:] == [Revoked(frozenset({T0})), Assigned(frozenset({T1}), 2)]
    assert story.said(-1) == [1]


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_everything_and_joins_anew_under_its_id(code):
    story = joined()
    story.refusals = [code]
    story.poll_until(lambda: Lost(frozenset({T0, T1})) in story.events)
    story.epoch = 3
    story.until_stable()
    assert story.heartbeats[-2].member_epoch == 0
    assert len({request.member_id for request in story.heartbeats}) == 1
    assert story.consumer.assignment == [T0, T1]


@pytest.mark.parametrize("answer", [SILENCE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
def test_after_an_answer_that_never_came_or_was_an_error_it_reports_all_again(answer):
    story = joined(request_timeout_ms=600)
    story.refusals = [answer]
    before = len(story.heartbeats)
    story.poll_until(lambda: len(story.heartbeats) >= before + 2)
    again = story.heartbeats[before + 1]
    assert (again.member_epoch, again.subscribed_topic_names, story.said(before + 1)) == (1, ["t"], [0, 1])


def test_topics_that_change_while_a_heartbeat_is_out_are_reported_by_the_next():
    story = joined()
    before = len(story.heartbeats)
    assert story.ground.run_until(lambda: story.membership._heartbeat_in_flight)
    story.subscribe("t", "u")
    story.poll_until(lambda: len(story.heartbeats) >= before + 2)
    assert story.heartbeats[before + 1].subscribed_topic_names == ["t", "u"]


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("me", -2)])
def test_who_goes_says_so_and_a_static_member_that_it_will_be_back(instance, epoch):
    story = joined(group_instance_id=instance, enable_auto_commit=False)
    story.ground.call(story.consumer.unsubscribe, story.ground.now)
    story.ground.run(10)
    assert (story.heartbeats[-1].member_epoch, story.heartbeats[-1].instance_id) == (epoch, instance)
    assert story.consumer.assignment == []


def test_a_user_who_does_not_poll_holds_no_partitions():
    story = joined(max_poll_interval_ms=3_000)
    story.ground.run(4_000)
    story.events += story.consumer.take_events()
    assert story.events[-1] == Lost(frozenset({T0, T1}))
    assert story.heartbeats[-1].member_epoch == -1
    story.until_stable()


def test_an_instance_that_is_not_free_yet_is_for_the_user_to_hear_of():
    story = ProtocolStory(group_instance_id="me")
    story.refusals = [ErrorCode.UNRELEASED_INSTANCE_ID]
    story.subscribe()
    story.poll_until(lambda: bool(story.events))
    (failed,) = story.events
    assert isinstance(failed, Failed)
    assert failed.error is ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_commit_is_of_the_members_epoch():
    story = joined()
    story.ground.call(story.consumer.commit, story.ground.now, {T0: CommittedOffset(3)})
    story.ground.run(100)
    (request,) = story.ground.requests(OFFSET_COMMIT)
    assert (request.generation_id_or_member_epoch, request.member_id) == (1, story.membership.member_id)


def test_there_are_two_protocols():
    with pytest.raises(InvalidOption, match=r"group\.protocol must be one of classic, consumer"):
        Story(group_id="g", group_protocol="streams")
