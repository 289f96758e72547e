"""Replicas are created and deleted durably, and the fsyncs of their folders do not hold the event loop."""

from tests.node.one_broker import CONTROLLER, TOPIC, TOPIC_ID, OneBroker
from tidelog.errors import ErrorCode
from tidelog.partition.leader import Leader
from tidelog.sim.faults import Fault
from tidelog.wire.messages.cluster.controller_pushes import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)

ALONE = {"isr": (0,), "replicas": (0,)}


def slow(**more):
    """A broker whose fsyncs of folders are done when the test says so."""
    broker = OneBroker(min_insync_replicas=1, **more)
    broker.syncs_folders = False
    return broker


def code_of(broker, number):
    answer = broker.answers[number]
    return answer.error_code or answer.topics[0].partition_errors[0].error_code


def test_a_replica_leads_once_its_folder_is_durable():
    broker = slow()
    number = broker.lead(**ALONE)
    assert broker.disk.exists("/data/t-0")
    assert "/data/t-0" not in broker.disk.durable, "the turn of the push did no fsync"
    assert number not in broker.answers
    assert broker.produced(broker.produce("m"))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.synced_folders()
    assert code_of(broker, number) == 0
    assert "/data/t-0" in broker.disk.durable
    assert broker.produced(broker.produce("m")) == (0, 0)
    broker.lead(**ALONE, epoch=1)
    assert not broker.folder_syncs, "nothing was created, so nothing is synced"
    assert broker.partition().epoch == 1


def test_what_came_later_counts_and_waits_for_its_own_replicas():
    broker = slow()
    first, second = broker.lead(**ALONE), broker.lead(**ALONE, epoch=1)
    assert second not in broker.answers, "its replica is not durable yet"
    other = broker.lead(**ALONE, index=1)
    assert len(broker.folder_syncs) == 1, "one at a time"
    broker.synced_folders()
    assert code_of(broker, first) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert code_of(broker, second) == ErrorCode.STALE_CONTROLLER_EPOCH, "the third is newer"
    assert other not in broker.answers, "it was created after this fsync began"
    assert not isinstance(broker.partition(1).role, Leader)
    broker.synced_folders()
    assert code_of(broker, other) == 0
    assert not broker.folder_syncs
    assert [isinstance(broker.partition(index).role, Leader) for index in (0, 1)] == [False, True]
    assert code_of(broker, broker.lead(**ALONE, epoch=1)) == 0, "the controller repeats what was refused"


def test_a_deletion_is_answered_and_its_files_go_once_it_is_durable():
    broker = slow()
    broker.lead(**ALONE)
    broker.synced_folders()
    number = broker.begin_delete()
    assert broker.partition() is None
    assert number not in broker.answers
    assert not broker.removed
    broker.synced_folders()
    assert [error.error_code for error in broker.answers[number].partition_errors] == [0]
    assert broker.removed == [f"/data/t-0.{TOPIC_ID.hex()}-delete"]
    assert "/data/t-0" not in broker.disk.durable


def test_a_replica_is_deleted_again_before_the_files_of_the_former_one_are_removed():
    """Its log directory went offline, and with it the broker."""
    broker = OneBroker(min_insync_replicas=1)
    for _ in range(3):
        broker.lead(**ALONE)
        assert broker.produced(broker.produce("m")) == (0, 0)
        broker.delete()
    names = [f"t-0.{TOPIC_ID.hex()}{number}-delete" for number in ("", ".1", ".2")]
    assert broker.removed == [f"/data/{name}" for name in names]
    assert not any(event.kind == "folder.failed" for event in broker.events)
    again = OneBroker(disk=broker.disk)
    assert not set(names).intersection(again.disk.list("/data"))


def test_what_a_former_life_deleted_and_left_takes_no_log_directory_offline():
    broker = OneBroker(min_insync_replicas=1, folders=("/a", "/b"))
    broker.lead(**ALONE)
    broker.delete()
    (left,) = broker.removed
    broker.disk.kill()
    broker.disk.faults.append(Fault("folder", "/b"))
    again = OneBroker(min_insync_replicas=1, folders=("/a", "/b"), disk=broker.disk)
    assert again.disk.exists(left), "a copy in the missing one may need its mark"
    again.lead(**ALONE, is_new=True)
    again.delete()
    assert again.node.replicas.live_folders == ["/a"]
    assert again.stopped is None
    assert again.removed == [left.replace("-delete", ".1-delete")]


def test_a_folder_that_fails_takes_only_its_own_replicas():
    broker = slow(folders=("/a", "/b"))
    numbers = [broker.lead(**ALONE, index=0), broker.lead(**ALONE, index=1)]
    broker.synced_folders()
    broker.disk.faults.append(Fault("sync", "/b"))
    while broker.folder_syncs:
        broker.synced_folders()
    assert [partition.failed for partition in map(broker.partition, (0, 1))] == [False, True]
    assert code_of(broker, numbers[1]) == ErrorCode.KAFKA_STORAGE_ERROR


def test_an_election_does_not_wait_for_a_disk_that_hangs():
    broker = slow(folders=("/a", "/b"))
    for index, folder in enumerate(("/a", "/b")):
        broker.lead(**ALONE, index=index)
        broker.synced_folders(folder)
    broker.lead(**ALONE, index=2)
    broker.synced_folders("/a")
    hung = broker.lead(**ALONE, index=3)
    assert [sync.paths for sync in broker.folder_syncs] == [["/b"]]
    numbers = [broker.lead(**ALONE, index=index, epoch=1) for index in (0, 1)]
    assert [broker.partition(index).epoch for index in (0, 1)] == [1, 1], "they were durable before"
    numbers.append(broker.lead(**ALONE, index=4))
    broker.synced_folders("/a")
    assert isinstance(broker.partition(4).role, Leader), "each folder has its own fsync"
    again = both(broker, 3, 0)
    assert broker.partition().epoch == 2, "the controller repeats what hangs together with what came since"
    assert not isinstance(broker.partition(3).role, Leader)
    assert again not in broker.answers
    broker.synced_folders("/b")
    assert code_of(broker, hung) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert [code_of(broker, number) for number in numbers] == [0, 0, 0], "a connection's answers keep their order"
    assert [e.error_code for e in broker.answers[again].topics[0].partition_errors] == [0, 0]
    assert isinstance(broker.partition(3).role, Leader)


def both(broker, *indexes):
    """The number of one request by which the broker leads several partitions in epoch 2."""
    states = [
        LeaderAndIsrPartitionState(partition_index=index, leader=0, leader_epoch=2, isr=[0], replicas=[0])
        for index in indexes
    ]
    topics = [LeaderAndIsrTopicState(topic_name=TOPIC, topic_id=TOPIC_ID, partition_states=states)]
    return broker.send(LeaderAndIsrRequest(controller_id=1, controller_epoch=1, topic_states=topics), CONTROLLER)


def test_a_replica_waits_until_its_predecessor_in_another_folder_is_gone():
    broker = slow(folders=("/a", "/b"))
    for index, folder in enumerate(("/a", "/b", "/a")):
        broker.lead(**ALONE, index=index)
        broker.synced_folders(folder)
    broker.begin_delete()
    broker.begin_delete(index=2)
    broker.node.replicas.preferred[broker.name(2)] = "/b"
    number = broker.lead(**ALONE, index=2, topic_id=b"another topic...")
    broker.synced_folders("/b")
    assert number not in broker.answers, "a power loss could bring the one in /a back beside it"
    broker.synced_folders("/a")
    assert number not in broker.answers, "this fsync began before that deletion"
    broker.synced_folders("/a")
    assert code_of(broker, number) == 0


def test_a_folder_that_fails_refuses_only_the_deletions_in_it():
    broker = slow(folders=("/a", "/b"))
    for index, folder in enumerate(("/a", "/b")):
        broker.lead(**ALONE, index=index)
        broker.synced_folders(folder)
    number = stop(broker, 0, 1, 7)
    broker.synced_folders("/a")
    assert number not in broker.answers
    broker.disk.faults.append(Fault("sync", "/b"))
    broker.synced_folders("/b")
    refused = [0, ErrorCode.KAFKA_STORAGE_ERROR, 0]
    assert [error.error_code for error in broker.answers[number].partition_errors] == refused, "7 is nowhere"
    assert broker.removed == [f"/a/t-0.{TOPIC_ID.hex()}-delete"]
    assert "/a/t-0" not in broker.disk.durable


def stop(broker, *indexes):
    """The number of one request that deletes several partitions."""
    states = [
        StopReplicaPartitionState(partition_index=index, leader_epoch=-2, delete_partition=True) for index in indexes
    ]
    topics = [StopReplicaTopicState(topic_name=TOPIC, partition_states=states, topic_id=TOPIC_ID)]
    return broker.send(StopReplicaRequest(controller_id=1, controller_epoch=1, topic_states=topics), CONTROLLER)


def test_what_a_life_before_deleted_is_made_durable_in_every_folder_once():
    broker = slow(folders=("/a", "/b"))
    broker.lead(**ALONE)
    broker.synced_folders("/a")
    broker.disk.faults.append(Fault("sync", "/b"))
    number = broker.begin_delete(index=7)
    assert [sync.paths for sync in broker.folder_syncs] == [["/b"]], "the fsync of /a came later than that life"
    broker.synced_folders()
    assert [error.error_code for error in broker.answers[number].partition_errors] == [ErrorCode.KAFKA_STORAGE_ERROR]
