"""`tidelog dump-log` beside Kafka's own DumpLogSegments, over the same files."""

import pytest

from tests.cli.dumped import a_folder, numbered, ours, write_internal
from tests.log.support import WALL
from tidelog.wire.messages.groups.group_records import OffsetCommitKey, OffsetCommitValue
from tidelog.wire.messages.transactions.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)


@pytest.fixture
def folder(tmp_path):
    return a_folder(tmp_path)


def theirs(kafka_tool, *arguments):
    return [line.rstrip() for line in kafka_tool("DumpLogSegments", *arguments).splitlines()]


KINDS = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


@pytest.mark.parametrize("flags", [[], ["--print-data-log"], ["--print-data-log", "--skip-record-metadata"]])
def test_every_line_is_that_of_kafkas_tool(capsys, kafka_tool, folder, flags):
    files = ",".join(str(path) for path in sorted(folder.iterdir()) if path.suffix in KINDS)
    found = ours(capsys, "--files", files, *flags)
    assert found == theirs(kafka_tool, "--files", files, *flags)
    assert len(found) > 60


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
