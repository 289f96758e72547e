"""Debezium's changes as a table: what is there in the end is what a dictionary that applies them has."""

import json
import random
import shutil

import pytest
from deltalake import DeltaTable

from tests.spark.records import create, send
from tests.spark.test_pipelines_mirror import read
from tidelog.shell.transport import Producer
from tidelog.spark.pipelines import cdc
from tidelog.spark.pipelines.cdc_table import newest
from tidelog.spark.pipelines.plan import Plan, WrongOption
from tidelog.spark.pipelines.running import run

SCHEMA = "id bigint, name string, amount double"
PLACE = ("_partition", "_offset", "_timestamp")
REFUSED = {
    b"no JSON": "no JSON of a change",
    b'{"op":"u"}': "no row after the change",
    b'{"after":{"id":1}}': "no op",
    b'{"op":"t"}': "unknown op t",
    b'{"op":"c","after":{"id":1,"amount":"much"}}': "no JSON of a change",
}


class Database:
    """Rows by key, and the changes that made them, in Debezium's two formats."""

    def __init__(self, seed, partitions):
        self._chance = random.Random(seed)
        self._partitions = partitions
        self.rows = {}

    def change(self):
        """(partition, key, value) of one change; a deletion has a tombstone behind it."""
        number = self._chance.randrange(60)
        before = self.rows.get(number)
        kind = self._chance.choice("crud") if before else "c"
        if kind == "d":
            del self.rows[number]
        else:
            self.rows[number] = {
                "id": number,
                "name": self._chance.choice(["a", "ü", None]),
                "amount": self._chance.random(),
            }
        payload = {"before": before, "after": self.rows.get(number), "op": kind, "source": {"table": "t"}, "ts_ms": 1}
        key = {"id": number}
        if self._chance.random() < 0.5:
            payload, key = {"schema": {"type": "struct"}, "payload": payload}, {"schema": {}, "payload": key}
        place = number % self._partitions, json.dumps(key).encode()
        yield (*place, json.dumps(payload).encode())
        if kind == "d":
            yield (*place, None)

    def changes(self, count):
        return [each for _ in range(count) for each in self.change()]


def write(bootstrap, topic, changes):
    with Producer(bootstrap) as producer:
        for partition, key, value in changes:
            producer.send(topic, value, key=key, partition=partition)
        assert all(delivery.is_acknowledged for delivery in producer.flush())


def table(folder):
    rows = DeltaTable(folder).to_pyarrow_table().to_pylist()
    found = {row["id"]: {name: value for name, value in row.items() if name not in PLACE} for row in rows}
    assert len(found) == len(rows), "a key is there once"
    return found


def fill(spark, tides, folder, **options):
    given = {"path": str(folder / "table"), **options}
    plan = Plan(tides.bootstrap, folder / "checkpoint", cdc.PIPELINE.complete(given), once=True)
    run(cdc.PIPELINE.stages(spark, plan), once=True, on_progress=lambda _: None)


def test_changes_become_the_rows_that_are_there(spark, tides, tmp_path):
    topic, database = create(tides, "cdc", 2), Database(3, 2)
    write(tides.bootstrap, topic, database.changes(300))
    fill(spark, tides, tmp_path, topic=topic, batch="150", compact="2")  # columns and key are inferred
    assert table(tmp_path / "table") == database.rows
    send(tides.bootstrap, topic, list(REFUSED), 0, key=b'{"id":1}')
    send(tides.bootstrap, topic, [b'{"op":"d","before":{"id":1}}'], 0, key=b"{}")
    write(tides.bootstrap, topic, [(0, b'{"id":-1}', b'{"op":"d","before":{"id":-1},"after":null}')])  # was never there
    older = tmp_path / "older"
    shutil.copytree(tmp_path / "checkpoint", older)
    write(tides.bootstrap, topic, database.changes(200))
    fill(spark, tides, tmp_path, topic=topic)
    assert table(tmp_path / "table") == database.rows
    shutil.rmtree(tmp_path / "checkpoint")
    shutil.copytree(older, tmp_path / "checkpoint")  # what was merged is not merged again
    fill(spark, tides, tmp_path, topic=topic, batch="50")
    assert table(tmp_path / "table") == database.rows
    dead = [each for records in read(tides.bootstrap, f"{topic}.dead").values() for each in records]
    told = {each.value: dict(each.headers)["tidelog.reason"].decode() for each in dead}
    assert told == {**REFUSED, b'{"op":"d","before":{"id":1}}': "no id in the key"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"key": "number"}, "option 'key': number is not a column; expected some of: id, name, amount"),
        ({"schema": "id bigint, _offset int"}, "option 'schema' has a column '_offset'"),
        ({"restart": "yes"}, "option 'restart' is table"),
        ({}, "no keys of JSON; the table needs a primary key"),
    ],
)
def test_wrong_options_are_named(spark, tides, tmp_path, options, told):
    topic = create(tides, "cdc-wrong")
    if "_offset" in options.get("schema", ""):
        options = {**options, "key": "id"}
    with pytest.raises(WrongOption, match=told):
        fill(spark, tides, tmp_path, **{"topic": topic, "schema": SCHEMA, **options})


def test_the_order_of_offsets_counts_whatever_the_timestamps_are(spark):
    rows = [
        (1, 0, 5, 50, "old"),
        (1, 0, 6, 40, "new"),
        (2, 0, 7, 50, "moved"),
        (2, 1, 9, 40, "before"),
        (3, 0, 4, 9, ""),
    ]
    frame = spark.createDataFrame(rows, "id int, _partition int, _offset bigint, second int, name string")
    found = newest(frame.selectExpr("*", "timestamp_seconds(second) as _timestamp"), ["id"], {0: 5}).collect()
    assert sorted((row.id, row.name) for row in found) == [(1, "new"), (2, "moved")]
