"""What differs is divided where the logs are, so that the driver gets little whatever the size of a log: the same findings,
however wide the chunks were that it began with, and answers that do not grow with the log."""

import pickle
from itertools import pairwise

import pytest

from tests.audit.logs import (
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
from tidelog.audit.io import folders, plan, run

WIDE, NARROW = 4096, 64


@pytest.fixture
def fine(monkeypatch):
    """Chunks of the usual width are wide."""
    monkeypatch.setattr(run, "LEAST_WIDTH", NARROW)
    monkeypatch.setattr(run, "FINEST", 16)


class Counted:
    """Runs here, and counts the bytes that would come back from executors, by function."""

    def __init__(self):
        self.bytes = {}

    def __call__(self, function, items, sizes):
        answers = run.run_locally(function, items, sizes)
        self.bytes[function.__name__] = self.bytes.get(function.__name__, 0) + len(pickle.dumps(answers))
        return answers


def told(*homes, runner=run.run_locally, **asked):
    return run.audit(plan.of_folders(folders.find(homes), **asked), runner)


def diverged(home, count, *numbers):
    """Broker 3 has other batches at some places, and three others agree."""
    content = batches(count)
    write_cluster(home, content)
    for number in numbers:
        content[number] = batch(number * RECORDS, number // 30, *[b"w"] * RECORDS)
    return write_replica(home / "more", 3, content)


@pytest.mark.parametrize("piece_bytes", [1, 256_000_000])
def test_divided_or_not_it_finds_the_same(tmp_path, monkeypatch, piece_bytes):
    path = diverged(tmp_path, 100, 3, 70, 71, 99)
    remove_segment(path, 1)
    write_replica(tmp_path / "short", 4, batches(83))
    whole = told(tmp_path, piece_bytes=piece_bytes)
    monkeypatch.setattr(run, "LEAST_WIDTH", NARROW)
    monkeypatch.setattr(run, "FINEST", 16)
    assert told(tmp_path, piece_bytes=piece_bytes) == whole
    starts = {each.start for each in whole.findings if each.kind == finding.DIVERGENCE}
    assert starts == {15, 350, 495}


@pytest.mark.usefixtures("fine")
def test_where_offsets_are_missing_nobody_differs(tmp_path):
    """However many small chunks the missing ones are."""
    path = write_cluster(tmp_path, batches(700))[1]
    for number in reversed(range(2, 33)):
        remove_segment(path, number)
    assert found(audited(tmp_path)) == [(finding.GAP, (1,), 200)]


@pytest.mark.usefixtures("fine")
def test_more_that_differs_than_is_looked_into_is_counted(tmp_path):
    diverged(tmp_path, 700, *range(0, 700, 4))
    report = audited(tmp_path)
    assert report.partitions[0].first_divergence == 0
    assert {each.kind for each in report.findings} == {finding.DIVERGENCE}
    assert [(each.start, each.end) for each in report.findings[:4]] == [(0, 5), (20, 25), (40, 45), (60, 65)]
    assert report.findings[-1].sentence.startswith("and ")


@pytest.mark.usefixtures("fine")
def test_what_comes_back_does_not_grow_with_the_log(tmp_path):
    sizes = []
    for count in (900, 2_700):
        runner = Counted()
        diverged(tmp_path / str(count), count, 301)
        report = told(tmp_path / str(count), runner=runner)
        assert [each.start for each in report.findings] == [301 * RECORDS]
        sizes.append(runner.bytes)
    small, large = sizes
    assert large["rows"] == small["rows"] < 4 * 16 * 27
    assert large["divided"] < 1.1 * small["divided"]


def keyed(count):
    return [batch(number, 0, b"v%d" % number, key=b"k%d" % number) for number in range(count)]


def test_replicas_of_a_compacted_topic_that_were_read_to_different_ends_bring_no_key_back(tmp_path):
    """A topic that is being written to: each replica was read a moment after the one before."""
    content = keyed(300)
    for broker, end in enumerate((280, 290, 300)):
        write_replica(tmp_path, broker, content[:end])
    runner = Counted()
    assert told(tmp_path, runner=runner, compacted=[NAME.topic]).is_good
    assert "key_digests" in runner.bytes
    assert "last_values" not in runner.bytes


def test_of_many_keys_that_differ_some_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "MOST_BUCKETS", 4)
    content = keyed(300)
    write_replica(tmp_path, 0, content)
    write_replica(tmp_path, 1, [batch(number, 0, b"w", key=b"k%d" % number) for number in range(300)])
    runner = Counted()
    report = told(tmp_path, runner=runner, compacted=[NAME.topic])
    assert {each.kind for each in report.findings} == {finding.KEYS}
    assert 4 <= len(report.findings) <= 8
    assert runner.bytes["last_values"] < runner.bytes["key_digests"]


def test_segments_are_read_again_only_where_something_differs(tmp_path):
    path = diverged(tmp_path, 100, 70)
    (piece,) = plan.of_folders(folders.find([path.parent])).subjects[0].replicas[0].pieces
    for number, (low, high) in enumerate(pairwise(range(0, 501, 100))):
        chunks = run.pieces.narrowed(piece, [low // 50, high // 50 - 1], 50)
        assert chunks.piece.files == (str(segment(path, number)),)
    assert run.pieces.narrowed(piece, [0, 9], 50).piece.files == (str(segment(path, 0)), str(segment(path, 4)))
