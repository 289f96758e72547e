"""A folder that refuses takes its replicas along and nothing else; the controller hears of it, or the broker stops."""

from random import Random

from tests.node.one_broker import TOPIC_ID, OneBroker
from tidelog.controller import tree
from tidelog.errors import ErrorCode
from tidelog.log.checkpoints import PARTITION_METADATA, format_partition_metadata
from tidelog.ports import Children
from tidelog.sim.disk import SimDisk
from tidelog.sim.faults import Fault

FOLDERS = ("/a", "/b")
STORAGE = ErrorCode.KAFKA_STORAGE_ERROR


def two_folders(**more):
    """Partition 0 is in /a, 1 in /b."""
    broker = OneBroker(folders=FOLDERS, min_insync_replicas=1, **more)
    for index in (0, 1):
        broker.lead(isr=(0,), replicas=(0,), index=index)
    return broker


def told(broker):
    (names,) = broker.session.apply([Children(tree.LOG_DIR_EVENTS)]).values
    return len(names)


def code_of(broker, answer):
    return broker.answers[answer].topics[0].partition_errors[0].error_code


def test_only_its_own_replicas_are_offline_and_the_controller_hears_of_it():
    broker = two_folders()
    broker.disk.faults.append(Fault("write", "/a/"))
    assert broker.produced(broker.produce("m"))[0] == STORAGE
    assert [broker.partition(index).failed for index in (0, 1)] == [True, False]
    assert broker.produced(broker.produce("m", index=1)) == (0, 0)
    assert told(broker) == 1
    broker.passes(60_000)
    assert broker.stopped is None
    assert code_of(broker, broker.lead(isr=(0,), replicas=(0,), epoch=1)) == STORAGE


def test_without_any_folder_left_it_stops():
    broker = two_folders()
    for folder in FOLDERS:
        broker.give("disk_failed", 0, folder, "EIO")
    assert broker.stopped == "every log folder failed"


def test_it_stops_where_the_controller_does_not_hear_of_it_in_time():
    broker = two_folders(log_dir_failure_timeout_ms=5_000)
    broker.store_answers = False
    broker.give("disk_failed", 0, "/a", "EIO")
    broker.passes(4_999)
    assert broker.stopped is None
    broker.passes(2)
    assert broker.stopped == "the controller did not hear of a failed log folder in time"


def test_what_the_controller_heard_of_one_folder_says_nothing_of_another():
    broker = OneBroker(folders=("/a", "/b", "/c"), log_dir_failure_timeout_ms=5_000)
    broker.store_answers = False
    broker.give("disk_failed", 0, "/a", "EIO")
    broker.passes(1_000)
    broker.give("disk_failed", 0, "/b", "EIO")
    first = broker.stores.popleft()
    broker.give("store_result", first.token, broker.session.apply(first.operations))
    assert told(broker) == 1
    broker.passes(4_999)
    assert broker.stopped is None
    broker.passes(2)
    assert broker.stopped == "the controller did not hear of a failed log folder in time"


def test_a_replica_that_may_be_in_a_folder_that_is_offline_is_not_made_anew():
    broker = two_folders()
    broker.disk.kill()
    broker.disk.faults.append(Fault("*", "/a"))
    again = OneBroker(disk=broker.disk, folders=FOLDERS, min_insync_replicas=1)
    assert told(again) == 1, "what fails at the start is told, too"
    assert code_of(again, again.lead(isr=(0,), replicas=(0,))) == STORAGE
    assert again.partition(0) is None
    again.lead(isr=(0,), replicas=(0,), index=1)
    assert again.partition(1).log.folder == "/b/t-1"


def test_of_a_partition_in_two_folders_the_second_folder_is_refused():
    disk = SimDisk(list(FOLDERS), Random(0))
    for path in ("/a/t-0", "/b/t-0", "/b/t-1"):
        disk.make_folder(path)
        disk.replace(f"{path}/{PARTITION_METADATA}", format_partition_metadata(TOPIC_ID))
    broker = OneBroker(disk=disk, folders=FOLDERS, min_insync_replicas=1)
    (event,) = (event for event in broker.events if event.kind == "folder.failed")
    assert event.fields == {"folder": "/b", "reason": "t-0 is also in /a"}
    assert broker.partition(0).log.folder == "/a/t-0"
    assert broker.partition(1) is None
    assert broker.disk.exists("/b/t-0"), "nothing of it is touched"
