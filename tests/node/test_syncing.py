"""What is synced when, by flush.ms, and which idle producers are forgotten."""

from tests.node.one_broker import TOPIC, WALL, OneBroker
from tidelog.sim.faults import Fault
from tidelog.wire.records import Record, build

ALONE = {"isr": (0,), "replicas": (0,)}
TOPICS = f"topics/{TOPIC}"


def leading(**options):
    broker = OneBroker(min_insync_replicas=1, **options)
    broker.lead(**ALONE)
    while broker.syncs:
        broker.synced()
    return broker


def test_records_are_synced_when_their_time_has_come():
    broker = leading(log_flush_interval_ms=500)
    began = broker.now.mono
    broker.passes(100)
    broker.produce("a")
    broker.passes(399)
    broker.produce("b")
    assert not broker.syncs
    broker.passes(1)
    assert len(broker.syncs) == 1
    assert broker.now.mono == began + 500, "time counts from the last flush, as in Kafka"
    broker.produce("c")
    broker.passes(500)
    assert len(broker.syncs) == 1, "one at a time"
    broker.synced()
    assert broker.partition().log.recovery_point == 2
    assert len(broker.syncs) == 1, "what came meanwhile was due"
    broker.synced()
    assert broker.partition().log.recovery_point == 3
    assert not broker.partition().flush_pending
    broker.passes(10_000)
    assert not broker.syncs, "nothing came"


def test_a_shorter_time_holds_for_what_waits_already():
    for entity in (TOPICS, "brokers/0"):
        broker = leading(log_flush_interval_ms=60_000)
        broker.produce("a")
        broker.passes(100)
        broker.configure(entity, **({"flush_ms": 300} if entity == TOPICS else {"log_flush_interval_ms": 300}))
        broker.passes(199)
        assert not broker.syncs, entity
        broker.passes(1)
        assert len(broker.syncs) == 1, entity


def test_a_longer_time_and_none_do_not_wake_the_broker_for_nothing():
    broker = leading(log_flush_interval_ms=300)
    broker.produce("a")
    broker.configure(TOPICS, flush_ms=60_000)
    broker.passes(59_999)
    assert not broker.syncs
    broker.passes(1)
    assert len(broker.syncs) == 1


def test_a_topic_that_is_deleted_meanwhile_is_not_synced():
    broker = leading(log_flush_interval_ms=300)
    broker.produce("a")
    broker.delete()
    broker.passes(300)
    assert not broker.syncs


def test_an_idle_producer_is_forgotten_after_its_time():
    broker = leading(producer_id_expiration_ms=5_000, producer_id_expiration_check_interval_ms=1_000)
    batch = build([Record(0, WALL, b"k", b"v")], producer_id=7, producer_epoch=0, base_sequence=0)
    broker.produce(records=batch)
    broker.passes(4_000)
    assert broker.partition().log.producers.get(7)
    broker.passes(2_000)
    assert broker.partition().log.producers.get(7) is None


def test_a_disk_that_refuses_what_follows_from_a_sync_takes_its_folder_offline():
    """A mark that the log was cut goes once that is durable."""
    broker = leading(log_flush_interval_ms=300)
    broker.partition().log.durability.truncate(0)
    broker.produce("a")
    broker.passes(300)
    broker.disk.faults.append(Fault("remove", ".cut"))
    broker.synced()
    assert broker.partition().failed
