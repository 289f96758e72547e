"""Logs that begin after a snapshot: what they are compared by, how they are opened, and what others fetch from them."""

from copy import deepcopy
from random import Random

import pytest

from tests.quorum.replicas import FOLDER, ROOT, VOTERS, One, at, key, opened
from tests.quorum.test_quorum import batch
from tests.quorum.test_replica import sync
from tidelog.effects import Sync
from tidelog.errors import CorruptLog, ErrorCode
from tidelog.quorum import requests
from tidelog.quorum.committed_file import CommittedState, format_committed
from tidelog.quorum.election import LogEnd
from tidelog.quorum.requests import LeaderAndEpoch, answered_partition
from tidelog.quorum.snapshots import QuorumState, SnapshotId, content_of
from tidelog.quorum.tree import TreeImage
from tidelog.quorum.voters import VoterSet, voter_record
from tidelog.sim.disk import PowerCut, SimDisk
from tidelog.wire.messages.cluster.fetch_snapshot import FetchSnapshotRequest

WHICH = SnapshotId(100, 7)
CONTENT = b"".join(
    content_of(
        WHICH.epoch,
        TreeImage({}, ()).records(),
        QuorumState(1, [voter_record(key(n)) for n in (0, 1)]),
        last_timestamp=5,
    )
)

QUORUM_STATE = (
    b'{"leaderId":-1,"leaderEpoch":7,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
)


def disk_with(*snapshots, seed=1):
    disk = SimDisk([ROOT], Random(seed))
    disk.make_folder(FOLDER)
    for which in snapshots:
        content = CONTENT if which == WHICH else b"".join(content_of(which.epoch, (), QuorumState(), last_timestamp=1))
        disk.replace(f"{FOLDER}/{which.file_name}", content)
    return disk


def test_a_log_that_is_behind_its_snapshot_starts_over_there():
    disk = disk_with()
    replica = opened(disk)
    replica.append_fetched(batch(3, 0), at(1))
    sync(replica)
    disk.replace(f"{FOLDER}/{WHICH.file_name}", CONTENT)
    replica = opened(disk)
    assert (replica.log.log_start_offset, replica.end, replica.high_watermark) == (100, 100, 100)
    assert replica.log_end == LogEnd(7, 100)
    assert replica.voters.latest == VoterSet([key(0), key(1)])
    assert replica.kraft_versions.latest == 1
    replica.append_fetched(batch(9, 100), at(1))
    sync(replica)
    disk.lose_power()
    replica = opened(disk)
    assert (replica.log.log_start_offset, replica.log_end) == (100, LogEnd(9, 101))


def test_a_log_with_other_records_up_to_the_snapshots_end_starts_over():
    disk = disk_with()
    replica = opened(disk)
    for offset in range(120):
        replica.append_fetched(batch(6, offset), at(1))
    sync(replica)
    disk.replace(f"{FOLDER}/{WHICH.file_name}", CONTENT)
    assert opened(disk).log_end == LogEnd(7, 100)


def test_a_log_that_has_what_the_snapshot_has_goes_on():
    disk = disk_with()
    replica = opened(disk)
    for offset in range(120):
        replica.append_fetched(batch(7, offset), at(1))
    sync(replica)
    disk.replace(f"{FOLDER}/{WHICH.file_name}", CONTENT)
    replica = opened(disk)
    assert (replica.log.log_start_offset, replica.log_end, replica.high_watermark) == (100, LogEnd(7, 120), 100)


@pytest.mark.parametrize("ends_by", ["kill", "power"])
@pytest.mark.parametrize("records", [5, 120])
def test_a_crash_anywhere_while_it_starts_over_leaves_the_snapshots_log_and_no_older_snapshot(records, ends_by):
    before = disk_with(SnapshotId(0, 0))
    replica = opened(before)
    for offset in range(records):
        # Of an epoch above the snapshot's, and never committed; one segment begins where the snapshot ends.
        replica.append_fetched(batch(9, offset), at(1))
        if offset in (59, 99):
            replica.log.roll(at(1))
    sync(replica)
    replica.log.close(clean=False)
    before.replace(f"{FOLDER}/{WHICH.file_name}", CONTENT)
    operations, is_done = 0, False
    while not is_done:
        disk = deepcopy(before)
        disk.random.seed(operations)
        disk.operations_left = operations
        try:
            opened(disk)
            is_done = True
        except PowerCut:
            pass
        if ends_by == "power":
            disk.lose_power()
        disk.kill()
        disk.mend()
        replica = opened(disk)
        assert (replica.log.log_start_offset, replica.log_end) == (100, LogEnd(7, 100)), operations
        assert replica.snapshots.oldest == replica.snapshots.newest == WHICH, operations
        replica.log.close(clean=False)
        operations += 1
    assert operations > 20


def test_a_torn_file_of_the_topics_id_is_written_again_whatever_is_committed():
    disk = disk_with(WHICH)
    opened(disk)
    disk.replace(f"{FOLDER}/partition.metadata", b"vers")
    assert opened(disk).log_end == LogEnd(7, 100)


def test_a_log_that_lost_its_beginning_is_rot_unless_a_snapshot_has_it():
    for last, ok in ((SnapshotId(40, 7), False), (WHICH, True)):
        disk = disk_with()
        replica = opened(disk)
        for offset in range(150):
            replica.append_fetched(batch(7, offset), at(1))
            if offset == 59:
                replica.log.roll(at(1))
        sync(replica)
        disk.remove(f"{FOLDER}/{0:020d}.log")
        disk.replace(f"{FOLDER}/{last.file_name}", b"".join(content_of(7, (), QuorumState(), last_timestamp=1)))
        if ok:
            assert opened(disk).log.log_start_offset == 100  # where another log can be compared with it
        else:
            with pytest.raises(CorruptLog, match="begins at offset 60 without a snapshot"):
                opened(disk)


def leader_after_snapshot():
    """Node 0 leads with a log that begins at the snapshot, in epoch 8."""
    disk = disk_with(WHICH)
    disk.replace(f"{FOLDER}/quorum-state", QUORUM_STATE)
    one = One(0, disk)
    one.lead()
    assert one.quorum.epoch == 8
    return one


@pytest.mark.parametrize(("offset", "epoch"), [(0, 0), (50, 3), (50, 7), (50, 8), (100, 6), (100, 8), (101, 6)])
def test_who_lacks_what_a_snapshot_has_is_sent_to_it(offset, epoch):
    one = leader_after_snapshot()
    answer = answered_partition(one.answers[one.fetch(1, offset, epoch)])
    assert requests.snapshot_of(answer) == WHICH
    assert answer.error_code == ErrorCode.NONE


def test_who_has_what_the_snapshot_has_gets_records_or_where_logs_diverge():
    one = leader_after_snapshot()
    assert answered_partition(one.answers[one.fetch(1, 100, 7)]).records.length > 0
    end = answered_partition(one.answers[one.fetch(1, 105, 7)]).diverging_epoch
    assert (end.epoch, end.end_offset) == (7, 100)


def slice_request(which, position, *, epoch=8, most=100):
    return requests.snapshot_request("c", key(1), epoch, which, position, most)


def test_a_leader_gives_slices_of_its_snapshots_and_says_what_is_wrong():
    one = leader_after_snapshot()
    answer = one.answered(slice_request(WHICH, 10))
    assert (answer.size, answer.position, bytes(answer.unaligned_records)) == (len(CONTENT), 10, CONTENT[10:110])
    for which, position, epoch, code in (
        (SnapshotId(99, 7), 0, 8, ErrorCode.SNAPSHOT_NOT_FOUND),
        (SnapshotId(0, 0), 0, 8, ErrorCode.SNAPSHOT_NOT_FOUND),
        (WHICH, len(CONTENT), 8, ErrorCode.POSITION_OUT_OF_RANGE),
        (WHICH, -1, 8, ErrorCode.POSITION_OUT_OF_RANGE),
        (WHICH, 0, 7, ErrorCode.FENCED_LEADER_EPOCH),
        (WHICH, 0, 9, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        assert one.answered(slice_request(which, position, epoch=epoch)).error_code == code
    follower = One(1)
    follower.begin(0, 8)
    assert follower.answered(slice_request(WHICH, 0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def told_to_fetch_snapshot(voters=VOTERS):
    """A follower of node 0, in epoch 8, that begins to fetch the snapshot."""
    one = One(1, voters=voters)
    one.begin(0, 8)
    asked = one.asked.pop()
    answer = requests.fetch_response(
        LeaderAndEpoch(0, 8), snapshot_id=answered_partition_snapshot(), high_watermark=100
    )
    one.quorum.answered(asked.token, answer, at(one.now))
    one.take()
    return one


def answered_partition_snapshot():
    from tidelog.wire.messages.records.fetch import SnapshotId as Wire

    return Wire(end_offset=WHICH.end_offset, epoch=WHICH.epoch)


def give_slice(one, content=CONTENT, most=150, code=ErrorCode.NONE):
    asked = one.asked.pop()
    assert isinstance(asked.request, FetchSnapshotRequest)
    position = asked.request.topics[0].partitions[0].position
    answer = requests.snapshot_response(
        LeaderAndEpoch(0, 8),
        WHICH,
        code,
        size=len(content),
        position=position,
        records=content[position : position + most],
    )
    one.quorum.answered(asked.token, answer, at(one.now))
    one.take()


def finish(one):
    for _ in range(20):
        one.settle()
        one.wait(0)


def test_a_follower_fetches_a_snapshot_in_slices_and_starts_over_after_it():
    one = told_to_fetch_snapshot()
    while not one.quorum.replica.end:
        give_slice(one)
        if not one.asked:
            finish(one)
    replica = one.quorum.replica
    assert (replica.log_end, replica.high_watermark) == (LogEnd(7, 100), 100)
    assert replica.voters.latest == VoterSet([key(0), key(1)])
    assert one.asked[-1].request.topics[0].partitions[0].fetch_offset == 100
    one.disk.lose_power()
    assert opened(one.disk).log_end == LogEnd(7, 100)


def test_a_damaged_snapshot_is_fetched_again():
    one = told_to_fetch_snapshot()
    damaged = bytearray(CONTENT)
    damaged[-5] ^= 1
    while one.asked:
        give_slice(one, bytes(damaged))
    finish(one)
    assert one.quorum.replica.end == 0
    assert one.asked[-1].request.topics[0].partitions[0].fetch_offset == 0
    assert [name for name in one.disk.list(FOLDER) if "checkpoint" in name and "epoch" not in name] == []


def test_a_snapshot_that_the_leader_has_no_more_is_given_up():
    one = told_to_fetch_snapshot()
    give_slice(one)
    give_slice(one, code=ErrorCode.SNAPSHOT_NOT_FOUND)
    assert one.asked[-1].request.topics[0].partitions[0].fetch_offset == 0


def test_a_snapshot_of_an_epoch_that_ended_is_given_up_without_closing_a_file_in_use():
    one = told_to_fetch_snapshot()
    while one.asked:
        give_slice(one)
    while not one.writes:
        one.wait(0)
    one.request(requests.begin_request("c", one.quorum.me, LeaderAndEpoch(2, 9)))
    finish(one)  # the sync of its file ends well
    assert one.quorum.replica.end == 0
    assert one.asked[-1].target == 2


def test_a_file_that_says_where_the_log_begins_outlives_what_was_before():
    disk = disk_with(WHICH)
    replica = opened(disk_with())
    replica.append_fetched(batch(9, 0), at(1))
    disk.replace(f"{FOLDER}/committed-state", format_committed(CommittedState(100, 100)))
    disk.open(f"{FOLDER}/{0:020d}.log", create=True).write(0, batch(9, 0))
    assert opened(disk).log_end == LogEnd(7, 100)


def test_a_log_that_begins_behind_its_newest_snapshot_is_rot():
    disk = disk_with(SnapshotId(40, 7))
    disk.replace(f"{FOLDER}/committed-state", format_committed(CommittedState(100, 100)))
    with pytest.raises(CorruptLog, match="begins at offset 100 without a snapshot"):
        opened(disk)


def test_nothing_counts_as_synced_in_a_log_that_starts_over_until_that_is_saved():
    one = told_to_fetch_snapshot()
    while not one.quorum.replica.saved.starts_over:
        if one.asked and isinstance(one.asked[-1].request, FetchSnapshotRequest):
            give_slice(one)
        one.wait(0)
        finish_one(one)
    replica = one.quorum.replica
    assert (replica.end, replica.synced_end) == (100, 0)
    replica.append_fetched(batch(8, 100), at(1))
    finish_one(one)
    assert (replica.end, replica.synced_end, replica.saved.starts_over) == (101, 100, True)
    disk_before = opened(one.disk)
    assert disk_before.log_end == LogEnd(7, 100)  # as a crash now would leave it
    finish(one)
    assert (replica.synced_end, replica.saved.starts_over) == (101, False)


def finish_one(one):
    """End one write, well."""
    for write in one.writes[:1]:
        one.writes = one.writes[1:]
        if isinstance(write, Sync):
            for file in write.files:
                file.sync()
        else:
            one.disk.replace(write.path, write.content)
        one.quorum.synced(write.token, at(one.now))
        one.take()


def test_a_snapshot_that_is_done_after_the_log_started_over_behind_it_is_removed():
    one = told_to_fetch_snapshot()
    replica = one.quorum.replica
    for offset in range(60):
        replica.append_fetched(batch(7, offset), at(1))
    sync(replica)
    replica.raise_high_watermark(60)
    assert one.quorum.make_snapshot(60, TreeImage({}, ()), at(0).wall, at(one.now))
    late = []
    while replica.end != 100:
        if one.asked and isinstance(one.asked[-1].request, FetchSnapshotRequest):
            give_slice(one)
        one.wait(0)
        own = SnapshotId(60, 7).file_name
        late += [each for each in one.writes if isinstance(each, Sync) and own in each.files[0].path]
        one.writes = [each for each in one.writes if each not in late]
        finish_one(one)
    one.writes += late
    finish(one)
    assert replica.snapshots.oldest == replica.snapshots.newest == WHICH
    assert SnapshotId(60, 7).file_name not in one.disk.list(FOLDER)
    assert replica.snapshot_for(7, 100) is None


def test_requests_without_progress_are_bounded():
    """By a leader that always sends a follower to a snapshot that it has."""
    disk = disk_with(WHICH)
    disk.replace(f"{FOLDER}/quorum-state", QUORUM_STATE)
    one = One(1, disk)
    one.begin(0, 8)
    requested = 0
    for _ in range(1_000):
        for asked in one.asked:
            answer = requests.fetch_response(LeaderAndEpoch(0, 8), snapshot_id=answered_partition_snapshot())
            one.asked = []
            one.quorum.answered(asked.token, answer, at(one.now))
            one.take()
            requested += 1
        one.wait(1)
    assert 3 < requested <= 51


def test_a_snapshot_is_made_in_slices_and_what_is_beyond_the_retention_is_removed():
    one = leader_after_snapshot()
    options = one.quorum.options
    one.quorum.options = options._replace(retention_bytes=0)
    one.fetch(1, 101, 8)
    assert one.quorum.replica.high_watermark == 101
    assert not one.quorum.make_snapshot(100, TreeImage({}, ()), 1, at(one.now))
    assert one.quorum.make_snapshot(101, TreeImage({}, ()), 1, at(one.now))
    assert not one.quorum.make_snapshot(101, TreeImage({}, ()), 1, at(one.now))
    finish(one)
    replica = one.quorum.replica
    assert replica.snapshots.newest == SnapshotId(101, 8)
    assert replica.log.log_start_offset == 101
    assert (replica.log.size, len(replica.log.segments)) == (0, 1)  # the log is bounded: its active segment was rolled
    assert WHICH not in replica.snapshots
    assert requests.snapshot_of(answered_partition(one.answers[one.fetch(2, 100, 7)])) == SnapshotId(101, 8)
    again = opened(one.disk)
    assert again.snapshots.newest == SnapshotId(101, 8)
    assert again.voters.latest.ids == (0, 1)
