"""Folders as a crash, a deletion or a roll leaves them: nothing is found in what recovery would mend, and what is missing
in front of an empty segment, or from replicas with nothing left, is found all the same."""

import pytest

from tests.audit.logs import (
    BROKERS,
    NAME,
    RECORDS,
    audited,
    batch,
    batches,
    found,
    remove_segment,
    segment,
    write_cluster,
    write_replica,
)
from tidelog.audit.core import finding
from tidelog.audit.core.acknowledged import Acknowledged
from tidelog.audit.io import folders
from tidelog.log import checkpoints, names

END = 100 * RECORDS


def epochs(path, *entries):
    (path / checkpoints.LEADER_EPOCHS).write_bytes(checkpoints.format_epochs(entries))


def empty_segment(path, base):
    (path / names.name(base, names.LOG)).write_bytes(b"")


# A deletion takes epochs away before the log's start is written down.


@pytest.mark.parametrize("start", [10, 150, 175, 299, 450, 499, END])
def test_records_were_deleted_and_the_checkpoint_of_starts_is_not_written_yet(tmp_path, start):
    path = write_cluster(tmp_path)[1]
    kept = [(epoch, max(first, start)) for epoch, first in ((0, 0), (1, 150), (2, 300), (3, 450))]
    ends = [150, 300, 450, END]
    epochs(path, *[entry for entry, end in zip(kept, ends, strict=True) if end > start or entry[0] == 3])
    assert found(audited(tmp_path)) == []


def test_the_epoch_that_the_file_begins_with_must_be_that_of_the_log(tmp_path):
    path = write_cluster(tmp_path)[1]
    epochs(path, (1, 175), (2, 301), (3, 450))
    assert found(audited(tmp_path)) == [(finding.EPOCHS, (1,), 300)]


def test_an_epoch_of_a_compacted_log_that_was_deleted_up_to_where_nothing_is_left(tmp_path):
    """Epoch 1 was compacted away; records up to its middle were deleted after that."""
    content = [raw for number, raw in enumerate(batches(90)) if not 25 <= number < 60]
    for broker in BROKERS:
        epochs(write_replica(tmp_path, broker, content), (1, 200), (2, 300))
    assert found(audited(tmp_path, compacted=[NAME.topic])) == []


# An empty last segment.


def test_an_empty_segment_follows_a_log_that_is_whole(tmp_path):
    for path in write_cluster(tmp_path):
        empty_segment(path, END)
    report = audited(tmp_path)
    assert found(report) == []
    assert {each.end for each in report.partitions[0].replicas} == {END}


@pytest.mark.parametrize("piece_bytes", [1, 1_000_000])
def test_a_segment_is_missing_in_front_of_an_empty_one(tmp_path, piece_bytes):
    paths = write_cluster(tmp_path)
    for path in paths:
        empty_segment(path, END)
    remove_segment(paths[2], 4)
    assert found(audited(tmp_path, piece_bytes=piece_bytes)) == [(finding.GAP, (2,), 400)]


def test_everything_was_deleted_and_the_last_segment_is_empty(tmp_path):
    for path in write_cluster(tmp_path):
        for number in reversed(range(5)):
            remove_segment(path, number)
        empty_segment(path, END)
        epochs(path, (3, END))
    report = audited(tmp_path, acknowledged={NAME: [Acknowledged(3, 7)]})
    assert found(report) == []
    assert {(each.start, each.end) for each in report.partitions[0].replicas} == {(END, END)}


def test_replicas_that_agree_on_having_nothing_have_lost_what_was_acknowledged(tmp_path):
    for path in write_cluster(tmp_path):
        for number in reversed(range(5)):
            remove_segment(path, number)
        empty_segment(path, 0)
        for name in (checkpoints.REPLICATION_OFFSETS, checkpoints.RECOVERY_POINTS):
            (path.parent / name).unlink()
    report = audited(tmp_path, acknowledged={NAME: [Acknowledged(3, 7)]})
    assert found(report) == [(finding.ACKNOWLEDGED, (), 3)]
    assert report.findings[0].sentence == "the record acknowledged at offset 3 is on no replica"


# What cannot be read is not what is missing.


def test_a_segment_that_cannot_be_read_is_no_gap_and_nobody_says_what_was_in_it(tmp_path, monkeypatch):
    path = write_cluster(tmp_path)[0]
    hidden, read = segment(path, 2), folders.segment_files.read_segment

    def refuses(file, *others, **more):
        if file == str(hidden):
            raise OSError(5, "Input/output error", file)
        return read(file, *others, **more)

    monkeypatch.setattr(folders.segment_files, "read_segment", refuses)
    wanted = {NAME: [Acknowledged(250, 7)]}
    report = audited(tmp_path, piece_bytes=1)
    assert found(report) == [(finding.UNREADABLE, (0,), 200)]
    assert "Input/output error" in report.findings[0].sentence
    (lost,) = [each for each in audited(tmp_path, piece_bytes=1, acknowledged=wanted).findings if each.is_broken]
    assert lost.sentence == (
        "the record acknowledged at offset 250 is on no replica that could be read; another record is there"
    )


def test_what_cannot_be_read_the_second_time_is_not_compared(tmp_path, monkeypatch):
    """To say where chunks differ they are read again: by then a disk may be gone."""
    content = batches(100)
    other = [*content]
    other[50] = batch(250, 1, *[b"w"] * RECORDS)
    write_replica(tmp_path, 0, content)
    path = write_replica(tmp_path, 1, other)
    hidden, read, asked = str(segment(path, 2)), folders.segment_files.read_segment, []

    def refuses(file, *others, **more):
        asked.append(file)
        if asked.count(hidden) == 2:
            raise OSError(5, "Input/output error", file)
        return read(file, *others, **more)

    monkeypatch.setattr(folders.segment_files, "read_segment", refuses)
    report = audited(tmp_path)
    assert found(report) == [(finding.UNREADABLE, (1,), -1)]
    assert "not compared batch by batch" in report.findings[0].sentence


# An exchange after compaction that was interrupted.


def swap(path, number, *, suffix=names.SWAP):
    file = segment(path, number)
    file.with_name(file.name + suffix).write_bytes(file.read_bytes())


@pytest.mark.parametrize("number", [0, 2])
def test_swaps_stand_for_the_segments_that_they_replace(tmp_path, number):
    path = write_cluster(tmp_path)[1]
    file = segment(path, number)
    swap(path, number)
    file.unlink()
    file.with_suffix(names.INDEX).unlink()
    assert found(audited(tmp_path)) == []


def test_a_swap_that_replaces_two_segments_of_which_one_is_left(tmp_path):
    path = write_cluster(tmp_path)[1]
    first, second = segment(path, 1), segment(path, 2)
    first.with_name(first.name + names.SWAP).write_bytes(first.read_bytes() + second.read_bytes())
    first.unlink()
    assert [file.name for _, file, _ in folders.segments(path)][:3] == [
        names.name(0, names.LOG),
        names.name(100, names.LOG + names.SWAP),
        names.name(300, names.LOG),
    ]
    assert found(audited(tmp_path)) == []


def test_an_exchange_that_was_not_complete_counts_for_nothing(tmp_path):
    """Names are given from the last to the first, so that one that is left means that the others are not to be."""
    path = write_cluster(tmp_path)[1]
    swap(path, 1, suffix=names.CLEANED)
    swap(path, 2)
    assert {file.suffix for _, file, _ in folders.segments(path)} == {names.LOG}
    assert found(audited(tmp_path)) == []
