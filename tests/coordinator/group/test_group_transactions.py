"""Positions committed in transactions: they count when a marker says so, and nobody is told an older one meanwhile."""

import pytest

from tests.coordinator.group.consumer.people import Cluster
from tests.coordinator.group.ground import Ground
from tidelog.errors import ErrorCode
from tidelog.wire.messages.groups.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.groups.heartbeat import HeartbeatRequest
from tidelog.wire.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tidelog.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.wire.records import Marker, build_marker, header

REQUEST = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g")])
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


def commit(ground, offset, producer=1, *, group="g", **who):
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
    return ErrorCode(ground.ask(request).topics[0].partitions[0].error_code)


def end(ground, producer=1, *, committed):
    """The leader appends a marker, as the transaction's coordinator asks, and tells the group's."""
    marker = build_marker(Marker(committed, 0), timestamp=0, producer_id=producer, producer_epoch=0)
    first, _ = ground.log.append(marker)
    done = ground.coordinator.transaction_ended(0, first, producer, ground.now, committed=committed)
    if not ground.holding:
        ground.log.high_watermark = ground.log.end
        done += ground.coordinator.committed(0, ground.log.end, ground.now)
    ground.carry_out(done)


def fetched(ground, *, stable=False, group="g"):
    """The position, or the code in its place."""
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=stable)
    found = ground.ask(request, 8).groups[0].topics[0].partitions[0]
    return ErrorCode(found.error_code) if found.error_code else found.committed_offset


def test_a_position_counts_from_its_marker_on():
    ground = Ground()
    assert commit(ground, 5) == ErrorCode.NONE
    batch = header(ground.log.batches[-1])
    assert (batch.is_transactional, batch.producer_id, batch.producer_epoch) == (True, 1, 0)
    assert (fetched(ground), fetched(ground, stable=True)) == (-1, UNSTABLE)
    end(ground, committed=True)
    assert (fetched(ground), fetched(ground, stable=True)) == (5, 5)


def test_who_may_have_seen_what_a_marker_did_is_answered_when_it_is_committed():
    ground = Ground()
    (member,), generation = ground.stable()
    commit(ground, 5)
    ground.holding = True
    end(ground, committed=True)
    beat = ground.send(HeartbeatRequest(group_id="g", member_id=member, generation_id=generation))
    assert beat not in ground.answers
    ground.release()
    assert ground.answers[beat].error_code == ErrorCode.NONE


def test_an_aborted_position_never_counts():
    ground = Ground()
    commit(ground, 5)
    end(ground, committed=True)
    commit(ground, 9)
    assert fetched(ground, stable=True) == UNSTABLE
    end(ground, committed=False)
    assert fetched(ground, stable=True) == 5
    end(ground, committed=True)
    assert fetched(ground) == 5, "the marker of nothing"


def test_a_marker_that_is_not_replicated_decides_nothing_for_readers():
    ground = Ground()
    commit(ground, 5)
    ground.holding = True
    end(ground, committed=True)
    assert fetched(ground) == -1
    ground.release()
    assert fetched(ground) == 5


def test_a_later_commit_outlives_an_earlier_one_whose_marker_came_after_it():
    ground = Ground()
    commit(ground, 5, producer=1)
    commit(ground, 7, producer=2)
    end(ground, 2, committed=True)
    end(ground, 1, committed=True)
    assert fetched(ground) == 7


@pytest.mark.parametrize("committed", [True, False])
def test_a_successor_knows_what_is_pending_and_what_was_decided(committed):
    ground = Ground()
    commit(ground, 5, producer=1)
    commit(ground, 8, producer=2)
    end(ground, 1, committed=True)
    successor = ground.failover()
    assert (fetched(successor), fetched(successor, stable=True)) == (5, UNSTABLE)
    end(successor, 2, committed=committed)
    assert fetched(successor, stable=True) == fetched(successor.failover()) == (8 if committed else 5)


def test_a_deleted_group_takes_its_pending_positions_with_it():
    ground = Ground()
    commit(ground, 5)
    assert ground.ask(DeleteGroupsRequest(groups_names=["g"])).results[0].error_code == ErrorCode.NONE
    end(ground, committed=True)
    assert fetched(ground) == -1
    assert fetched(ground.failover()) == -1


def test_a_deleted_topic_takes_its_pending_positions_with_it():
    ground = Ground()
    commit(ground, 5)
    ground.carry_out(ground.coordinator.topics_deleted(["t"], ground.now))
    end(ground, committed=True)
    assert fetched(ground, stable=True) == fetched(ground.failover()) == -1


@pytest.mark.parametrize("committed", [True, False])
def test_what_happens_while_a_successor_loads_counts_once(committed):
    """Loading may take long: rot is mended first. A marker, and the end of a topic, do not wait for it."""
    ground = Ground()
    commit(ground, 5)
    successor = Ground(log=ground.log)
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
    ground = Ground(cluster=cluster)
    commit(ground, 5)
    end(ground, committed=True)
    assert fetched(ground) == 5
    commit(ground, 6)
    cluster.make("t", 1)
    end(ground, committed=True)
    assert fetched(ground) == fetched(ground.failover()) == -1
    commit(ground, 7)
    ground.carry_out(ground.coordinator.topics_deleted(["t"], ground.now))
    end(ground, committed=True)
    assert fetched(ground) == 7, "the news of the old topic's end came late"


def test_nothing_expires_while_a_transaction_is_open():
    ground = Ground({"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "10000"})
    commit(ground, 5)
    end(ground, committed=True)
    commit(ground, 6)
    ground.pass_time(120_000)
    assert fetched(ground) == 5
    end(ground, committed=False)
    ground.pass_time(120_000)
    assert fetched(ground) == -1


def test_who_names_a_generation_must_be_its_member():
    ground = Ground()
    (member,), generation = ground.stable()
    assert commit(ground, 1, generation_id=generation + 1, member_id=member) == ErrorCode.ILLEGAL_GENERATION
    assert commit(ground, 1, generation_id=generation, member_id="stranger") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(ground, 1, generation_id=generation, member_id=member) == ErrorCode.NONE
    assert commit(ground, 1) == ErrorCode.NONE, "a producer that names none is believed"
    assert commit(ground, 1, group="other", generation_id=1) == ErrorCode.ILLEGAL_GENERATION
    assert commit(ground, 1, group="") == ErrorCode.INVALID_GROUP_ID


def test_a_producer_of_an_old_epoch_is_refused():
    ground = Ground()
    ground.refusing = ErrorCode.INVALID_PRODUCER_EPOCH
    assert commit(ground, 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert fetched(ground, stable=True) == -1
