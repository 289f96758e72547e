"""`tidelog dump-log` beside Kafka's own DumpLogSegments, over the same files."""

import json

import pytest

from tests.log.support import NOW, WALL, open_log, options
from tests.log.test_compaction import add, transaction
from tidelog.cli.main import run
from tidelog.shell.disk import OsDisk
from tidelog.wire import codec
from tidelog.wire.messages.groups.group_records import OffsetCommitKey, OffsetCommitValue
from tidelog.wire.messages.transactions.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from tidelog.wire.records import Record, build


@pytest.fixture
def folder(tmp_path):
    """A log with everything in it: keys and none, headers, compression, transactions, several segments."""
    path = tmp_path / "t-0"
    log = open_log(OsDisk(), options(segment_bytes=600, index_interval_bytes=100), folder=str(path))
    add(log, (b"a", b"1"), (None, b"x"))
    record = Record(0, WALL, b"k", None, [("h", b"v"), ("n", None)])
    log.append_as_leader(build([record], compression=1), 1, NOW)
    transaction(log, 1, True, (b"a", b"old"), (b"b", b"1"))
    transaction(log, 2, False, (b"a", b"never"))
    for number in range(20):
        add(log, (b"key%d" % number, b"v" * 20), timestamp=WALL + number)
    log.close()
    return path


def ours(capsys, *arguments):
    code = run(["dump-log", *arguments])
    said = capsys.readouterr()
    assert code == 0, said.err
    return said.out.splitlines()


def theirs(kafka_tool, *arguments):
    return [line.rstrip() for line in kafka_tool("DumpLogSegments", *arguments).splitlines()]


KINDS = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


@pytest.mark.parametrize("flags", [[], ["--print-data-log"], ["--print-data-log", "--skip-record-metadata"]])
def test_every_line_is_that_of_kafkas_tool(capsys, kafka_tool, folder, flags):
    files = ",".join(str(path) for path in sorted(folder.iterdir()) if path.suffix in KINDS)
    found = ours(capsys, "--files", files, *flags)
    assert found == theirs(kafka_tool, "--files", files, *flags)
    assert len(found) > 60


def write_internal(tmp_path, *pairs):
    log = open_log(OsDisk(), options(), folder=str(tmp_path / "t-0"))
    log.append_as_leader(build([Record(0, WALL, key, value) for key, value in pairs]), 1, NOW)
    log.close()
    return str(tmp_path / "t-0" / "00000000000000000000.log")


def numbered(number, message, version):
    return number.to_bytes(2, "big") + codec.encode(message, version)


def test_committed_offsets_are_shown_as_kafka_shows_them(capsys, kafka_tool, tmp_path):
    key = numbered(1, OffsetCommitKey(group="g", topic="t", partition=3), 0)
    value = OffsetCommitValue(offset=7, leader_epoch=2, metadata="é", commit_timestamp=WALL)
    file = write_internal(tmp_path, (key, numbered(4, value, 4)), (key, numbered(1, value, 1)), (key, None))
    found = ours(capsys, "--files", file, "--offsets-decoder")
    assert found == theirs(kafka_tool, "--files", file, "--offsets-decoder")
    assert '"offset":7' in found[3]


def test_transactions_are_shown_as_kafka_shows_them(capsys, kafka_tool, tmp_path):
    key = numbered(0, TransactionLogKey(transactional_id="id"), 0)
    value = TransactionLogValue(
        producer_id=5,
        producer_epoch=1,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[0, 2])],
        transaction_start_timestamp_ms=WALL,
        client_transaction_version=2,
    )
    file = write_internal(tmp_path, (key, numbered(0, value, 0)), (key, numbered(1, value, 1)), (key, None))
    found = ours(capsys, "--files", file, "--transaction-log-decoder")
    assert found == theirs(kafka_tool, "--files", file, "--transaction-log-decoder")


def test_a_folder_is_all_its_files(capsys, folder):
    found = ours(capsys, "--files", str(folder))
    assert sum(line.startswith("Dumping ") for line in found) == len(list(folder.iterdir()))
    assert f"Dumping {folder}/leader-epoch-checkpoint" in found
    assert "1 0" in found


def test_damage_is_shown_where_it_is(capsys, folder):
    log = folder / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[70] ^= 1
    log.write_bytes(content + b"torn")
    found = ours(capsys, "--files", str(log), "--print-data-log")
    assert "isvalid: false" in found[2]
    assert "isvalid: true" in found[3]
    assert "invalid bytes at the end" in found[-1]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("there.is.none", None, "there is no such file"),
        ("notes.txt", b"", "not a file of a log folder"),
        ("00000000000000000000.snapshot", b"?", "too short"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(capsys, tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert run(["dump-log", "--files", str(tmp_path / name)]) == 1
    assert said in capsys.readouterr().err


def test_an_index_that_lies_is_told(capsys, folder):
    index = str(folder / "00000000000000000000.index")
    assert "passed sanity check" in ours(capsys, "--files", index, "--index-sanity-check")[1]
    (folder / "00000000000000000000.index").write_bytes(b"\xff" * 16)
    assert run(["dump-log", "--files", index, "--index-sanity-check"]) == 1
    assert "cannot be the index" in capsys.readouterr().err


def test_json_is_json(capsys, tmp_path):
    key = numbered(1, OffsetCommitKey(group="g", topic="t", partition=3), 0)
    file = write_internal(tmp_path, (key, numbered(3, OffsetCommitValue(offset=7), 3)))
    [line] = [line for line in ours(capsys, "--files", file, "--offsets-decoder") if "payload" in line]
    payload = json.loads(line.partition(" payload: ")[2])
    assert payload["data"]["leaderEpoch"] == -1
