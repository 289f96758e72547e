"""Bad input of a read, without Spark: a bootstrap that nobody listens at, offsets that are not there, topics that go,
batches that are none, a checkpoint of something else. One error each, with the option and the remedy."""

import json
from dataclasses import replace

import crc32c
import pytest
from pyspark.sql.datasource import InputPartition

from tests.spark.records import create, delete_before, delete_topic, numbers, send
from tests.spark.test_reader import reading
from tidelog.errors import ApiError, ErrorCode
from tidelog.spark.options import BadOption
from tidelog.spark.reading import task
from tidelog.spark.reading.batch import BatchReader
from tidelog.spark.reading.data_loss import DataLost
from tidelog.spark.reading.read_options import ReadOptions
from tidelog.spark.reading.task import Undecodable
from tidelog.testing import Cluster

NOBODY = "127.0.0.1:1"
UNREACHED = r"no broker of option 'kafka.bootstrap.servers' \(127.0.0.1:1\) answered within 0.3 s"
PROMPT = {"fetchOffset.retryIntervalMs": "10"}
QUICK = {**PROMPT, "kafka.default.api.timeout.ms": "300"}
"""Where nobody is to answer; a broker that is there may be kept waiting for longer."""


def impatient(parts, ms):
    """The same tasks with a client that gives up after so long."""
    ranges = [part.value for part in parts]
    return [InputPartition(replace(each, client=replace(each.client, default_api_timeout_ms=ms))) for each in ranges]


def batch(bootstrap, **options):
    """The values that a batch reads."""
    given = {"kafka.bootstrap.servers": bootstrap, **PROMPT, **options}
    reader = BatchReader(ReadOptions.of(given, streaming=False))
    return [int(row["value"]) for part in reader.partitions() for each in reader.read(part) for row in each.to_pylist()]


def planned(query):
    """The tasks of all that is there."""
    return query.reader.partitions(query.start, query.reader.latestOffset(query.start, None))


def rows(query, parts):
    return sum(each.num_rows for part in parts for each in query.reader.read(part))


def test_brokers_that_do_not_answer_are_named():
    with pytest.raises(ConnectionError, match=UNREACHED), reading(NOBODY, subscribe="any", **QUICK):
        pass
    with pytest.raises(ConnectionError, match=UNREACHED):
        batch(NOBODY, subscribe="any", **QUICK)


def test_brokers_that_go_before_a_task_are_named():
    with Cluster(brokers=1) as cluster:
        cluster.create_topic("left")
        send(cluster.bootstrap, "left", numbers(0, 3))
        with reading(cluster.bootstrap, subscribe="left") as query:
            parts = impatient(planned(query), 300)
            cluster.kill(0)
            with pytest.raises(ConnectionError, match=r"no broker of option 'kafka.bootstrap.servers' .* answered"):
                rows(query, parts)


@pytest.mark.parametrize(
    ("option", "offset", "told", "left"),
    [
        ("startingOffsets", 0, "'startingOffsets' says 0, but offsets below 2 were deleted", [2, 3, 4]),
        ("startingOffsets", 9, "'startingOffsets' says 9, but the partition ends at 5", []),
        ("endingOffsets", 0, "'endingOffsets' says 0, but offsets below 2 were deleted", []),
        ("endingOffsets", 9, "'endingOffsets' says 9, but the partition ends at 5", [2, 3, 4]),
    ],
)
def test_offsets_out_of_range_fail_unless_they_may(tides, option, offset, told, left):
    topic = create(tides, "range")
    send(tides.bootstrap, topic, numbers(0, 5))
    delete_before(tides.bootstrap, topic, 2)
    given = {"subscribe": topic, option: json.dumps({topic: {"0": offset}})}
    with pytest.raises(DataLost, match=f"{topic}-0: option {told}; set option 'failOnDataLoss' to false"):
        batch(tides.bootstrap, **given)
    assert batch(tides.bootstrap, **given, failOnDataLoss="false") == left
    if option == "startingOffsets":
        with pytest.raises(DataLost, match=told), reading(tides.bootstrap, **given):
            pass
        with reading(tides.bootstrap, **given, failOnDataLoss="false") as query:
            assert query.batch() == left


def test_a_topic_that_goes_before_a_task_reads_it_fails_the_task_unless_it_may(tides):
    topic = create(tides, "leaving")
    send(tides.bootstrap, topic, numbers(0, 3))
    options = {"subscribe": topic}
    with (
        reading(tides.bootstrap, **options) as strict,
        reading(tides.bootstrap, **options, failOnDataLoss="false") as loose,
    ):
        of_strict, of_loose = (impatient(planned(each), 2_000) for each in (strict, loose))
        delete_topic(tides.bootstrap, topic)
        with pytest.raises(DataLost, match=rf"{topic}-0 is gone, and with it offsets 0 to 3, .*'failOnDataLoss'"):
            rows(strict, of_strict)
        assert rows(loose, of_loose) == 0


def test_a_partition_that_cannot_be_looked_up_is_named(tides, monkeypatch):
    topic = create(tides, "locked")
    send(tides.bootstrap, topic, numbers(0, 3))
    with reading(tides.bootstrap, subscribe=topic) as query:
        parts = planned(query)

        def refused(*_):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no rights")

        monkeypatch.setattr(task.Consumer, "beginning_offsets", refused)
        with pytest.raises(ApiError, match=f"{topic}-0 cannot be read at offset 0: no rights"):
            rows(query, parts)


@pytest.mark.parametrize("code", [ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD])
def test_what_is_no_batch_of_records_is_reported_with_its_place(monkeypatch, tides, code):
    topic = create(tides, "broken")
    send(tides.bootstrap, topic, numbers(0, 3))

    def refused(*_):
        raise ApiError(code, "the CRC is another")

    monkeypatch.setattr(task.record_columns, "columns", refused)
    told = rf"{topic}-0: no valid record batch at offset 0 .* CRC .*'startingOffsets'"
    with reading(tides.bootstrap, subscribe=topic) as query, pytest.raises(Undecodable, match=told):
        query.batch()


def test_a_batch_whose_records_are_none_though_its_checksum_is_right(tmp_path):
    with Cluster(brokers=1, folder=tmp_path) as cluster:
        cluster.create_topic("odd")
        send(cluster.bootstrap, "odd", numbers(0, 3))
        send(cluster.bootstrap, "odd", numbers(3, 5))
        cluster.stop(0)
        spoil(tmp_path, checksum=True)
        cluster.start()
        told = "odd-0: no valid record batch at offset 0 .*: .*`tidelog audit`, .*'startingOffsets'"
        with pytest.raises(Undecodable, match=told):
            batch(cluster.bootstrap, subscribe="odd")
        behind = json.dumps({"odd": {"0": 3}})
        assert batch(cluster.bootstrap, subscribe="odd", startingOffsets=behind) == [3, 4]


def test_a_batch_that_its_broker_does_not_give_out(tmp_path):
    with Cluster(brokers=1, folder=tmp_path) as cluster:
        cluster.create_topic("odd")
        send(cluster.bootstrap, "odd", numbers(0, 3))
        cluster.stop(0)
        spoil(tmp_path, checksum=False)
        cluster.start()
        patience = {"kafkaConsumer.pollTimeoutMs": "300"}
        with pytest.raises(TimeoutError, match=r"odd-0: nothing came .*`tidelog audit`.*'kafkaConsumer.pollTimeoutMs'"):
            batch(cluster.bootstrap, subscribe="odd", **patience)


FIRST_RECORD, CHECKSUM, ATTRIBUTES, LENGTH = 61, 17, 21, 8


def spoil(folder, *, checksum):
    """Say a length of the first record that it does not have; with a checksum that is right, or as a bit turns."""
    (path,) = folder.rglob("odd-0/*.log")
    data = bytearray(path.read_bytes())
    data[FIRST_RECORD] = 0xFF
    end = LENGTH + 4 + int.from_bytes(data[LENGTH : LENGTH + 4], "big")
    if checksum:
        data[CHECKSUM : CHECKSUM + 4] = crc32c.crc32c(bytes(data[ATTRIBUTES:end])).to_bytes(4, "big")
    path.write_bytes(data)


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_checkpoint_of_another_topic_is_refused(tides, fails):
    topic = create(tides, "mine")
    elsewhere = {"theirs": {"0": 5}}
    told = "the checkpoint is of topic theirs, which option 'subscribe' does not name: .*checkpointLocation"
    with (
        reading(tides.bootstrap, elsewhere, subscribe=topic, failOnDataLoss=fails) as query,
        pytest.raises(BadOption, match=told),
    ):
        query.batch()
