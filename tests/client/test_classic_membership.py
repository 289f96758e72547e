"""The consumer as a member of its group: joins, keeps its place, commits what was processed, gives up what it must."""

from tests.client.ground import FETCH, HEARTBEAT, JOIN_GROUP, OFFSET_COMMIT, SYNC_GROUP
from tests.client.group import Coordinator
from tests.client.test_consumer import T0, T1, Story
from tidelog.client.group.member import MemberState
from tidelog.client.results import Assigned, CommittedOffset, Failed, Lost, Revoked
from tidelog.errors import ErrorCode
from tidelog.model import NO_ID, TopicPartition
from tidelog.wire.messages.groups.classic_group import JoinGroupResponse
from tidelog.wire.messages.records.fetch import FetchResponse


class GroupStory(Story):
    """A consumer with a group."""

    def __init__(self, **options):
        super().__init__(group_id="g", **options)
        self.coordinator = Coordinator(self.ground)
        self.membership = self.consumer.group.membership

    def subscribe(self, *topics):
        self.ground.call(self.consumer.subscribe, topics or ("t",), self.ground.now)

    def until_stable(self, milliseconds=10_000):
        generation = self.membership.generation

        def polled():
            self.records = self.poll(10)
            return self.membership.state is MemberState.STABLE and self.membership.generation > generation

        assert self.ground.run_until(polled, milliseconds)

    def rebalance(self):
        self.coordinator.is_rebalancing = True
        self.until_stable()

    def happened(self, *kinds):
        return [entry for entry in self.coordinator.log if entry[0] in kinds]


def test_a_member_gets_partitions_and_reads_from_the_committed_offset():
    story = GroupStory()
    story.fill(b"0", b"1", b"2")
    story.coordinator.committed[T0] = 1
    story.subscribe()
    assert story.values() == [b"1", b"2"]
    assert story.events == [Assigned(frozenset({T0, T1}), 1)]
    assert story.consumer.assignment == [T0, T1]


def test_nothing_happens_before_the_first_poll():
    story = GroupStory()
    story.subscribe()
    story.ground.run(1_000)
    assert story.ground.requests(JOIN_GROUP) == []


def test_heartbeats_keep_the_place():
    story = GroupStory(heartbeat_interval_ms=3_000)
    story.subscribe()
    story.until_stable()
    story.ground.run(30_000)
    assert 9 <= len(story.ground.requests(HEARTBEAT)) <= 11


def test_a_heartbeat_is_not_late_behind_a_long_poll():
    story = GroupStory(fetch_max_wait_ms=20_000, heartbeat_interval_ms=1_000, session_timeout_ms=6_000)
    story.subscribe()
    story.until_stable()
    story.ground.run(10_000)
    assert len(story.ground.requests(HEARTBEAT)) >= 9
    assert story.membership.state is MemberState.STABLE


def test_an_eager_member_commits_and_gives_up_everything_before_it_joins_again():
    story = GroupStory(enable_auto_commit=True)
    story.fill(b"0", b"1")
    story.subscribe()
    assert story.values() == [b"0", b"1"]
    story.coordinator.phantoms = {"other": ["t"]}
    story.coordinator.log.clear()
    story.rebalance()
    assert story.happened("commit", "join") == [("commit", {T0: 2, T1: 0}), ("join", [])]
    assert story.events[-2] == Revoked(frozenset({T0, T1}))
    assert story.consumer.assignment == sorted(story.coordinator.given[story.membership.member_id])
    assert len(story.consumer.assignment) == 1


def test_between_revocation_and_join_the_user_may_commit():
    story = GroupStory(enable_auto_commit=False)
    story.fill(b"0")
    story.subscribe()
    assert story.values() == [b"0"]
    story.coordinator.log.clear()
    story.coordinator.is_rebalancing = True
    story.poll_until(lambda: Revoked(frozenset({T0, T1})) in story.events)
    story.ground.call(story.consumer.commit, story.ground.now, {T0: committed(1)})
    story.ground.run(500)
    assert [kind for kind, _ in story.coordinator.log] == ["commit"]
    story.until_stable()
    assert [kind for kind, _ in story.coordinator.log] == ["commit", "join", "sync"]


def committed(offset):
    from tidelog.client.results import CommittedOffset

    return CommittedOffset(offset)


def test_a_cooperative_member_keeps_what_it_may_keep():
    story = GroupStory(partition_assignment_strategy=("cooperative-sticky",))
    story.fill(b"0")
    story.fill(b"1", partition=T1)
    story.subscribe()
    assert sorted(story.values() + story.values()) == [b"0", b"1"]
    story.coordinator.phantoms = {"other": ["t"]}
    story.rebalance()
    assert ("join", [T0, T1]) in story.coordinator.log
    story.poll_until(lambda: story.membership.generation == 3 and story.membership.state is MemberState.STABLE)
    assert Revoked(frozenset({T1})) in story.events
    assert story.happened("join")[-1] == ("join", [T0])
    assert story.consumer.assignment == [T0]
    assert not any(isinstance(event, Lost) for event in story.events)
    story.rebalance()
    assert story.coordinator.given["other"] == {T1}


def test_at_least_once_the_consumers_own_commit_covers_only_what_was_handed_out_before():
    story = GroupStory(auto_commit_interval_ms=1_000, max_poll_records=1)
    story.fill(b"0", b"1")
    story.subscribe()
    assert story.values() == [b"0"]
    story.ground.run(5_000)
    assert story.coordinator.committed == {}
    assert story.values() == [b"1"]
    story.ground.run(100)
    assert story.coordinator.committed[T0] == 1


def test_at_most_once_a_commit_before_processing_covers_what_was_just_handed_out():
    story = GroupStory(enable_auto_commit=False)
    story.fill(b"0", b"1")
    story.subscribe()
    assert story.values() == [b"0", b"1"]
    ticket = story.ground.call(story.consumer.commit, story.ground.now)
    assert story.done(ticket).error is ErrorCode.NONE
    assert story.coordinator.committed[T0] == 2


def test_committed_offsets_can_be_asked_for():
    story = GroupStory()
    story.coordinator.committed[T0] = 5
    ticket = story.ground.call(story.consumer.committed, [T0, T1], story.ground.now)
    assert {partition: place.offset for partition, place in story.done(ticket).value.items()} == {T0: 5}


def test_offsets_can_be_committed_without_a_membership():
    story = GroupStory()
    ticket = story.ground.call(story.consumer.commit, story.ground.now, {T1: committed(3)})
    assert story.done(ticket).error is ErrorCode.NONE
    assert story.coordinator.committed == {T1: 3}
    assert story.ground.requests(OFFSET_COMMIT)[0].generation_id_or_member_epoch == -1


def test_the_coordinator_may_move_and_may_load():
    story = GroupStory(heartbeat_interval_ms=1_000)
    story.subscribe()
    story.until_stable()
    story.ground.coordinator = 2
    loading = iter([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3)
    story.coordinator.mood = lambda _key, _broker: next(loading, ErrorCode.NONE)
    ticket = story.ground.call(story.consumer.commit, story.ground.now, {T0: committed(1)})
    assert story.done(ticket).error is ErrorCode.NONE
    story.ground.run(5_000)
    assert story.membership.state is MemberState.STABLE
    assert story.membership.generation == 1


def test_a_coordinator_that_dies_is_looked_up_again():
    story = GroupStory(heartbeat_interval_ms=1_000)
    story.subscribe()
    story.until_stable()
    story.ground.run(1_500)
    story.ground.coordinator = 1
    story.ground.kill(0)
    story.ground.run(10_000)
    assert story.membership.state is MemberState.STABLE
    assert {broker for broker, key, _, _ in story.ground.asked if key == HEARTBEAT} == {0, 1}


def test_a_member_that_the_group_forgot_loses_its_partitions_and_joins_anew():
    story = GroupStory(heartbeat_interval_ms=1_000)
    story.subscribe()
    story.until_stable()
    story.coordinator.member = "somebody else"
    story.until_stable()
    assert Lost(frozenset({T0, T1})) in story.events
    assert story.membership.member_id == "member-2"


def test_a_commit_of_an_old_generation_fails_and_the_member_joins_again():
    story = GroupStory(enable_auto_commit=False)
    story.subscribe()
    story.until_stable()
    story.coordinator.generation += 1
    ticket = story.ground.call(story.consumer.commit, story.ground.now, {T0: committed(1)})
    assert story.done(ticket).error is ErrorCode.ILLEGAL_GENERATION
    assert Lost(frozenset({T0, T1})) in story.consumer.take_events()
    story.until_stable()


def test_a_position_in_a_topic_that_is_gone_is_committed_under_its_id():
    """Under its name it could become a position in the next topic of that name (seed 3008221)."""
    story = GroupStory(enable_auto_commit=False, metadata_max_age_ms=1_000)
    story.subscribe()
    story.until_stable()
    story.ground.handlers[FETCH] = lambda _broker, _request, reply: reply(
        FetchResponse(error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    )
    topic_id = story.ground.topic_ids.pop("t")
    story.ground.leaders.clear()
    story.poll_until(lambda: story.consumer.metadata.topic_id("t") == NO_ID)
    committed_to = []
    story.ground.handlers[OFFSET_COMMIT] = lambda _broker, request, _reply: committed_to.extend(request.topics)
    story.ground.call(story.consumer.commit, story.ground.now, {T0: committed(1)})
    assert story.ground.run_until(lambda: bool(committed_to), 10_000)
    assert [(topic.name, topic.topic_id) for topic in committed_to] == [("", topic_id)]


def test_a_user_who_does_not_poll_leaves_the_group():
    story = GroupStory(max_poll_interval_ms=20_000)
    story.subscribe()
    story.until_stable()
    story.ground.run(25_000)
    assert story.happened("leave") == [("leave", "member-1")]
    assert Lost(frozenset({T0, T1})) in story.consumer.take_events()
    story.until_stable()


def test_closing_commits_and_leaves():
    story = GroupStory()
    story.fill(b"0")
    story.subscribe()
    assert story.values() == [b"0"]
    story.ground.call(story.consumer.close, story.ground.now)
    assert story.ground.run_until(lambda: story.consumer.is_closed, 1_000)
    story.ground.run(100)
    assert [kind for kind, _ in story.coordinator.log][-2:] == ["commit", "leave"]


def test_a_static_member_stays_registered():
    story = GroupStory(group_instance_id="i-1")
    story.subscribe()
    story.until_stable()
    story.ground.call(story.consumer.close, story.ground.now)
    story.ground.run(100)
    assert story.happened("leave") == []
    assert story.ground.requests(JOIN_GROUP)[0].group_instance_id == "i-1"


def test_a_fatal_refusal_is_reported_once_and_ends_the_tries():
    story = GroupStory()
    story.coordinator.mood = lambda key, _broker: (
        ErrorCode.GROUP_AUTHORIZATION_FAILED if key == JOIN_GROUP else ErrorCode.NONE
    )
    story.subscribe()
    story.poll(5_000)
    assert [event.error for event in story.events if isinstance(event, Failed)] == [
        ErrorCode.GROUP_AUTHORIZATION_FAILED
    ]
    assert len(story.ground.requests(JOIN_GROUP)) == 1


def test_a_sync_that_comes_into_the_next_rebalance_joins_again():
    story = GroupStory()
    codes = iter([ErrorCode.REBALANCE_IN_PROGRESS])
    story.coordinator.mood = lambda key, _broker: next(codes, ErrorCode.NONE) if key == SYNC_GROUP else ErrorCode.NONE
    story.subscribe()
    story.until_stable()
    assert [kind for kind, _ in story.coordinator.log] == ["join", "join", "sync"]


def test_the_leader_assigns_again_when_a_topic_grows():
    story = GroupStory(metadata_max_age_ms=5_000)
    story.subscribe()
    story.until_stable()
    story.ground.leaders[TopicPartition("t", 2)] = (2, 0)
    story.until_stable()
    assert story.consumer.assignment == [T0, T1, TopicPartition("t", 2)]


def test_a_static_leader_that_came_back_watches_the_topics_too():
    """Seed 10548: it was told that what was assigned stays (KIP-814), and nobody noticed that a topic came."""
    story = GroupStory(group_instance_id="me", metadata_max_age_ms=5_000)
    story.coordinator.skips, story.coordinator.given = True, {"static": {T0}}
    story.subscribe()
    story.until_stable()
    assert story.consumer.assignment == [T0]
    story.ground.run(6_000)
    assert len(story.happened("join")) == 1
    story.coordinator.skips = False
    story.ground.leaders[TopicPartition("t", 2)] = (2, 0)
    story.until_stable()
    assert story.consumer.assignment == [T0, T1, TopicPartition("t", 2)]


def test_a_pattern_takes_in_topics_to_come():
    story = GroupStory(metadata_max_age_ms=5_000)
    story.ground.call(story.consumer.subscribe_pattern, "t.*", story.ground.now)
    story.until_stable()
    assert story.consumer.assignment == [T0, T1]
    story.ground.leaders[TopicPartition("two", 0)] = (2, 0)
    story.ground.topic_ids["two"] = bytes([2]) * 16
    story.until_stable()
    assert TopicPartition("two", 0) in story.consumer.assignment


def test_assigning_by_hand_leaves_the_group():
    story = GroupStory()
    story.subscribe()
    story.until_stable()
    story.assign(T1)
    story.ground.run(10)
    assert story.happened("leave") == [("leave", "member-1")]
    assert story.consumer.assignment == [T1]


def test_a_commit_that_is_tried_again_waits_quietly_though_the_coordinator_could_be_looked_up_before():
    story = GroupStory(enable_auto_commit=False)
    story.ground.call(story.consumer.assign, [T0], story.ground.now)
    refusals = iter([ErrorCode.NOT_COORDINATOR] * 5)
    story.coordinator.mood = lambda key, _: next(refusals, ErrorCode.NONE) if key == OFFSET_COMMIT else ErrorCode.NONE
    ticket = story.ground.call(story.consumer.commit, story.ground.now, {T0: CommittedOffset(3)})
    done = []

    def is_done():
        done.extend(story.consumer.take_results())
        return bool(done)

    assert story.ground.run_until(is_done, 20_000)
    assert [(end.ticket, end.error) for end in done] == [(ticket, ErrorCode.NONE)]
    assert story.coordinator.committed[T0] == 3


def test_a_client_that_can_reach_nobody_waits_quietly_though_its_coordinator_could_be_tried():
    story = GroupStory()
    story.subscribe()
    story.until_stable()
    story.ground.down |= {0, 1, 2}
    for connection in list(story.ground._connections):
        story.ground.disconnect(connection)
    story.ground.run(30_000)
    story.ground.down.clear()
    assert story.ground.run_until(lambda: story.membership.state is MemberState.STABLE, 60_000)


def test_a_consumer_that_closes_waits_quietly_for_its_last_commit():
    story = GroupStory(heartbeat_interval_ms=1_000)
    story.fill(b"0")
    story.subscribe()
    assert story.values() == [b"0"]
    commit = story.ground.handlers[OFFSET_COMMIT]
    story.ground.handlers[OFFSET_COMMIT] = lambda *asked: story.ground.later(5_000, lambda: commit(*asked))
    story.ground.call(story.consumer.close, story.ground.now)
    assert story.ground.run_until(lambda: story.consumer.is_closed, 10_000)
    assert story.coordinator.committed[T0] == 1


def test_a_member_that_was_expelled_commits_nothing_until_it_is_back():
    """An empty group takes what is committed without a generation; so it could be of long ago."""
    story = GroupStory(enable_auto_commit=False, heartbeat_interval_ms=500)
    story.subscribe()
    story.until_stable()
    story.coordinator.mood = lambda key, _: ErrorCode.UNKNOWN_MEMBER_ID if key == HEARTBEAT else ErrorCode.NONE
    story.ground.handlers[JOIN_GROUP] = lambda *_: None
    story.ground.run(2_000)
    assert story.membership.generation == -1
    ticket = story.ground.call(story.consumer.commit, story.ground.now, {T0: CommittedOffset(3)})
    (done,) = story.consumer.take_results()
    assert (done.ticket, done.error) == (ticket, ErrorCode.UNKNOWN_MEMBER_ID)
    assert not story.ground.requests(OFFSET_COMMIT)


def test_a_member_whose_id_is_refused_again_and_again_asks_with_pauses():
    story = GroupStory()
    story.coordinator._accept = lambda _request, reply: reply(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    story.subscribe()
    story.poll(10_000)
    assert 4 < len(story.ground.requests(JOIN_GROUP)) < 40
