"""What of a replica's log counts after failed fsyncs, power losses and rot; its voter sets; what is committed."""

from random import Random

import pytest

from tests.quorum.replicas import FOLDER, ROOT, VOTERS, at, key, opened
from tidelog.errors import CorruptLog, DiskFailed
from tidelog.partition.truncation import EpochEnd
from tidelog.quorum.snapshots import control_batch
from tidelog.quorum.voters import VoterSet
from tidelog.sim.disk import SimDisk
from tidelog.sim.faults import Fault
from tidelog.wire.messages.cluster.metadata_log import Voter, VotersRecord
from tidelog.wire.records import Record, build, records


def batch(text: str) -> bytes:
    return build([Record(timestamp=1, value=text.encode() * 20)])


def filled(disk, *, synced: int = 3, more: int = 2):
    replica = opened(disk)
    for number in range(synced + more):
        replica.append(batch(f"{number}"), 1, at(1))
        if number < synced:
            sync(replica)
    return replica


def sync(replica) -> None:
    for file in replica.unsynced():
        file.sync()
    replica.synced(replica.end)


def disk() -> SimDisk:
    return SimDisk([ROOT], Random(1))


def test_what_a_failed_fsync_left_is_written_again():
    where = disk()
    replica = filled(where)
    assert (replica.synced_end, replica.end) == (3, 5)
    where.faults.append(Fault("sync", ".log", times=1))
    with pytest.raises(DiskFailed):
        sync(replica)
    where.kill()
    replica = opened(where)
    assert (replica.synced_end, replica.end) == (0, 5)
    sync(replica)
    where.lose_power()
    assert opened(where).end == 5


def test_a_torn_tail_is_cut_and_rot_in_what_was_committed_and_synced_is_not():
    where = disk()
    replica = filled(where)
    replica.raise_high_watermark(4)
    replica.close()
    path = f"{FOLDER}/{0:020d}.log"
    assert (opened(where).synced_end, opened(where).end, opened(where).high_watermark) == (4, 5, 4)
    whole = where.open(path).size()
    where.flip(path, whole - 3)
    assert opened(where).end == 4  # offset 4 may be torn
    where.flip(path, whole // 5 * 4 - 3)
    with pytest.raises(CorruptLog, match="offset 3 is damaged, although everything below 4 was committed"):
        opened(where)


def test_a_lost_segment_of_what_was_committed_is_rot():
    where = disk()
    replica = filled(where)
    replica.raise_high_watermark(4)
    replica.close()
    where.remove(f"{FOLDER}/{0:020d}.log")
    with pytest.raises(CorruptLog, match="offset 0 is damaged"):
        opened(where)


def test_only_what_is_synced_here_is_proved():
    where = disk()
    replica = filled(where)
    replica.raise_high_watermark(5)
    assert replica.to_save.high_watermark == 3
    sync(replica)
    assert replica.to_save.high_watermark == 5


@pytest.mark.parametrize("position", [17, 20, -4])
def test_a_damaged_file_about_what_was_committed_is_refused(position):
    where = disk()
    replica = filled(where)
    replica.raise_high_watermark(4)
    replica.close()
    where.flip(replica.committed_path, position % where.open(replica.committed_path).size())
    with pytest.raises(CorruptLog, match="committed-state: damaged; remove this voter"):
        opened(where)


def test_damaged_records_are_not_applied():
    where = disk()
    replica = filled(where)
    replica.raise_high_watermark(3)
    path = f"{FOLDER}/{0:020d}.log"
    where.flip(path, where.open(path).size() // 5 * 2 - 3)
    committed = replica.committed(0)
    assert next(committed).header.base_offset == 0
    with pytest.raises(CorruptLog, match="the batch at offset 1 is damaged"):
        next(committed)


def test_a_cut_is_not_taken_for_rot():
    where = disk()
    replica = filled(where)
    replica.raise_high_watermark(2)
    replica.close()
    replica = opened(where)
    assert replica.cut(EpochEnd(1, 2)) == 2
    where.lose_power()
    assert 2 <= opened(where).end <= 5


def test_nothing_committed_is_cut():
    replica = filled(disk())
    assert replica.raise_high_watermark(3)
    assert not replica.raise_high_watermark(2)
    with pytest.raises(AssertionError, match="cut at 2"):
        replica.cut(EpochEnd(1, 2))
    assert replica.cut(EpochEnd(1, 3)) == 3
    committed = list(replica.committed(1))
    assert [each.header.base_offset for each in committed] == [1, 2]
    assert [record.value for each in committed for record in records(each.content)] == [b"1" * 20, b"2" * 20]


def test_voter_sets_are_effective_when_appended_and_undone_by_a_cut():
    where = disk()
    replica = filled(where)
    fewer = VotersRecord(voters=[Voter(voter_id=n, voter_directory_id=key(n).directory) for n in (0, 1)])
    replica.append(control_batch([fewer], timestamp=1, base_offset=5, epoch=1), 1, at(1))
    assert replica.voters.latest == VoterSet([key(0), key(1)])
    sync(replica)
    replica.close()
    replica = opened(where)
    assert (replica.voters.latest.ids, replica.voters.latest_offset) == ((0, 1), 5)
    replica.cut(EpochEnd(1, 5))
    assert replica.voters.latest == VOTERS
