"""Replicas that move between folders: what is copied, what is asked meanwhile, and a crash at every operation."""

from random import Random

import pytest

from tests.log.support import read_batches
from tests.node.one_broker import TOPIC, TOPIC_ID, OneBroker
from tidelog.errors import DiskFailed, ErrorCode
from tidelog.log.compaction.candidates import candidate
from tidelog.log.compaction.compactor import compact
from tidelog.log.compaction.steps import Flush
from tidelog.sim.disk import PowerCut, SimDisk
from tidelog.sim.faults import Fault
from tidelog.wire.messages.cluster.controller_pushes import UpdateMetadataPartitionState, UpdateMetadataTopicState
from tidelog.wire.messages.cluster.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
)
from tidelog.wire.records import Record, build, header

FOLDERS = ("/a", "/b")


def broker_of(disk=None, count=12, **options):
    """A leader whose only replica has `count` batches in several segments in /a."""
    options = {"folders": FOLDERS, "min_insync_replicas": 1, "log_segment_bytes": 250, **options}
    broker = OneBroker(disk=disk or SimDisk(list(FOLDERS), Random(3)), **options)
    broker.lead(isr=(0,), replicas=(0,))
    for number in range(count):
        assert broker.produced(broker.produce(f"m{number}"))[0] == 0
    return broker


def move(broker, folder, index=0):
    topic = AlterReplicaLogDirTopic(name=TOPIC, partitions=[index])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=folder, topics=[topic])])
    ((result,),) = (each.partitions for each in broker.ask(request, version=2).results)
    return result.error_code


def described(broker):
    """folder → [(is future, size, lag)] of the partition."""
    answer = broker.ask(DescribeLogDirsRequest(topics=None), version=4)
    return {
        each.log_dir: [(found.is_future_key, found.partition_size, found.offset_lag)
                       for topic in each.topics for found in topic.partitions]
        for each in answer.results
    }  # fmt: skip


def goes_on(broker, ms=3_000):
    for _ in range(ms // 10):
        broker.passes(10)
        while broker.syncs:
            broker.synced()


def held(broker):
    return read_batches(broker.partition().log)


def folders_with_it(disk):
    return [name for name in sorted(disk.names) if name.rpartition("/")[2].startswith("t-0") and name.count("/") == 2]


def home(broker):
    return broker.node.replicas.folder_of(broker.name())


def test_a_replica_moves_with_all_that_it_knows_and_serves_meanwhile():
    broker = broker_of()
    batch = build([Record(0, 1, None, b"idempotent")], producer_id=5, producer_epoch=0, base_sequence=0)
    broker.produce(records=batch)
    assert home(broker) == "/a"
    before, epochs = held(broker), list(broker.partition().log.epochs)
    assert move(broker, "/b") == 0
    broker.passes(1)
    [(is_future, _, _)] = described(broker)["/b"]
    assert is_future
    broker.produce("while it moves")
    goes_on(broker)
    assert home(broker) == "/b"
    assert described(broker)["/a"] == []
    assert [found[0] for found in described(broker)["/b"]] == [False]
    assert folders_with_it(broker.disk) == ["/b/t-0"] or broker.disk.exists("/b/t-0")
    assert held(broker)[:-1] == before
    assert list(broker.partition().log.epochs) == epochs
    assert broker.partition().high_watermark == 14
    assert broker.produced(broker.produce(records=batch)) == (0, 12), "its producers are known"
    assert broker.produced(broker.produce("after"))[0] == 0
    kinds = [event.kind for event in broker.events if event.kind.startswith("replica.")]
    assert kinds == ["replica.moving", "replica.moved"]


def test_a_copy_knows_where_epochs_began_whose_first_records_compaction_took():
    """Seed 100033. Otherwise it would report to a follower that an epoch before reached as far as the first record left."""
    options = {"log_cleanup_policy": "compact", "log_cleaner_min_cleanable_ratio": "0", "log_segment_bytes": 100_000}
    broker = broker_of(count=0, **options)

    def put(*keys):
        for key in keys:
            broker.produce(records=build([Record(0, 1, key, b"v" * 50)]))

    put(b"a", b"b")
    broker.lead(isr=(0,), replicas=(0,), epoch=3, partition_epoch=3)
    put(b"a", b"b", b"c", b"a", b"b", b"d", b"e")
    goes_on(broker)
    log = broker.partition().log
    log.roll(broker.now)
    for file in log.unsynced():
        file.sync()
    log.mark_synced(log.log_end_offset)
    for step in compact(candidate(log, log.recovery_point, broker.now.wall), broker.now.wall, 1 << 20):
        if isinstance(step, Flush):
            for file in step.files:
                file.sync()
    epochs = list(log.epochs)
    assert epochs == [(0, 0), (3, 2)]
    assert header(held(broker)[0]).base_offset > 2
    move(broker, "/b")
    goes_on(broker)
    assert home(broker) == "/b"
    assert list(broker.partition().log.epochs) == epochs
    again = OneBroker(disk=broker.disk, folders=FOLDERS, min_insync_replicas=1)
    assert list(again.partition().log.epochs) == epochs


def test_a_leader_that_moves_still_knows_its_own_epoch_of_which_it_has_no_record_yet():
    """Seed 1009414. A follower with records of the epoch before was told OFFSET_OUT_OF_RANGE, and never cut them off."""
    broker = broker_of(count=2)
    broker.lead(isr=(0,), replicas=(0,), epoch=3, partition_epoch=3)
    assert list(broker.partition().log.epochs) == [(0, 0), (3, 2)]
    move(broker, "/b")
    goes_on(broker)
    assert home(broker) == "/b"
    assert list(broker.partition().log.epochs) == [(0, 0), (3, 2)]
    assert broker.partition().diverging(2, 5) == (0, 2)


def test_it_stays_moved_after_a_restart():
    broker = broker_of()
    before = held(broker)
    move(broker, "/b")
    goes_on(broker)
    broker.give("stop")
    broker.passes(10_000)
    again = broker_of(disk=broker.disk, count=0)
    assert home(again) == "/b"
    assert held(again) == before


@pytest.mark.parametrize(
    ("path", "index", "code"),
    [
        ("/c", 0, ErrorCode.LOG_DIR_NOT_FOUND),
        ("b", 0, ErrorCode.LOG_DIR_NOT_FOUND),
        ("/b", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("/a", 0, ErrorCode.NONE),
    ],
)
def test_what_is_asked_wrongly_is_refused_as_kafka_does(path, index, code):
    broker = broker_of(count=1)
    assert move(broker, path, index) == code
    assert not broker.node.replicas.futures


def test_a_folder_that_failed_is_no_place_to_move_to():
    broker = broker_of(count=1)
    broker.give("disk_failed", 0, "/b", "EIO")
    assert move(broker, "/b") == ErrorCode.KAFKA_STORAGE_ERROR
    broker = broker_of(count=1)
    broker.give("disk_failed", 0, "/a", "EIO")
    assert move(broker, "/b") == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_replica_that_comes_later_is_created_where_it_was_requested():
    broker = broker_of(count=1)
    for index in (1, 2, 3):
        assert move(broker, "/a", index) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        broker.lead(isr=(0,), replicas=(0,), index=index)
        assert broker.partition(index).log.folder == f"/a/t-{index}"


def test_a_replica_that_is_being_created_may_be_asked_to_be_where_it_will_be():
    """Metadata may list a topic before its replica is opened here: the requested folder is the one it gets."""
    broker = broker_of(count=1)

    def told(index, *replicas):
        partition = UpdateMetadataPartitionState(partition_index=index, leader=replicas[0], replicas=[*replicas])
        topic = UpdateMetadataTopicState(topic_name=TOPIC, topic_id=TOPIC_ID, partition_states=[partition])
        broker.live(0, 1, 2, topic_states=[topic])

    told(1, 1, 2)
    assert move(broker, "/a", 1) == ErrorCode.REPLICA_NOT_AVAILABLE, "of other brokers"
    for index, folder in ((2, "/a"), (3, "/a"), (4, "/b")):
        told(index, 0, 1)
        assert move(broker, folder, index) == ErrorCode.NONE
        broker.lead(isr=(0,), replicas=(0, 1), index=index)
        assert broker.partition(index).log.folder == f"{folder}/t-{index}"
    told(5, 0, 1)
    broker.give("disk_failed", 0, "/b", "EIO")
    assert move(broker, "/a", 5) == ErrorCode.REPLICA_NOT_AVAILABLE, "it may be in the folder that is offline"


def test_another_request_replaces_the_first_and_the_present_folder_ends_the_move():
    broker = broker_of()
    move(broker, "/b")
    broker.passes(1)
    assert move(broker, "/a") == 0
    goes_on(broker)
    assert home(broker) == "/a"
    assert not broker.node.replicas.futures


def test_a_topic_that_is_deleted_takes_its_copy_along():
    broker = broker_of()
    move(broker, "/b")
    broker.passes(1)
    broker.delete()
    goes_on(broker)
    assert not broker.node.replicas.futures
    assert not [name for name in broker.disk.list("/b") if name.endswith("-future")]


def test_what_is_cut_off_in_the_middle_is_not_in_the_copy():
    broker = broker_of(count=4)
    move(broker, "/b")
    broker.passes(20)
    assert broker.node.replicas.futures[broker.name()][0].log_end_offset == 4
    broker.partition().truncate_to(2)
    broker.lead(isr=(0,), replicas=(0,), epoch=3, partition_epoch=3)
    for text in ("other 2", "other 3", "other 4"):
        broker.produce(text)
    expected = held(broker)
    goes_on(broker)
    assert home(broker) == "/b"
    assert held(broker) == expected


def test_a_move_to_a_folder_that_fails_leaves_the_replica_where_it_is():
    broker = broker_of()
    move(broker, "/b")
    broker.disk.faults.append(Fault("write", "/b/"))
    goes_on(broker)
    assert home(broker) == "/a"
    assert not broker.partition().failed
    assert broker.produced(broker.produce("m"))[0] == 0
    assert broker.node.replicas.live_folders == ["/a"]


def test_a_copy_whose_files_cannot_be_opened_for_their_sync_is_given_up(monkeypatch):
    broker = broker_of()
    move(broker, "/b")
    copy, _ = broker.node.replicas.futures[broker.name()]

    def refuse():
        raise DiskFailed("/b", "EIO")

    monkeypatch.setattr(copy, "unsynced", refuse)
    goes_on(broker)
    assert home(broker) == "/a"
    assert broker.node.replicas.futures == {}


def test_a_higher_rate_is_taken_by_a_copy_that_waits_for_its_next_slice():
    broker = broker_of(replica_alter_log_dirs_io_max_bytes_per_second=1)
    move(broker, "/b")
    goes_on(broker)
    assert home(broker) == "/a"
    broker.configure("brokers/<default>", replica_alter_log_dirs_io_max_bytes_per_second=1_000_000)
    goes_on(broker)
    assert home(broker) == "/b"


def test_a_move_to_a_folder_without_room_waits():
    broker = broker_of()
    move(broker, "/b")
    broker.disk.faults.append(Fault("write", "/b/", "ENOSPC"))
    goes_on(broker)
    assert home(broker) == "/a"
    assert broker.produced(broker.produce("m"))[0] == 0
    broker.disk.faults.clear()
    goes_on(broker, 5_000)
    assert home(broker) == "/b"


def crash(after, how, *, leftover=False):
    """A life that is cut short by so many disk operations within a move, and the next one; whether it came to that.
    `leftover`: a loss of power left a folder of the replica's name, without a topic id, where it goes."""
    broker = broker_of(count=5)
    if leftover:
        broker.disk.make_folder("/b/t-0")
    before = held(broker)
    while broker.syncs:
        broker.synced()
    for path in sorted(broker.disk.names):
        if broker.disk.names[path] is not None:
            broker.disk.open(path).sync()
    broker.disk.operations_left = after
    is_cut = True
    try:
        move(broker, "/b")
        goes_on(broker, 200)
        is_cut = False
    except PowerCut:
        pass
    getattr(broker.disk, how)()
    again = broker_of(disk=broker.disk, count=0)
    assert held(again) == before, after
    goes_on(again)
    assert held(again) == before, after
    final = [name for name in folders_with_it(again.disk) if name.endswith("/t-0")]
    home_folder = again.partition().log.folder
    assert final == sorted({home_folder, "/b/t-0"} if leftover else {home_folder}), after
    assert leftover or not [name for name in folders_with_it(again.disk) if name.endswith("-stray")]
    assert again.produced(again.produce("after"))[0] == 0
    return is_cut, home(again)


@pytest.mark.parametrize("leftover", [False, True])
@pytest.mark.parametrize("how", ["kill", "lose_power"])
def test_a_crash_at_any_operation_loses_nothing_and_leaves_one_replica(how, leftover):
    after, homes = 0, set()
    while True:
        is_cut, where = crash(after, how, leftover=leftover)
        homes.add(where)
        if not is_cut:
            break
        after += 1
    assert after > 60
    assert where == "/b"
    assert homes == {"/a", "/b"}


def test_a_copy_whose_replica_is_in_a_folder_that_is_offline_waits_for_it():
    broker = broker_of(count=5)
    move(broker, "/b")
    broker.passes(1)
    broker.disk.kill()
    broker.disk.faults.append(Fault("*", "/a"))
    again = OneBroker(disk=broker.disk, folders=FOLDERS, min_insync_replicas=1)
    again.lead(isr=(0,), replicas=(0,))
    assert again.partition() is None, "it may be in the folder that is offline"
    assert [name for name in again.disk.list("/b") if name.endswith("-future")]


@pytest.mark.parametrize("folders", [("/a", "/b"), ("/a", "/b", "/c")])
def test_a_folder_that_is_offline_when_an_exchange_is_to_be_finished_loses_no_replica(folders, monkeypatch):
    broker = OneBroker(min_insync_replicas=1, folders=folders)
    broker.lead(isr=(0,), replicas=(0,))
    assert broker.produced(broker.produce("m")) == (0, 0)
    disk, log, mark = broker.disk, broker.partition().log, "ab" * 16
    assert log.folder == "/a/t-0"
    log.close(clean=True)
    disk.rename("/a/t-0", f"{folders[-1]}/t-0.{mark}-future")
    disk.make_folder(f"/a/t-0.{mark}-delete")  # as a crash within the exchange leaves them
    whole = disk.list

    def refuse(folder):
        if f"{folder}/".startswith("/b/"):
            raise DiskFailed("/b", "EIO")
        return whole(folder)

    with monkeypatch.context() as broken:
        broken.setattr(disk, "list", refuse)
        OneBroker(disk=disk, min_insync_replicas=1, folders=folders)
    broker = OneBroker(disk=disk, min_insync_replicas=1, folders=folders)
    broker.lead(isr=(0,), replicas=(0,), epoch=1)
    assert (broker.partition().log.folder, broker.partition().log.log_end_offset) == (f"{folders[-1]}/t-0", 1)
    assert not disk.exists(f"/a/t-0.{mark}-delete")
