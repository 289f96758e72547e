"""Positions committed in transactions: they count when a marker says so, and nobody reads an older one meanwhile."""

import pytest

from tests.coordinator.group.consumer.consumer_harness import Cluster
from tests.coordinator.group.harness import GroupHarness
from tidelog.errors import ErrorCode
from tidelog.wire.messages.groups.classic_group import HeartbeatRequest
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tidelog.wire.messages.groups.group_admin import DeleteGroupsRequest
from tidelog.wire.messages.transactions.transaction_requests import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.wire.records import Marker, build_marker, header

REQUEST = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g")])
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


def commit(harness, offset, producer=1, *, group="g", **who):
    """The code of the one partition."""
    place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=group,
        producer_id=producer,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[place])],
        **who,
    )
    return ErrorCode(harness.ask(request).topics[0].partitions[0].error_code)


def end(harness, producer=1, *, committed):
    """The leader appends a marker, as the transaction's coordinator requests, and notifies the group's."""
    marker = build_marker(Marker(committed, 0), timestamp=0, producer_id=producer, producer_epoch=0)
    first, _ = harness.log.append(marker)
    done = harness.coordinator.transaction_ended(0, first, producer, harness.now, committed=committed)
    if not harness.holding:
        harness.log.high_watermark = harness.log.end
        done += harness.coordinator.committed(0, harness.log.end, harness.now)
    harness.carry_out(done)


def fetched(harness, *, stable=False, group="g"):
    """The position, or the code in its place."""
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=stable)
    found = harness.ask(request, 8).groups[0].topics[0].partitions[0]
    return ErrorCode(found.error_code) if found.error_code else found.committed_offset


def test_a_position_counts_from_its_marker_on():
    harness = GroupHarness()
    assert commit(harness, 5) == ErrorCode.NONE
    batch = header(harness.log.batches[-1])
    assert (batch.is_transactional, batch.producer_id, batch.producer_epoch) == (True, 1, 0)
    assert (fetched(harness), fetched(harness, stable=True)) == (-1, UNSTABLE)
    end(harness, committed=True)
    assert (fetched(harness), fetched(harness, stable=True)) == (5, 5)


def test_who_may_have_seen_what_a_marker_did_is_answered_when_it_is_committed():
    harness = GroupHarness()
    (member,), generation = harness.stable()
    commit(harness, 5)
    harness.holding = True
    end(harness, committed=True)
    beat = harness.send(HeartbeatRequest(group_id="g", member_id=member, generation_id=generation))
    assert beat not in harness.answers
    harness.release()
    assert harness.answers[beat].error_code == ErrorCode.NONE


def test_an_aborted_position_never_counts():
    harness = GroupHarness()
    commit(harness, 5)
    end(harness, committed=True)
    commit(harness, 9)
    assert fetched(harness, stable=True) == UNSTABLE
    end(harness, committed=False)
    assert fetched(harness, stable=True) == 5
    end(harness, committed=True)
    assert fetched(harness) == 5, "the marker of nothing"


def test_a_marker_that_is_not_replicated_decides_nothing_for_readers():
    harness = GroupHarness()
    commit(harness, 5)
    harness.holding = True
    end(harness, committed=True)
    assert fetched(harness) == -1
    harness.release()
    assert fetched(harness) == 5


def test_a_later_commit_outlives_an_earlier_one_whose_marker_came_after_it():
    harness = GroupHarness()
    commit(harness, 5, producer=1)
    commit(harness, 7, producer=2)
    end(harness, 2, committed=True)
    end(harness, 1, committed=True)
    assert fetched(harness) == 7


@pytest.mark.parametrize("committed", [True, False])
def test_a_successor_knows_what_is_pending_and_what_was_decided(committed):
    harness = GroupHarness()
    commit(harness, 5, producer=1)
    commit(harness, 8, producer=2)
    end(harness, 1, committed=True)
    successor = harness.failover()
    assert (fetched(successor), fetched(successor, stable=True)) == (5, UNSTABLE)
    end(successor, 2, committed=committed)
    assert fetched(successor, stable=True) == fetched(successor.failover()) == (8 if committed else 5)


def test_a_deleted_group_takes_its_pending_positions_with_it():
    harness = GroupHarness()
    commit(harness, 5)
    assert harness.ask(DeleteGroupsRequest(groups_names=["g"])).results[0].error_code == ErrorCode.NONE
    end(harness, committed=True)
    assert fetched(harness) == -1
    assert fetched(harness.failover()) == -1


def test_a_deleted_topic_takes_its_pending_positions_with_it():
    harness = GroupHarness()
    commit(harness, 5)
    harness.carry_out(harness.coordinator.topics_deleted(["t"], harness.now))
    end(harness, committed=True)
    assert fetched(harness, stable=True) == fetched(harness.failover()) == -1


@pytest.mark.parametrize("committed", [True, False])
def test_what_happens_while_a_successor_loads_counts_once(committed):
    """Loading may take long: rot is mended first. A marker, and the end of a topic, do not wait for it."""
    harness = GroupHarness()
    commit(harness, 5)
    successor = GroupHarness(log=harness.log)
    successor.resign()
    successor.start_loading(epoch=1)
    end(successor, committed=committed)
    assert successor.ask(REQUEST, 8).groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    successor.finish_loading()
    assert fetched(successor, stable=True) == (5 if committed else -1)
    successor.resign()
    successor.start_loading(epoch=2)
    successor.carry_out(successor.coordinator.topics_deleted(["t"], successor.now))
    successor.finish_loading()
    assert fetched(successor, stable=True) == fetched(successor.failover()) == -1


def test_a_pending_position_is_one_in_the_topic_that_had_the_name_then():
    cluster = Cluster(t=1)
    harness = GroupHarness(cluster=cluster)
    commit(harness, 5)
    end(harness, committed=True)
    assert fetched(harness) == 5
    commit(harness, 6)
    cluster.make("t", 1)
    end(harness, committed=True)
    assert fetched(harness) == fetched(harness.failover()) == -1
    commit(harness, 7)
    harness.carry_out(harness.coordinator.topics_deleted(["t"], harness.now))
    end(harness, committed=True)
    assert fetched(harness) == 7, "the news of the old topic's end came late"


def test_nothing_expires_while_a_transaction_is_open():
    harness = GroupHarness({"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "10000"})
    commit(harness, 5)
    end(harness, committed=True)
    commit(harness, 6)
    harness.pass_time(120_000)
    assert fetched(harness) == 5
    end(harness, committed=False)
    harness.pass_time(120_000)
    assert fetched(harness) == -1


def test_who_names_a_generation_must_be_its_member():
    harness = GroupHarness()
    (member,), generation = harness.stable()
    assert commit(harness, 1, generation_id=generation + 1, member_id=member) == ErrorCode.ILLEGAL_GENERATION
    assert commit(harness, 1, generation_id=generation, member_id="stranger") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(harness, 1, generation_id=generation, member_id=member) == ErrorCode.NONE
    assert commit(harness, 1) == ErrorCode.NONE, "a producer that names none is believed"
    assert commit(harness, 1, group="other", generation_id=1) == ErrorCode.ILLEGAL_GENERATION
    assert commit(harness, 1, group="") == ErrorCode.INVALID_GROUP_ID


def test_a_producer_of_an_old_epoch_is_refused():
    harness = GroupHarness()
    harness.refusing = ErrorCode.INVALID_PRODUCER_EPOCH
    assert commit(harness, 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert fetched(harness, stable=True) == -1
