"""Rule 4: what an acknowledgement means, on a real log. Brokers 1 and 2 are the test."""

from tests.node.one_broker import CLIENT, OneBroker
from tidelog.errors import ErrorCode
from tidelog.sim.faults import Fault

OK = ErrorCode.NONE


def test_acks_all_is_answered_when_the_whole_isr_has_fetched_past_the_record():
    broker = OneBroker()
    broker.lead()
    number = broker.produce("m1")
    assert broker.produced(number) is None
    broker.fetch_as(1, 1)
    assert broker.produced(number) is None
    broker.fetch_as(2, 1)
    assert broker.produced(number) == (OK, 0)


def test_acks_1_is_answered_at_the_append_whatever_the_isr():
    broker = OneBroker()
    broker.lead(isr=(0,))
    assert broker.produced(broker.produce("m1", acks=1)) == (OK, 0)
    assert broker.partition().high_watermark == 0


def test_acks_0_is_not_answered():
    broker = OneBroker()
    broker.lead()
    number = broker.produce("m1", acks=0)
    assert number not in broker.answers
    assert broker.partition().log.log_end_offset == 1
    assert broker.closed == []


def test_a_refused_acks_0_closes_the_connection_for_there_is_no_other_way_to_tell():
    broker = OneBroker()
    broker.lead(isr=(0, 1))
    broker.produce("m1", acks=0, index=9)
    assert broker.closed == [CLIENT]


def test_below_min_in_sync_acks_all_is_refused_before_the_append():
    broker = OneBroker()
    broker.lead(isr=(0,))
    assert broker.produced(broker.produce("m1")) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    assert broker.partition().log.log_end_offset == 0


def test_a_request_that_waits_while_the_isr_shrinks_below_min_times_out():
    broker = OneBroker(min_insync_replicas=3)
    broker.lead()
    number = broker.produce("m1", timeout_ms=500)
    broker.lead(isr=(0, 1), partition_epoch=1)
    broker.fetch_as(1, 1)
    assert broker.produced(number) is None, "the high watermark is held"
    broker.passes(500)
    assert broker.produced(number) == (ErrorCode.REQUEST_TIMED_OUT, -1)


def test_a_request_that_waits_is_bound_to_the_new_epoch_of_the_same_leader():
    broker = OneBroker()
    broker.lead(epoch=0)
    first, second = broker.produce("m1"), broker.produce("m2")
    broker.lead(epoch=1, partition_epoch=1)
    broker.fetch_as(1, 2, epoch=1, last_epoch=0)
    assert broker.produced(first) is None
    broker.fetch_as(2, 1, epoch=1, last_epoch=0)
    assert broker.produced(first) == (OK, 0)
    assert broker.produced(second) is None
    broker.fetch_as(2, 2, epoch=1, last_epoch=0)
    assert broker.produced(second) == (OK, 1)


def test_a_request_that_waits_hears_that_the_leadership_is_lost():
    broker = OneBroker()
    broker.lead(epoch=0)
    number = broker.produce("m1")
    broker.follow(epoch=1)
    assert broker.produced(number) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_a_request_that_waits_hears_that_the_topic_is_deleted():
    broker = OneBroker()
    broker.lead()
    number = broker.produce("m1")
    broker.delete()
    assert broker.produced(number) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_a_topic_that_takes_the_place_of_a_deleted_one_acknowledges_nothing_of_it():
    """The same name, the same epochs, another id, within one request."""
    broker = OneBroker()
    broker.lead()
    number = broker.produce("of the old topic")
    broker.lead(topic_id=b"another topic id")
    assert broker.produced(number) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert broker.partition().log.log_end_offset == 0


def test_answers_leave_in_the_order_of_their_requests():
    broker = OneBroker()
    broker.lead()
    slow, quick = broker.produce("m1", acks=-1), broker.produce("m2", acks=1)
    assert quick not in broker.answers
    broker.fetch_as(1, 2)
    broker.fetch_as(2, 2)
    order = [number for number in broker.answers if number in (slow, quick)]
    assert order == [slow, quick]


# flush.messages: an acknowledgement waits for the disk, too (rule 2).


def test_with_a_flush_for_every_message_acks_1_waits_for_the_disk():
    broker = OneBroker(log_flush_interval_messages=1)
    broker.lead()
    first = broker.produce("m1", acks=1)
    second = broker.produce("m2", acks=1)
    assert broker.produced(first) is None
    broker.synced()
    assert broker.produced(first) == (OK, 0)
    assert broker.produced(second) is None, "it came while the flush was under way"
    broker.synced()
    assert broker.produced(second) == (OK, 1)


def test_with_a_flush_for_every_message_acks_all_waits_for_the_leaders_own_disk():
    broker = OneBroker(log_flush_interval_messages=1)
    broker.lead()
    number = broker.produce("m1")
    broker.fetch_as(1, 1)
    broker.fetch_as(2, 1)
    assert broker.produced(number) is None
    broker.synced()
    assert broker.produced(number) == (OK, 0)


def test_a_failed_flush_acknowledges_nothing():
    broker = OneBroker(log_flush_interval_messages=1, folders=("/data", "/data2"))
    broker.lead()
    one = broker.produce("m1", acks=1)
    all_ = broker.produce("m2", acks=-1)
    broker.give("disk_failed", broker.syncs.popleft().token, "/data", "EIO")
    assert broker.produced(one) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert broker.produced(all_) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def test_a_disk_that_refuses_a_write_takes_its_folder_offline_and_no_other():
    broker = OneBroker(folders=("/data", "/data2"))
    broker.lead(index=0)
    broker.lead(index=1)
    assert broker.node.replicas.folder_of(broker.name(1)) == "/data2"
    broker.disk.faults.append(Fault("write", "/data2/t-1"))
    assert broker.produced(broker.produce("m1", index=1, acks=1)) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert broker.partition(1).failed
    assert not broker.partition(0).failed
    assert broker.produced(broker.produce("m1", index=0, acks=1)) == (OK, 0)
    assert broker.stopped is None


def test_a_disk_that_refuses_the_flush_itself_takes_its_folder_offline():
    broker = OneBroker(log_flush_interval_messages=1, folders=("/data", "/other"))
    broker.lead()
    broker.disk.faults.append(Fault("open", "/data/"))
    number = broker.produce("m1", acks=1)
    if broker.syncs:
        broker.give("disk_failed", broker.syncs.popleft().token, "/data", "EIO")
    assert broker.produced(number) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def test_a_flush_of_a_deleted_topic_vouches_for_nothing_of_the_next():
    broker = OneBroker(log_flush_interval_messages=1)
    broker.lead()
    broker.produce("old", acks=1)
    broker.delete()
    broker.lead(topic_id=b"another topic id")
    number = broker.produce("new", acks=1)
    broker.synced()
    assert broker.produced(number) is None
    broker.synced()
    assert broker.produced(number) == (OK, 0)


def test_a_stale_leader_appends_but_commits_nothing():
    broker = OneBroker()
    broker.lead(epoch=3)
    number = broker.produce("m1", timeout_ms=100)
    for replica in (1, 2):
        assert broker.fetch_as(replica, 1, epoch=4, last_epoch=3).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    broker.passes(100)
    assert broker.produced(number) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert broker.partition().high_watermark == 0


def test_a_refused_producer_learns_who_leads_now():
    broker = OneBroker()
    broker.follow(leader=1, epoch=3)
    answer = broker.answers[broker.produce("m1", version=10)]
    refused = answer.responses[0].partition_responses[0]
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (1, 3)
    assert [(node.node_id, node.host) for node in answer.node_endpoints] == [(1, "broker-1")]
