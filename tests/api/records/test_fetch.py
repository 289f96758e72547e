"""Fetch: sessions that report only changes (KIP-227), waiting without polling, followers, and reads from followers."""

from threading import get_ident

from tests.node.one_broker import CLIENT, TOPIC, TOPIC_ID, OneBroker
from tidelog.api.records import fetch
from tidelog.api.records.sessions import CachedPartition
from tidelog.errors import DiskFailed, ErrorCode
from tidelog.model import TopicPartition
from tidelog.wire.messages.records.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

PRODUCER = 3
V = 12
BY_ID = 13
OTHER_ID = b"another topic id"


class Consumer:
    """A fetch session of one client."""

    def __init__(self, broker, connection=CLIENT, *, by_id=False, replica=-1, **request):
        self.broker, self.connection, self.request = broker, connection, request
        self.by_id, self.replica = by_id, replica
        self.version = 17 if replica >= 0 else BY_ID if by_id else V
        self.session = self.epoch = 0
        self.number = self.counted = None

    def ask(self, offsets=(), *, forget=(), max_wait_ms=0, epoch=-1, last_epoch=-1, **more):
        """Fetch these (partition, offset) anew, and all that the session holds."""
        name = {"topic_id": TOPIC_ID} if self.version >= BY_ID else {"topic": TOPIC}
        wanted = [
            FetchPartition(
                partition=index,
                fetch_offset=offset,
                partition_max_bytes=1 << 20,
                current_leader_epoch=epoch,
                last_fetched_epoch=last_epoch,
                log_start_offset=0,
            )
            for index, offset in dict(offsets).items()
        ]
        replica = {"replica_state": ReplicaState(replica_id=self.replica, replica_epoch=7)} if self.replica >= 0 else {}
        request = FetchRequest(
            **{"min_bytes": 1, **self.request, **more, **replica},
            max_wait_ms=max_wait_ms,
            session_id=self.session,
            session_epoch=self.epoch,
            topics=[FetchTopic(partitions=wanted, **name)] if wanted else [],
            forgotten_topics_data=[ForgottenTopic(partitions=list(forget), **name)] if forget else [],
        )
        self.number = self.broker.send(request, self.connection, self.version)
        return self.answer()

    def answer(self):
        """{partition: answer} of the last request; None while it waits."""
        response = self.broker.answers.get(self.number)
        if response is None:
            return None
        if response.session_id and self.counted != self.number:
            self.counted = self.number
            self.epoch = 1 if response.session_id != self.session else self.epoch + 1
            self.session = response.session_id
        self.response = response
        return {data.partition_index: data for topic in response.responses for data in topic.partitions}


def leading(*indexes, isr=(0,), replicas=(0,), **options):
    broker = OneBroker(**options)
    broker.connect(PRODUCER)
    for index in indexes or (0,):
        broker.lead(index=index, isr=isr, replicas=replicas)
    return broker


def put(broker, *texts, index=0):
    assert broker.produced(broker.produce(*texts, index=index, connection=PRODUCER))[0] == 0


def test_an_incremental_fetch_reports_only_partitions_with_news():
    broker = leading(0, 1, 2)
    consumer = Consumer(broker)
    assert sorted(consumer.ask({0: 0, 1: 0, 2: 0})) == [0, 1, 2]
    assert consumer.ask() == {}
    put(broker, "m1", index=1)
    answer = consumer.ask()
    assert list(answer) == [1]
    assert len(answer[1].records) > 0
    assert consumer.ask({1: 1}) == {}, "its watermark was told already"


def test_a_waiting_fetch_is_answered_by_the_record_it_waits_for():
    broker = leading(0, 1)
    consumer = Consumer(broker)
    consumer.ask({0: 0, 1: 0})
    assert consumer.ask(max_wait_ms=500) is None
    put(broker, "m1", index=1)
    assert list(consumer.answer()) == [1]


def test_a_waiting_fetch_is_answered_empty_at_its_deadline():
    broker = leading(0)
    consumer = Consumer(broker)
    consumer.ask({0: 0})
    assert consumer.ask(max_wait_ms=500) is None
    broker.passes(499)
    assert consumer.answer() is None
    broker.passes(1)
    assert consumer.answer() == {}


def test_min_bytes_waits_for_the_sum_over_the_session():
    broker = leading(0, 1)
    consumer = Consumer(broker, min_bytes=100)
    consumer.ask({0: 0, 1: 0})
    assert consumer.ask(max_wait_ms=10_000) is None
    put(broker, "m", index=0)
    assert consumer.answer() is None
    put(broker, "m", index=1)
    assert sorted(consumer.answer()) == [0, 1]


def test_a_forgotten_partition_is_not_reported_any_more():
    broker = leading(0, 1)
    consumer = Consumer(broker)
    consumer.ask({0: 0, 1: 0})
    consumer.ask(forget=[1])
    put(broker, "m1", index=1)
    assert consumer.ask() == {}
    assert broker.partition(1).sessions == {}


def test_a_partition_that_appears_later_is_read_as_soon_as_it_is_there():
    broker = leading(0)
    consumer = Consumer(broker)
    assert consumer.ask({0: 0, 5: 0})[5].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.lead(index=5, isr=(0,), replicas=(0,))
    put(broker, "m1", index=5)
    assert len(consumer.ask()[5].records) > 0


def test_a_topic_id_that_becomes_known_later_is_read_as_soon_as_it_is():
    broker = OneBroker()
    broker.connect(PRODUCER)
    consumer = Consumer(broker, by_id=True)
    assert consumer.ask({0: 0})[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    broker.lead(isr=(0,), replicas=(0,))
    put(broker, "m1")
    assert len(consumer.ask()[0].records) > 0


def test_the_reader_of_a_deleted_topic_hears_so_at_once():
    broker = leading(0)
    consumer = Consumer(broker)
    consumer.ask({0: 0})
    assert consumer.ask(max_wait_ms=60_000) is None
    broker.delete()
    assert consumer.answer()[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_of_a_deleted_topic_can_be_forgotten_by_its_id():
    broker = leading(0)
    consumer = Consumer(broker, by_id=True)
    consumer.ask({0: 0})
    broker.delete()
    assert consumer.ask()[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert consumer.ask(forget=[0], max_wait_ms=500) == {}
    assert consumer.response.responses == []


def test_the_reader_of_a_topic_that_was_replaced_is_not_given_the_new_ones_records():
    broker = leading(0)
    consumer = Consumer(broker, by_id=True)
    consumer.ask({0: 0})
    assert consumer.ask(max_wait_ms=60_000) is None
    broker.lead(topic_id=OTHER_ID, isr=(0,), replicas=(0,))
    assert consumer.answer()[0].error_code in (ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID)


def test_the_reader_of_a_folder_that_failed_hears_so_at_once():
    broker = leading(0, folders=("/data", "/other"))
    consumer = Consumer(broker)
    consumer.ask({0: 0})
    assert consumer.ask(max_wait_ms=60_000) is None
    broker.give("disk_failed", 0, "/data", "EIO")
    assert consumer.answer()[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_the_reader_of_a_leader_that_follows_now_reads_on_from_it_or_is_told_to_go():
    broker = leading(0, isr=(0, 1, 2), replicas=(0, 1, 2))
    consumer = Consumer(broker)
    consumer.ask({0: 0}, epoch=0)
    assert consumer.ask(max_wait_ms=60_000) is None
    broker.follow(epoch=1)
    assert consumer.answer()[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_session_ends_with_its_last_epoch_and_leaves_nothing_behind():
    broker = leading(0)
    consumer = Consumer(broker)
    consumer.ask({0: 0})
    assert len(broker.partition().sessions) == 1
    consumer.epoch = -1
    consumer.ask({0: 0})
    assert broker.partition().sessions == {}
    assert len(broker.node.broker.sessions) == 0


def test_an_unexpected_epoch_and_an_unknown_session_are_refused():
    broker = leading(0)
    consumer = Consumer(broker)
    consumer.ask({0: 0})
    consumer.epoch = 9
    consumer.ask()
    assert consumer.response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    consumer.session, consumer.epoch = 12345, 1
    consumer.ask()
    assert consumer.response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_in_use_is_not_taken_for_another_but_an_old_one_is():
    """min.incremental.fetch.session.eviction.ms is two minutes; who comes too early reads without a session."""
    broker = leading(0, max_incremental_fetch_session_cache_slots=1)
    broker.connect(20)
    first, second = Consumer(broker), Consumer(broker, 20)
    first.ask({0: 0})
    second.ask({0: 0})
    assert second.response.session_id == 0
    assert first.ask() == {}
    broker.passes(120_001)
    second.ask({0: 0})
    assert second.response.session_id != 0
    assert list(broker.partition().sessions) == [second.response.session_id]
    first.ask()
    assert first.response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_follower_takes_a_consumers_place_at_once():
    broker = leading(0, isr=(0, 1, 2), replicas=(0, 1, 2), max_incremental_fetch_session_cache_slots=1)
    broker.connect(11, "REPLICATION")
    Consumer(broker).ask({0: 0})
    follower = Consumer(broker, 11, replica=1)
    follower.ask({0: 0})
    assert follower.response.session_id != 0


def test_records_beyond_the_high_watermark_are_not_for_consumers():
    broker = leading(0, isr=(0, 1, 2), replicas=(0, 1, 2))
    broker.produce("m1", connection=PRODUCER)
    consumer = Consumer(broker)
    assert len(consumer.ask({0: 0})[0].records) == 0
    assert consumer.ask({0: 1}) == {}, "between the high watermark and the end is not out of range"
    assert consumer.ask({0: 2})[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# Followers.


def test_two_rounds_commit_one_record():
    broker = leading(0, isr=(0, 1), replicas=(0, 1))
    number = broker.produce("m1", connection=PRODUCER)
    first = broker.fetch_as(1, 0)
    assert len(first.records) > 0
    assert first.high_watermark == 0
    second = broker.fetch_as(1, 1)
    assert second.high_watermark == 1
    assert broker.produced(number) == (0, 0)


def waiting_follower(**options):
    """Follower 1 waits at the end with a fetch of 500 ms; then follower 2 commits the record."""
    broker = leading(0, isr=(0, 1, 2), replicas=(0, 1, 2), **options)
    broker.produce("m1", connection=PRODUCER)
    assert broker.fetch_as(1, 1, max_wait_ms=500).high_watermark == 0, "the first answer tells where it is"
    broker.connect(11, "REPLICATION")
    follower = Consumer(broker, 11, replica=1)
    follower.ask({0: 1}, epoch=0, last_epoch=0)
    assert follower.ask(max_wait_ms=500) is None
    broker.fetch_as(2, 1)
    return broker, follower


def test_a_waiting_follower_hears_of_the_high_watermark_when_its_fetch_has_waited_long_enough():
    broker, follower = waiting_follower()
    assert follower.answer() is None
    broker.passes(500)
    assert follower.answer()[0].high_watermark == 1


def test_a_waiting_follower_is_not_looked_at_for_a_high_watermark_alone(monkeypatch):
    looked_at, here, plain = [], get_ident(), fetch._collect

    def collect(*given):
        if get_ident() == here:  # clusters that other tests share go on in threads of their own
            looked_at.append(given[1].replica)
        return plain(*given)

    monkeypatch.setattr(fetch, "_collect", collect)
    broker, _ = waiting_follower()
    assert broker.partition().high_watermark == 1
    assert looked_at == [1, 1, 1, 2], "once for each fetch that came"


def test_a_waiting_follower_hears_of_the_high_watermark_with_the_next_records():
    broker, follower = waiting_follower()
    broker.produce("m2", connection=PRODUCER)
    answer = follower.answer()[0]
    assert len(answer.records) > 0
    assert answer.high_watermark == 1


def test_a_waiting_follower_hears_of_it_at_once_where_consumers_read_from_followers():
    _, follower = waiting_follower(**{"replica.selector.class": "RackAwareReplicaSelector"})
    assert follower.answer()[0].high_watermark == 1


def test_a_fetch_by_a_broker_that_is_no_replica_is_refused_and_changes_nothing():
    broker = leading(0, isr=(0, 1), replicas=(0, 1))
    broker.produce("m1", connection=PRODUCER)
    assert broker.fetch_as(2, 1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert broker.partition().high_watermark == 0


def test_a_follower_that_is_below_the_logs_start_learns_where_it_is():
    broker = leading(0, isr=(0,), replicas=(0, 1), min_insync_replicas=1)
    put(broker, "m1")
    put(broker, "m2")
    broker.partition().log.advance_start(1)
    answer = broker.fetch_as(1, 0)
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 1)
    answer = Consumer(broker).ask({0: 0})[0]
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_a_follower_is_refused_on_the_listener_of_clients():
    broker = leading(0, isr=(0, 1), replicas=(0, 1))
    request = FetchRequest(replica_state=ReplicaState(replica_id=1), min_bytes=1)
    assert broker.ask(request, CLIENT, 17).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_follower_whose_log_parts_is_told_where_before_it_counts():
    broker = leading(0, isr=(0, 1), replicas=(0, 1))
    broker.produce("m1", connection=PRODUCER)
    broker.assign(leader=0, isr=(0, 1), replicas=(0, 1), epoch=2, partition_epoch=1)
    broker.produce("m2", connection=PRODUCER)
    answer = broker.fetch_as(1, 2, epoch=2, last_epoch=0)
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 1)
    assert broker.partition().high_watermark == 0
    assert broker.fetch_as(1, 2, epoch=2, last_epoch=2).high_watermark == 2


# Reading from followers (KIP-392).


def test_a_follower_serves_consumers_up_to_its_own_high_watermark():
    broker = OneBroker()
    broker.connect(PRODUCER)
    broker.lead(epoch=0)
    broker.produce("m1", connection=PRODUCER)
    broker.produce("m2", connection=PRODUCER)
    broker.fetch_as(1, 1)
    broker.fetch_as(2, 1)
    broker.follow(epoch=1)
    consumer = Consumer(broker)
    answer = consumer.ask({0: 0})[0]
    assert answer.high_watermark == 1
    assert answer.records
    assert consumer.ask({0: 1}) == {}, "the second one is above it"


def test_a_consumer_too_old_for_it_must_read_from_the_leader():
    broker = OneBroker()
    broker.follow()
    consumer = Consumer(broker)
    consumer.version = 10
    assert consumer.ask({0: 0})[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_replica_that_nobody_gave_a_role_serves_nobody():
    """After a restart its topic may be deleted, and its high watermark is of another leader's time."""
    broker = leading(0)
    put(broker, "m1")
    broker.give("stop")
    broker.passes(1)
    assert broker.stopped == ""
    again = OneBroker(disk=broker.disk)
    assert Consumer(again).ask({0: 0})[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_consumer_is_sent_to_the_in_sync_replica_in_its_rack():
    broker = leading(
        0,
        isr=(0, 1),
        replicas=(0, 1),
        replica_selector_class="org.apache.kafka.common.replica.RackAwareReplicaSelector",
    )
    broker.produce("m1", connection=PRODUCER)
    broker.fetch_as(1, 1)
    consumer = Consumer(broker, rack_id="rack-1")
    assert consumer.ask({0: 0})[0].preferred_read_replica == 1
    own = Consumer(broker, rack_id="rack-0")
    assert own.ask({0: 0})[0].preferred_read_replica == -1


def test_an_incremental_fetch_reports_a_closer_replica_on_any_broker():
    """Broker 0, too: its number is not "none"."""
    place = TopicPartition(TOPIC, 0)
    cached = CachedPartition(place, TOPIC_ID, 0, 1 << 20, 0, -1, 0, sent_high_watermark=1, sent_log_start=0)
    answer = PartitionData(partition_index=0, error_code=0, high_watermark=1, log_start_offset=0, records=b"")
    assert not fetch._has_changed(cached, answer)
    answer.preferred_read_replica = 0
    assert fetch._has_changed(cached, answer)


def test_a_disk_that_refuses_a_read_takes_its_folder_offline(monkeypatch):
    broker = leading(0, folders=("/data", "/other"))
    put(broker, "m1")

    def refuse(*_arguments, **_options):
        raise DiskFailed("/data", "EIO")

    monkeypatch.setattr(broker.partition().log, "read", refuse, raising=True)
    assert Consumer(broker).ask({0: 0})[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.partition().failed
    assert broker.closed == []
