"""A folder that Apache Kafka 4.3.1 wrote opens here, and what is rebuilt from its records is Kafka's, byte for byte.

`kafka_folder` is a partition's folder after a clean stop: 300 records of confluent-kafka's idempotent producers, 60 of
each compression type, index.interval.bytes=1024.
"""

import shutil
from pathlib import Path

import pytest

from tests.log.support import NOW, batch, check_epochs, check_indexes, options, read_batches
from tidelog.log.checkpoints import read_partition_metadata
from tidelog.log.log import Log
from tidelog.model import NO_ID, TopicPartition
from tidelog.shell.disk import OsDisk
from tidelog.wire.compression import Compression
from tidelog.wire.records import header, records

SOURCE = Path(__file__).parent / "kafka_folder"


def opened(folder, *, clean):
    return Log.open(
        OsDisk([str(folder.parent)]),
        str(folder),
        TopicPartition("real", 0),
        NO_ID,
        options(index_interval_bytes=1024),
        recovery_point=300 if clean else 0,
        log_start_offset=0,
        clean=clean,
        now=NOW,
    )


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(SOURCE, tmp_path / "real-0"))


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("clean", [True, False])
def test_a_folder_of_kafka_opens_and_stays_as_it_is(folder, clean):
    log = opened(folder, clean=clean)
    held = read_batches(log)
    check_indexes(log)
    check_epochs(log, held)
    assert log.topic_id == read_partition_metadata((SOURCE / "partition.metadata").read_bytes(), "f")
    assert [record.offset for data in held for record in records(data)] == list(range(300))
    assert {header(data).compression for data in held} == set(Compression)
    assert sorted(producer.last_sequence for producer in log.producers.values()) == [59] * 5
    log.close()
    assert content(folder) == content(SOURCE)


@pytest.mark.parametrize("lost", ["index", "timeindex", "snapshot", "leader-epoch-checkpoint"])
def test_what_is_lost_is_rebuilt_as_kafka_had_it(folder, lost):
    for path in folder.glob(f"*{lost}"):
        path.unlink()
    opened(folder, clean=False).close()
    assert content(folder) == content(SOURCE)


def test_a_retry_of_kafkas_last_batch_is_recognised_here(folder):
    log = opened(folder, clean=True)
    producer = next(iter(log.producers.values()))
    last = producer.batches[-1]
    count = last.last_sequence - last.base_sequence + 1
    fields = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    again = log.append_as_leader(batch(*[b"v"] * count, base_sequence=last.base_sequence, **fields), 0, NOW)
    assert again.duplicate
    assert again.last_offset == last.last_offset
    assert not log.append_as_leader(batch(base_sequence=last.last_sequence + 1, **fields), 0, NOW).duplicate
    assert log.log_end_offset == 301
