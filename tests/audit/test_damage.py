"""Each way in which a replica's folder can be damaged is found, with the place, and nothing else is."""

import pytest

from tests.audit.logs import (
    BROKERS,
    NAME,
    RECORDS,
    audited,
    batch,
    batches,
    flip,
    found,
    remove_segment,
    segment,
    write_cluster,
    write_replica,
)
from tidelog.audit.core import finding
from tidelog.audit.core.acknowledged import Acknowledged
from tidelog.log import checkpoints
from tidelog.model import TopicPartition
from tidelog.wire.records import HEADER_BYTES

TORN_AT = 2 * HEADER_BYTES


def test_nothing_is_found_where_nothing_is_wrong(tmp_path):
    write_cluster(tmp_path)
    report = audited(tmp_path)
    assert report.findings == []
    assert report.is_good
    (partition,) = report.partitions
    assert [(each.broker, each.start, each.end, each.batches) for each in partition.replicas] == [
        (broker, 0, 100 * RECORDS, 100) for broker in BROKERS
    ]
    assert partition.replicas[0].epochs == [(0, 0), (1, 150), (2, 300), (3, 450)]
    assert report.bytes == 3 * sum(map(len, batches(100)))


@pytest.mark.parametrize("number", [0, 2, 4])
def test_a_flipped_bit_in_a_record(tmp_path, number):
    path = write_cluster(tmp_path)[1]
    flip(segment(path, number), HEADER_BYTES + 10)
    assert found(audited(tmp_path)) == [(finding.CHECKSUM, (1,), number * 20 * RECORDS)]


def test_of_many_damaged_batches_the_first_are_reported_and_the_rest_counted(tmp_path):
    content = batches(150)
    write_cluster(tmp_path, content)
    write_replica(tmp_path / "rotten", 3, [raw[:-1] + bytes([raw[-1] ^ 1]) for raw in content])
    told = [each.sentence for each in audited(tmp_path).findings if each.kind == finding.CHECKSUM]
    assert told[:2] == [f"the checksum of the batch at offset {base} does not match" for base in (0, 5)]
    assert told[-1] == "and 140 more faults"


@pytest.mark.parametrize("position", [*range(8), *range(12, 16)])
def test_a_flipped_bit_that_the_checksum_does_not_cover(tmp_path, position):
    """Base offset and leader epoch: another replica says that it was different."""
    path = write_cluster(tmp_path)[2]
    flip(segment(path, 1), position)
    report = audited(tmp_path)
    assert not report.is_good
    assert {2} <= {broker for each in report.findings for broker in each.brokers}


@pytest.mark.parametrize("position", range(8, 12))
def test_a_flipped_bit_in_a_length(tmp_path, position):
    path = write_cluster(tmp_path)[0]
    flip(segment(path, 1), position)
    report = audited(tmp_path)
    kinds = {each.kind for each in report.findings}
    assert kinds <= {finding.DAMAGED, finding.CHECKSUM}
    assert finding.DAMAGED in kinds
    assert {each.brokers for each in report.findings} == {(0,)}


@pytest.mark.parametrize("left", [TORN_AT, 0])
def test_a_truncated_tail(tmp_path, left):
    """Cut within a batch, or between two: the checkpoints say what was there."""
    path = write_cluster(tmp_path)[1]
    file = segment(path, 4)
    file.write_bytes(file.read_bytes()[: left or -len(batches(100)[-1])])
    kinds = [(finding.TORN, (1,)), (finding.SHORT, (1,))] if left else [(finding.SHORT, (1,))]
    assert {each[:2] for each in found(audited(tmp_path))} >= set(kinds)
    assert {each[1] for each in found(audited(tmp_path))} == {(1,)}


@pytest.mark.parametrize(
    ("number", "kind", "start"),
    [(0, finding.BEGINNING, 0), (1, finding.GAP, 100), (3, finding.GAP, 300), (4, finding.SHORT, 400)],
)
def test_a_missing_segment(tmp_path, number, kind, start):
    path = write_cluster(tmp_path)[2]
    remove_segment(path, number)
    assert found(audited(tmp_path)) == [(kind, (2,), start)]


def test_a_missing_segment_of_a_log_that_is_read_in_pieces(tmp_path):
    path = write_cluster(tmp_path)[2]
    remove_segment(path, 2)
    assert found(audited(tmp_path, piece_bytes=1)) == [(finding.GAP, (2,), 200)]


def test_a_divergent_batch_of_the_same_epoch(tmp_path):
    content = batches(100)
    write_cluster(tmp_path, content)
    other = [*content]
    other[70] = batch(350, 2, *[b"w"] * RECORDS)
    write_replica(tmp_path / "more", 3, other)
    report = audited(tmp_path)
    (divergence,) = report.findings
    assert divergence[:4] == (finding.DIVERGENCE, "t", 0, (0, 1, 2, 3))
    assert divergence[5:] == (350, 355, 3)
    assert "broker 3 holds a batch of epoch 2, brokers 0, 1, 2 another" in divergence.sentence
    assert report.partitions[0].first_divergence == 350


def test_the_tail_of_an_old_leader_is_no_fault_until_it_was_committed(tmp_path):
    content = batches(60, epoch_of=lambda number: number // 50)
    write_replica(tmp_path, 0, content)
    old = [*content[:50], *batches(55, epoch_of=lambda _: 0)[50:]]
    old[50] = batch(250, 0, *[b"w"] * RECORDS)
    write_replica(tmp_path, 1, old, high_watermark=250)
    recovery = tmp_path / "1" / checkpoints.RECOVERY_POINTS
    assert found(audited(tmp_path)) == [(finding.TAIL, (1,), 250)]
    recovery.with_name(checkpoints.REPLICATION_OFFSETS).write_bytes(checkpoints.format_offsets([(NAME, 260)]))
    assert found(audited(tmp_path)) == [
        (finding.COMMITTED, (0, 1), 250),
        (finding.ELECTION, (1,), 250),
    ]


def test_what_an_unclean_election_lost_at_the_end_of_a_log(tmp_path):
    """The new leader has an epoch of its own, and less."""
    content = batches(50, epoch_of=lambda _: 0)
    write_replica(tmp_path, 0, content)
    path = write_replica(tmp_path, 1, content[:40])
    (path / checkpoints.LEADER_EPOCHS).write_bytes(checkpoints.format_epochs([(0, 0), (1, 200)]))
    report = audited(tmp_path)
    assert found(report) == [(finding.ELECTION, (0,), 200)]
    assert "50 of them were committed" in report.findings[0].sentence


def test_an_epoch_file_that_is_not_the_logs(tmp_path):
    paths = write_cluster(tmp_path)
    (paths[0] / checkpoints.LEADER_EPOCHS).write_bytes(checkpoints.format_epochs([(0, 0), (2, 300), (3, 450)]))
    (paths[1] / checkpoints.LEADER_EPOCHS).write_bytes(
        checkpoints.format_epochs([(0, 0), (1, 151), (2, 300), (3, 450), (9, 500)])
    )
    (paths[2] / checkpoints.LEADER_EPOCHS).write_bytes(b"0\n7\n")
    report = audited(tmp_path)
    assert found(report)[:2] == [(finding.EPOCHS, (0,), 150), (finding.EPOCHS, (1,), 150)]
    assert [each.kind for each in report.findings[2:]] == [finding.UNREADABLE]


def test_an_index_that_points_elsewhere(tmp_path):
    path = write_cluster(tmp_path)[1]
    index = sorted(path.glob("*.index"))[2]
    flip(index, 7, 2)
    assert found(audited(tmp_path)) == [(finding.INDEX, (1,), 209)]


def test_a_preallocated_index_and_log_end_in_zeros(tmp_path):
    path = write_cluster(tmp_path)[1]
    for file in (segment(path, 4), sorted(path.glob("*.index"))[4]):
        file.write_bytes(file.read_bytes() + bytes(4096))
    assert found(audited(tmp_path)) == []


def test_folders_that_belong_to_nobody(tmp_path):
    write_cluster(tmp_path)
    content = batches(3)
    write_replica(tmp_path / "x", 3, content, topic_id=bytes(range(1, 17)))
    (tmp_path / "0" / f"u-1.{'0' * 32}-stray").mkdir()
    (tmp_path / "1" / f"u-1.{'0' * 32}-delete").mkdir()
    report = audited(tmp_path)
    assert found(report) == [
        (finding.ORPHAN, (3,), -1),
        (finding.ORPHAN, (0,), -1),
        (finding.LEAVING, (1,), -1),
    ]
    assert [each.location for each in report.findings] == ["t-0", "u-1", "u-1"]
    assert [each.broker for each in report.partitions[0].replicas] == [0, 1, 2]


def test_a_replica_in_two_folders_of_its_broker(tmp_path):
    write_cluster(tmp_path)
    write_replica(tmp_path / "second", 1, batches(10))
    assert [(kind, brokers) for kind, brokers, _ in found(audited(tmp_path))] == [(finding.MISPLACED, (1,))]


def acknowledged(*offsets):
    from zlib import crc32

    return {NAME: [Acknowledged(offset, crc32(b"v%d" % offset)) for offset in offsets]}


def test_what_was_acknowledged_is_there(tmp_path):
    write_cluster(tmp_path)
    report = audited(tmp_path, acknowledged=acknowledged(*range(500)), piece_bytes=1)
    assert found(report) == []
    assert report.partitions[0].acknowledged == 500


def test_what_was_acknowledged_and_is_nowhere(tmp_path):
    wanted = acknowledged(3, 499, 500)
    wanted[NAME][0] = Acknowledged(3, 1)
    write_cluster(tmp_path)
    report = audited(tmp_path, acknowledged=wanted)
    assert found(report) == [(finding.ACKNOWLEDGED, (), 3), (finding.ACKNOWLEDGED, (), 500)]
    assert "another record is there" in report.findings[0].sentence


def test_what_was_acknowledged_and_the_leader_to_be_lacks(tmp_path):
    content = batches(50, epoch_of=lambda _: 0)
    write_replica(tmp_path, 0, content, high_watermark=100)
    path = write_replica(tmp_path, 1, content[:40], high_watermark=100)
    (path / checkpoints.LEADER_EPOCHS).write_bytes(checkpoints.format_epochs([(0, 0), (1, 200)]))
    report = audited(tmp_path, acknowledged=acknowledged(199, 200))
    assert found(report) == [(finding.ACKNOWLEDGED, (1,), 200), (finding.TAIL, (0,), 200)]


def test_only_the_topics_that_are_asked_for(tmp_path):
    write_cluster(tmp_path)
    write_replica(tmp_path / "more", 5, batches(3), name=TopicPartition("u", 1))
    assert [each.name for each in audited(tmp_path, topics=["u"]).partitions] == ["u-1"]
