"""Lakes hold each row once, whatever is run again or crashes; and what is no JSON of the schema is a row, too."""

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from tests.spark.flights_data import flights, send_spread, values
from tests.spark.records import create, send
from tidelog.spark.pipelines.lake import parquet
from tidelog.spark.pipelines.lake.delta import DeltaLake
from tidelog.spark.pipelines.lake.parquet import ParquetLake
from tidelog.spark.pipelines.lake.pipeline import PIPELINE
from tidelog.spark.pipelines.lake.schema import _columns
from tidelog.spark.pipelines.plan import Plan, WrongOption
from tidelog.spark.pipelines.running import run

SCHEMA = pa.schema([("id", pa.int64()), ("place", pa.string())])
PLACES = ["EWR", None, "a b/ü=1"]
FLIGHTS = (
    "year int, month int, day int, carrier string, flight bigint, origin string, dep_delay double, time_hour timestamp"
)


class Frame:
    """As much of a DataFrame as a lake asks of one; its only task runs here."""

    def __init__(self, first: int, end: int) -> None:
        rows = [{"id": number, "place": PLACES[number % 3]} for number in range(first, end)]
        self._batches = pa.Table.from_pylist(rows, SCHEMA).to_batches()

    def mapInArrow(self, task, _schema):  # noqa: N802  Spark's name
        self._rows = [tuple(row.values()) for batch in task(iter(self._batches)) for row in batch.to_pylist()]
        return self

    def collect(self):
        return self._rows


def parquet_lake(folder):
    return ParquetLake(folder, ["place"])


def delta_lake(folder):
    return DeltaLake(folder, SCHEMA, ["place"], "app")


def read_parquet(folder):
    ignored = ["_"]
    kinds = pa.schema([("place", pa.string())])
    found = ds.dataset(folder, partitioning=ds.partitioning(kinds, flavor="hive"), ignore_prefixes=ignored).to_table()
    return [(row["id"], row["place"]) for row in found.to_pylist()]


def read_delta(folder):
    from deltalake import DeltaTable

    found = pa.table(DeltaTable(folder).to_pyarrow_table())
    return [(row["id"], row["place"]) for row in found.to_pylist()]


def wanted(end):
    return [(number, PLACES[number % 3]) for number in range(end)]


KINDS = pytest.mark.parametrize(("make", "read"), [(parquet_lake, read_parquet), (delta_lake, read_delta)])


@KINDS
def test_a_batch_that_comes_again_is_there_once(make, read, tmp_path):
    for first in range(0, 50, 10):
        for _ in range(2):
            make(tmp_path).add(Frame(first, first + 10), first // 10)
    assert sorted(read(tmp_path)) == wanted(50)


@KINDS
def test_small_files_are_put_together_and_rows_stay(make, read, tmp_path):
    lake = make(tmp_path)
    for number in range(12):
        lake.add(Frame(number * 3, number * 3 + 3), number)
    assert lake.compact(1_000_000) == 36 - 3
    assert sorted(read(tmp_path)) == wanted(36)
    lake.add(Frame(36, 39), 12)
    assert lake.compact(1_000_000) == 3
    assert lake.compact(1_000_000) == 0
    assert sorted(read(tmp_path)) == wanted(39)


class Crash(Exception):
    pass


def add_and_compact(folder):
    lake = parquet_lake(folder)
    lake.add(Frame(9, 12), 3)
    lake.compact(1_000_000)


@pytest.mark.parametrize("at", range(9))
def test_parquet_survives_a_crash_at_any_rename_or_removal(at, tmp_path, monkeypatch):
    """Whichever change of the folder is the last before the crash, going on makes it whole."""
    for number in range(3):
        parquet_lake(tmp_path).add(Frame(number * 3, number * 3 + 3), number)
    steps = iter(range(at + 1))

    def failing(real):
        def step(*arguments, **more):
            if next(steps, None) is None:
                raise Crash
            return real(*arguments, **more)

        return step

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", failing(Path.rename))
        patch.setattr(Path, "unlink", failing(Path.unlink))
        with pytest.raises(Crash):
            add_and_compact(tmp_path)
    add_and_compact(tmp_path)
    assert sorted(read_parquet(tmp_path)) == wanted(12)
    parquet_lake(tmp_path).compact(1_000_000)
    assert sorted(read_parquet(tmp_path)) == wanted(12)


def test_files_stay_within_the_target(tmp_path):
    lake = parquet_lake(tmp_path)
    for number in range(6):
        lake.add(Frame(number * 3, number * 3 + 3), number)
    size = max(file.stat().st_size for file in tmp_path.rglob("part-*.parquet"))
    assert lake.compact(size * 3) > 0
    assert sorted(read_parquet(tmp_path)) == wanted(18)
    assert len([*parquet._groups(sorted(tmp_path.rglob("*.parquet")), 1)]) == len([*tmp_path.rglob("*.parquet")])


def test_a_json_schema_names_columns():
    schema = {
        "properties": {
            "id": {"type": "integer"},
            "at": {"type": ["null", "string"], "format": "date-time"},
            "many": {"type": "array", "items": {"type": "number"}},
            "in": {"type": "object", "properties": {"yes": {"type": "boolean"}}},
            "any": {"type": ["string", "integer"]},
        }
    }
    told = "`id` bigint, `at` timestamp, `many` array<double>, `in` struct<`yes`: boolean>, `any` string"
    assert _columns(schema) == told


@pytest.fixture(scope="module")
def topic(tides):
    topic = create(tides, "lake", 2)
    send_spread(tides.bootstrap, topic, values(flights(3)), 2)
    send(tides.bootstrap, topic, [b"no JSON", b"\xff", b'{"carrier":"UA","flight":"x"}'], 0)
    return topic


def fill(spark, tides, folder, **options):
    plan = Plan(
        tides.bootstrap, folder / "checkpoint", PIPELINE.complete({"path": str(folder / "table"), **options}), once=True
    )
    run(PIPELINE.stages(spark, plan), once=True, tell=lambda _: None)
    return folder / "table"


def compared(found):
    columns = ["year", "month", "day", "carrier", "flight", "origin", "dep_delay"]
    return found[columns].astype({"dep_delay": "float64"}).sort_values(columns, ignore_index=True)


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_topic_becomes_a_table(spark, tides, topic, tmp_path, kind):
    options = {
        "topic": topic,
        "schema": FLIGHTS,
        "partition": "origin; date=date(time_hour)",
        "batch": "900",
        "compact": "2",
    }
    for _ in range(2):
        table = fill(spark, tides, tmp_path, format=kind, **options)
    if kind == "parquet":
        found = spark.read.parquet(str(table)).toPandas()
    else:
        from deltalake import DeltaTable

        found = DeltaTable(table).to_pandas()
    malformed = found[found._malformed.notna()]
    good = found[found._malformed.isna()]
    pd.testing.assert_frame_equal(compared(good), compared(flights(3)), check_dtype=False)
    assert sorted(malformed._malformed) == ["no JSON", '{"carrier":"UA","flight":"x"}', "\ufffd"]
    assert not found.duplicated(["_partition", "_offset"]).any()
    assert (table / "origin=EWR" / "date=2013-01-01").is_dir()


def test_columns_are_found_in_the_values_and_kept(spark, tides, topic, tmp_path):
    table = fill(spark, tides, tmp_path, topic=topic, format="parquet")
    found = spark.read.parquet(str(table))
    assert dict(found.dtypes)["distance"] == "bigint"
    assert found.count() == len(flights(3)) + 3
    kept = json.loads((tmp_path / "checkpoint" / "schema.json").read_text())
    assert {field["name"] for field in kept["fields"]} == set(flights(3).columns)
    with pytest.raises(WrongOption, match="'schema' differs from that of the table"):
        fill(spark, tides, tmp_path, topic=topic, format="parquet", schema=FLIGHTS)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"format": "orc"}, "option 'format' is delta or parquet, not 'orc'"),
        ({"schema": "what is this"}, "option 'schema' is DDL like"),
        ({"schema": "nowhere.json"}, "option 'schema' is DDL like"),
        ({"schema": FLIGHTS, "partition": "nothing"}, "option 'partition' names 'nothing'"),
        (
            {"schema": FLIGHTS, "partition": "day=dat(time_hour)"},
            "option 'partition': 'dat.time_hour.' is no expression",
        ),
        ({"schema": FLIGHTS, "partition": "day=date("}, "option 'partition': 'date.' is no expression"),
        ({"topic": "nowhere"}, "option 'topic': there is no topic nowhere; name one that is there"),
        ({"schema": "_offset int"}, "has a column '_offset', which the lake has itself"),
        ({"compact": "often"}, "option 'compact' is a whole number, not 'often'"),
    ],
)
def test_a_wrong_option_is_named(spark, tides, topic, tmp_path, options, told):
    with pytest.raises(WrongOption, match=told):
        fill(spark, tides, tmp_path, **{"topic": topic, **options})
