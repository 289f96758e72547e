"""Compaction as a broker does it: chosen by the broker, in slices, checkpointed, and reported where it cannot be done."""

from random import Random

from tests.log.support import read_batches
from tests.node.one_broker import OneBroker
from tidelog.sim.disk import PowerCut
from tidelog.wire.records import Record, build, header, records

CHECKPOINT = "/data/cleaner-offset-checkpoint"
COMPACTED = {
    "log_cleanup_policy": "compact",
    "log_segment_bytes": 1_000,
    "log_cleaner_backoff_ms": 100,
    "log_cleaner_min_cleanable_ratio": "0.01",
    "min_insync_replicas": 1,
}


def broker_with_a_full_log(**options):
    broker = OneBroker(**{**COMPACTED, **options})
    broker.lead(isr=(0,), replicas=(0,))
    for number in range(60):
        produce(broker, number)
    return broker


def produce(broker, number):
    batch = build([Record(0, broker.now.wall, b"key-%d" % (number % 3), b"%d" % number * 40)])
    assert broker.produced(broker.produce(records=batch)) == (0, number)


def passes(broker, ms):
    """Time passes, with fsyncs that end at once."""
    for _ in range(ms // 10):
        broker.passes(10)
        while broker.syncs or broker.computations:
            if broker.syncs:
                broker.synced()
            else:
                broker.computed()


def replica(broker):
    return broker.node.replicas.get("t", 0)


def keys(broker):
    return [record.key for data in read_batches(replica(broker).log) for record in records(data)]


def told(broker, kind):
    return [event.fields for event in broker.events if event.kind == kind]


def test_a_dirty_log_is_compacted_and_the_checkpoint_says_how_far():
    broker = broker_with_a_full_log()
    passes(broker, 600)
    [told_once] = told(broker, "log.compacted")
    boundary = replica(broker).log.segments.active.base_offset
    assert told_once["end"] == boundary
    assert told_once["bytes_after"] < told_once["bytes_before"]
    assert len(keys(broker)) <= 3 + 60 - boundary
    assert broker.disk.read(CHECKPOINT) == f"0\n1\nt 0 {boundary}\n".encode()
    passes(broker, 1_000)
    assert len(told(broker, "log.compacted")) == 1, "there is nothing new to compact"


def test_a_log_that_was_compacted_is_not_compacted_again_after_a_restart():
    broker = broker_with_a_full_log()
    passes(broker, 600)
    broker.disk.kill()
    again = OneBroker(disk=broker.disk, **COMPACTED)
    again.lead(isr=(0,), replicas=(0,))
    assert replica(again).log.cleaned_to == replica(broker).log.cleaned_to
    passes(again, 1_000)
    assert told(again, "log.compacted") == []


def test_it_reads_and_writes_no_more_than_it_may():
    broker = broker_with_a_full_log(log_cleaner_io_max_bytes_per_second="10000")
    began = broker.now.mono
    while not told(broker, "log.compacted"):
        passes(broker, 10)
    bytes_read = 2 * told(broker, "log.compacted")[0]["bytes_before"]
    assert broker.now.mono - began > bytes_read / 10


def test_damage_makes_one_log_uncleanable_until_it_is_gone():
    broker = broker_with_a_full_log()
    file = replica(broker).log.segments[1].file
    healthy = file.read(70, 1)
    file.write(70, bytes([healthy[0] ^ 1]))
    passes(broker, 600)
    [failure] = told(broker, "log.uncleanable")
    assert "checksum" in failure["reason"]
    assert list(broker.node.upkeep.cleaning.uncleanable) == [("t", 0)]
    before = replica(broker).log.log_end_offset
    produce(broker, before)
    replica(broker).log.segments[1].file.write(70, healthy)
    passes(broker, 70_000)
    assert len(told(broker, "log.compacted")) >= 1
    assert not broker.node.upkeep.cleaning.uncleanable


def test_a_log_that_is_deleted_in_the_middle_of_a_pass_is_let_go():
    broker = broker_with_a_full_log()
    while not any(sync.token < 0 for sync in broker.syncs):
        broker.passes(broker.node.next_deadline - broker.now.mono)
        for sync in [sync for sync in broker.syncs if sync.token > 0]:
            broker.syncs.remove(sync)
            broker.give("synced", sync.token)
    broker.delete()
    while broker.syncs:
        broker.synced()
    passes(broker, 500)
    assert told(broker, "log.compacted") == []
    assert not [name for name in broker.disk.list("/data") if name.startswith("t-0") and "delete" not in name]


def test_a_topic_that_is_not_to_be_compacted_is_left_alone():
    broker = broker_with_a_full_log(log_cleanup_policy="delete")
    passes(broker, 1_000)
    assert told(broker, "log.compacted") == []
    assert len(keys(broker)) == 60
    assert all(header(data).count for data in read_batches(replica(broker).log))


class NothingSurvives(Random):
    """What a power loss leaves of what was not synced."""

    def choice(self, options):
        return options[0]

    def random(self):
        return 0.9


def by_key(broker, end=1 << 40):
    """key → the offset of its last record below `end`."""
    found = [record for data in read_batches(replica(broker).log) for record in records(data)]
    return {record.key: record.offset for record in found if record.offset < end}


def cut_off_after(operations):
    """Keys of durable records before a power loss within a compaction, and those after it; whether it came to that."""
    broker = OneBroker(**{**COMPACTED, "log_segment_bytes": 250})
    broker.lead(isr=(0,), replicas=(0,))
    for number in range(9):
        produce(broker, number)
    while broker.syncs:
        broker.synced()
    durable = by_key(broker, replica(broker).log.recovery_point)
    for number in range(9, 15):
        produce(broker, number)
    broker.disk.random = NothingSurvives()
    broker.disk.operations_left = operations
    try:
        for _ in range(60):
            broker.passes(10)
            for sync in [sync for sync in broker.syncs if sync.token < 0]:  # those of rolled segments take longer
                broker.syncs.remove(sync)
                for file in sync.files:
                    file.sync()
                broker.give("synced", sync.token)
        is_cut = False
    except PowerCut:
        is_cut = True
    broker.disk.lose_power()
    again = OneBroker(disk=broker.disk, **COMPACTED)
    again.lead(isr=(0,), replicas=(0,))
    return durable, by_key(again), is_cut


def test_a_durable_record_is_not_replaced_by_one_that_a_power_loss_would_take():
    operations, is_cut = 0, True
    while is_cut:
        before, after, is_cut = cut_off_after(operations)
        assert before.keys() <= after.keys(), operations
        assert all(after[key] >= offset for key, offset in before.items()), operations
        operations += 1
    assert operations > 10


def decompressing():
    """A broker that waits for the thread that decompresses a batch of a log that is being compacted."""
    broker = OneBroker(**{**COMPACTED, "log_segment_bytes": 300})
    broker.lead(isr=(0,), replicas=(0,))
    for number in range(6):
        value = b"%d" % number + bytes(200_000)
        broker.produce(records=build([Record(0, broker.now.wall, b"key", value)], compression=4))
        broker.computed()
    for _ in range(100):
        broker.passes(10)
        while broker.syncs:
            broker.synced()
        if broker.computations:
            return broker
    raise AssertionError("nothing is decompressed off the loop")


def test_while_a_large_batch_is_decompressed_requests_are_served():
    broker = decompressing()
    assert broker.produced(broker.produce("small")) == (0, 6)
    passes(broker, 1_000)
    assert told(broker, "log.compacted")
    assert keys(broker).count(b"key") < 6


def test_a_broker_that_stops_meanwhile_drops_the_result():
    broker = decompressing()
    broker.node.upkeep.cleaning.close()
    broker.computed()
    passes(broker, 1_000)
    assert told(broker, "log.compacted") == []
