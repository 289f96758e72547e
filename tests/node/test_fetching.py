"""The follower's side on a real node: the test is the leader (broker 1), frame by frame."""

import pytest

from tests.log.support import read_batches
from tests.node.one_broker import TOPIC_ID, values
from tests.node.test_peers_that_hang import answer, asked, dial, registered
from tidelog.errors import ErrorCode
from tidelog.model import Time
from tidelog.node.fetching import LARGEST_EPOCH
from tidelog.wire.messages.records import offsets as epochs
from tidelog.wire.messages.records.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.wire.records import header, stamp

FETCH, VERSION = 1, 17


class Leader:
    """Answers the follower's fetches on one connection."""

    def __init__(self, broker):
        self.broker = broker
        self.connection = dial(broker)

    @property
    def wanted(self):
        """The last request's partition, or None where it names none."""
        topics = asked(self.broker, FetchRequest)[-1][1].topics
        return topics[0].partitions[0] if topics else None

    def says(self, records=b"", *, code=0, high_watermark=0, log_start=0, diverging=(-1, -1), session=77):
        data = PartitionData(
            partition_index=0,
            error_code=code,
            high_watermark=high_watermark,
            log_start_offset=log_start,
            records=records,
            diverging_epoch=EpochEndOffset(epoch=diverging[0], end_offset=diverging[1]),
        )
        topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
        answer(self.broker, self.connection, FetchResponse(session_id=session, responses=[topic]), FETCH, VERSION)

    @property
    def requests(self):
        return len(asked(self.broker, FetchRequest))


def batch(offset, *texts, epoch=0):
    data = bytearray(values(*texts))
    stamp(data, 0, offset, epoch)
    return bytes(data)


@pytest.fixture
def broker():
    broker = registered()
    broker.follow(leader=1)
    return broker


def test_what_the_leader_sends_is_appended_as_it_is_and_asked_on_from_there(broker):
    leader = Leader(broker)
    sent = batch(0, "m1", "m2")
    leader.says(sent, high_watermark=1)
    assert read_batches(broker.partition().log) == [sent]
    assert broker.partition().high_watermark == 1
    assert (leader.wanted.fetch_offset, leader.wanted.last_fetched_epoch) == (2, 0)


def test_two_rounds_move_the_followers_high_watermark(broker):
    leader = Leader(broker)
    leader.says(batch(0, "m1"), high_watermark=0)
    assert broker.partition().high_watermark == 0
    leader.says(high_watermark=1)
    assert broker.partition().high_watermark == 1


def test_the_end_of_an_epoch_that_comes_for_a_replica_that_is_gone_is_not_taken(broker):
    asked_of = epochs.OffsetForLeaderTopicResult(topic="gone", partitions=[epochs.EpochEndOffset(partition=0)])
    broker.node.broker.fetching.epochs_answered(1, epochs.OffsetForLeaderEpochResponse(topics=[asked_of]), broker.now)
    assert broker.partition().log.log_end_offset == 0


def test_behind_the_largest_epoch_of_a_session_comes_1(broker):
    leader = Leader(broker)
    leader.says()
    fetcher = broker.node.broker.fetching._fetchers[1]
    fetcher.session_epoch = LARGEST_EPOCH
    leader.says(high_watermark=0)
    assert asked(broker, FetchRequest)[-1][1].session_epoch == 1


def test_an_answer_of_another_epoch_is_not_taken(broker):
    leader = Leader(broker)
    broker.follow(leader=1, epoch=1, partition_epoch=1)
    leader.says(batch(0, "of the old epoch"))
    assert broker.partition().log.log_end_offset == 0
    assert leader.wanted.current_leader_epoch == 1
    leader.says(batch(0, "of the new one", epoch=1))
    assert broker.partition().log.log_end_offset == 1


def test_an_answer_for_a_replica_that_was_deleted_or_leads_now_is_not_taken(broker):
    leader = Leader(broker)
    broker.lead(epoch=1, partition_epoch=1)
    leader.says(batch(0, "too late"))
    assert broker.partition().log.log_end_offset == 0
    broker.delete()
    leader.says(batch(0, "later still"))
    assert broker.partition() is None


def test_the_log_is_cut_where_it_parts_before_the_first_append(broker):
    leader = Leader(broker)
    leader.says(batch(0, "m1"))
    leader.says(batch(1, "lost"))
    broker.follow(leader=1, epoch=2, partition_epoch=1)
    leader.says()
    assert (leader.wanted.fetch_offset, leader.wanted.last_fetched_epoch) == (2, 0)
    leader.says(diverging=(0, 1))
    assert broker.partition().log.log_end_offset == 1
    assert leader.wanted.fetch_offset == 1
    leader.says(batch(1, "m2", epoch=2), high_watermark=1)
    assert [header(held).leader_epoch for held in read_batches(broker.partition().log)] == [0, 2]


def test_a_log_that_ends_where_the_leader_says_is_not_told_to_be_cut(broker):
    leader = Leader(broker)
    leader.says(batch(0, "m1"))
    leader.says(batch(1, "lost"))
    broker.follow(leader=1, epoch=2, partition_epoch=1)
    leader.says()
    for _ in range(2):
        leader.says(diverging=(0, 1))
    assert broker.partition().log.log_end_offset == 1
    assert [event.fields["before"] for event in broker.events if event.kind == "log.truncate"] == [2]


def test_a_log_that_ends_before_the_leaders_begins_starts_over_there(broker):
    leader = Leader(broker)
    leader.says(code=ErrorCode.OFFSET_OUT_OF_RANGE, log_start=50)
    log = broker.partition().log
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    assert leader.wanted.fetch_offset == 50


def test_a_log_that_begins_where_the_leaders_is_another_already_starts_over_at_the_leaders_start(broker):
    leader = Leader(broker)
    leader.says(batch(0, "m1", "m2", "m3", "m4"), high_watermark=4, log_start=3)
    log = broker.partition().log
    assert log.log_start_offset == 3
    broker.follow(leader=1, epoch=1, partition_epoch=1)
    leader.says()  # to what was asked in the epoch before
    leader.says(diverging=(0, 1), high_watermark=1, log_start=0)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert leader.wanted.fetch_offset == 0


def test_a_log_that_parts_where_the_leaders_begins_inside_a_batch_takes_that_batch_whole(broker):
    """Cut back to there, it would keep records that the leader has deleted, and the batch would not follow on them."""
    leader = Leader(broker)
    leader.says(batch(0, "of", "an", "old", "epoch"), high_watermark=1)
    broker.follow(leader=1, epoch=1, partition_epoch=1)
    leader.says()  # to what was asked in the epoch before
    leader.says(diverging=(0, 2), high_watermark=3, log_start=2)
    assert leader.wanted.fetch_offset == 2
    sent = batch(1, "m1", "m2", "m3", epoch=1)
    leader.says(sent, high_watermark=4, log_start=2)
    log = broker.partition().log
    assert read_batches(log) == [sent]
    assert (log.log_start_offset, log.log_end_offset) == (2, 4)


def test_after_an_error_a_partition_rests_longer_each_time_and_is_asked_again(broker):
    leader = Leader(broker)
    waits = []
    for _ in range(4):
        leader.says(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        before, start = leader.requests, broker.now.mono
        while leader.requests == before:
            broker.passes(5)
            assert broker.now.mono - start < 5_000
        waits.append(broker.now.mono - start)
    assert waits == sorted(waits)
    assert waits[0] < waits[-1]


def test_a_corrupt_answer_is_refused_and_asked_for_again(broker):
    leader = Leader(broker)
    rotten = bytearray(batch(0, "m1"))
    rotten[-1] ^= 1
    leader.says(bytes(rotten))
    assert broker.partition().log.log_end_offset == 0
    broker.passes(100)
    leader.says(batch(0, "m1"))
    assert broker.partition().log.log_end_offset == 1


def test_with_a_flush_for_every_message_the_next_fetch_waits_for_the_disk():
    broker = registered(log_flush_interval_messages=1)
    broker.follow(leader=1)
    leader = Leader(broker)
    leader.says(batch(0, "m1"))
    assert leader.wanted is None or leader.wanted.fetch_offset == 0, "its offset would say that it is durable"
    broker.synced()
    if leader.wanted is None:
        leader.says()
    assert leader.wanted.fetch_offset == 1


def test_a_follower_whose_folder_failed_stops_fetching():
    broker = registered(folders=("/data", "/other"))
    broker.follow(leader=1)
    leader = Leader(broker)
    broker.give("disk_failed", 0, "/data", "EIO")
    leader.says(batch(0, "m1"))
    before = leader.requests
    broker.passes(2_000)
    assert leader.requests <= before + 1, "but for the end of its session"
    assert broker.partition().log.log_end_offset == 0


def test_a_lost_leader_is_asked_again_as_soon_on_a_machine_that_runs_for_months(broker):
    """2^31 milliseconds are 25 days."""
    broker.now = Time(2**31, broker.now.wall)
    leader = Leader(broker)
    broker.give("disconnected", leader.connection)
    assert broker.node.broker.fetching.next_deadline == broker.now.mono + 100


def test_a_topic_of_the_same_name_is_not_given_the_old_ones_records(broker):
    leader = Leader(broker)
    broker.follow(leader=1, topic_id=b"another topic id")
    leader.says(batch(0, "of the old topic"))
    assert broker.partition().log.log_end_offset == 0


# Throttles (KIP-73).


@pytest.fixture
def throttled():
    """A broker that may copy 1000 bytes a second of everything, and has copied a second's too many."""
    broker = registered()
    throttle = broker.node.broker.throttles.follower
    throttle._listed = lambda _config: ["*"]
    throttle.set_rate(1000, broker.now.mono)
    throttle.spend(1000, broker.now.mono)
    return broker


def test_a_replica_that_catches_up_waits_for_the_throttle_without_polling(throttled):
    throttled.follow(leader=1, isr=(1, 2))
    assert throttled.node.broker.fetching.next_deadline == throttled.now.mono + 1000
    assert not hasattr(throttled, "dialled"), "nothing was asked, so nobody was called"
    throttled.passes(1000)
    assert Leader(throttled).wanted.fetch_offset == 0


def test_a_replica_in_sync_does_not_wait_nor_one_that_has_caught_up(throttled):
    throttled.follow(leader=1, isr=(0, 1, 2))
    leader = Leader(throttled)
    assert leader.wanted.fetch_offset == 0
    leader.says(batch(0, "a", "b"), high_watermark=2)
    assert leader.wanted.fetch_offset == 2
    leader.says(batch(2, "c"), high_watermark=9)
    before = leader.requests
    throttled.passes(100)
    assert leader.requests == before, "it is behind now, and waits"
