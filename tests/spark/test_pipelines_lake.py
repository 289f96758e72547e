"""Lakes hold each row once, whatever is run again or crashes; and what is no JSON of the schema is a row, too."""

import json
import shutil
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from tests.spark.flights_data import flights, send_spread, values
from tests.spark.records import create, send
from tidelog.spark.pipelines import lake_tables
from tidelog.spark.pipelines.json_schema import _columns
from tidelog.spark.pipelines.lake import PIPELINE
from tidelog.spark.pipelines.lake_tables import DeltaLake, ParquetLake
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
    assert len([*lake_tables._groups(sorted(tmp_path.rglob("*.parquet")), 1)]) == len([*tmp_path.rglob("*.parquet")])


class Query:
    """A query of lakes without Spark: what stands in its checkpoint, and batches of three rows."""

    def __init__(self, folder: Path, kind: str, checkpoint: str = "checkpoint") -> None:
        self.table, self.kind = folder / "table", kind
        self.checkpoint = folder / checkpoint

    def start(self) -> None:
        last = (
            lake_tables.last_delta_batch
            if self.kind == "delta"
            else lambda table, _: lake_tables.last_parquet_batch(table)
        )
        name = lake_tables.claim_table(self.table, self.checkpoint, "lake", lambda app: last(self.table, app))
        self.lake = DeltaLake(self.table, SCHEMA, ["place"], name) if self.kind == "delta" else parquet_lake(self.table)

    def add(self, number: int) -> None:
        self.plan(number)
        self.lake.add(Frame(number * 3, number * 3 + 3), number)

    def plan(self, number: int) -> None:
        """Spark writes down what is in a batch before it is added."""
        offsets = self.checkpoint / "lake" / "offsets"
        offsets.mkdir(parents=True, exist_ok=True)
        (offsets / str(number)).touch()


@pytest.fixture(params=["parquet", "delta"])
def query(tmp_path, request):
    query = Query(tmp_path, request.param)
    query.start()
    for number in range(3):
        query.add(number)
    return query


def test_the_query_that_wrote_a_table_goes_on_with_it(query, tmp_path):
    query.start()
    query.add(3)
    query.plan(4)
    query.start()  # it crashed before batch 4 was in the table
    query.add(4)
    query.table = query.table.rename(tmp_path / "moved")
    query.checkpoint = query.checkpoint.rename(tmp_path / "moved too")
    query.start()
    query.add(5)
    assert sorted({"parquet": read_parquet, "delta": read_delta}[query.kind](query.table)) == wanted(18)


def test_a_checkpoint_that_was_made_anew_is_refused(query):
    shutil.rmtree(query.checkpoint)
    for _ in range(2):
        with pytest.raises(WrongOption, match=f"another query .* wrote {query.table}: give another path, or remove"):
            query.start()


def test_spark_s_part_of_a_checkpoint_that_was_made_anew_is_refused(query):
    shutil.rmtree(query.checkpoint / "lake")
    with pytest.raises(WrongOption, match=f"{query.table} is newer than checkpoint {query.checkpoint}"):
        query.start()


def test_an_older_copy_of_a_checkpoint_is_refused(query):
    """Its next batch may have other records than the one of that number in the table."""
    (query.checkpoint / "lake" / "offsets" / "2").unlink()
    with pytest.raises(WrongOption, match="is newer than checkpoint"):
        query.start()


def test_another_query_is_refused(query, tmp_path):
    other = Query(tmp_path, query.kind, "other checkpoint")
    with pytest.raises(WrongOption, match="another query"):
        other.start()


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_table_in_which_nothing_is_belongs_to_whoever_comes_next(kind, tmp_path):
    Query(tmp_path, kind).start()
    other = Query(tmp_path, kind, "other checkpoint")
    other.start()
    other.add(0)
    with pytest.raises(WrongOption, match="another query"):
        Query(tmp_path, kind).start()


def test_a_table_and_a_checkpoint_from_before_names_were_written_go_on(query):
    (query.table / "_query").unlink()
    (query.checkpoint / "query").unlink()
    if query.kind == "delta":
        query.lake = DeltaLake(query.table, SCHEMA, ["place"], str(uuid5(NAMESPACE_URL, str(query.checkpoint))))
        query.add(3)
    query.start()
    shutil.rmtree(query.checkpoint)
    (query.table / "_query").unlink()
    with pytest.raises(WrongOption, match="another query"):
        query.start()


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
    run(PIPELINE.stages(spark, plan), once=True, on_progress=lambda _: None)
    return folder / "table"


def found_in(spark, table, kind):
    if kind == "parquet":
        return spark.read.parquet(str(table)).toPandas()
    from deltalake import DeltaTable

    return DeltaTable(table).to_pandas()


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
    found = found_in(spark, table, kind)
    malformed = found[found._malformed.notna()]
    good = found[found._malformed.isna()]
    pd.testing.assert_frame_equal(compared(good), compared(flights(3)), check_dtype=False)
    assert sorted(malformed._malformed) == ["no JSON", '{"carrier":"UA","flight":"x"}', "\ufffd"]
    assert not found.duplicated(["_partition", "_offset"]).any()
    assert (table / "origin=EWR" / "date=2013-01-01").is_dir()


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_checkpoint_that_was_removed_leaves_out_no_row_silently(spark, tides, tmp_path, kind):
    """Its first batches have the numbers of those in the table; the topic has others in them by then."""
    topic = create(tides, f"lake-{kind}", 1)
    send(tides.bootstrap, topic, [b'{"id":%d}' % number for number in range(10)])
    options = {"topic": topic, "schema": "id bigint", "format": kind}
    fill(spark, tides, tmp_path, **options)
    shutil.rmtree(tmp_path / "checkpoint")
    send(tides.bootstrap, topic, [b'{"id":%d}' % number for number in range(10, 20)])
    with pytest.raises(WrongOption, match=f"wrote {tmp_path}/table: give another path"):
        fill(spark, tides, tmp_path, **options)
    shutil.rmtree(tmp_path / "table")
    shutil.rmtree(tmp_path / "checkpoint")
    table = fill(spark, tides, tmp_path, **options)
    assert sorted(found_in(spark, table, kind).id) == list(range(20))


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
            "option 'partition': 'dat.time_hour.' is not a valid expression",
        ),
        ({"schema": FLIGHTS, "partition": "day=date("}, "option 'partition': 'date.' is not a valid expression"),
        ({"topic": "nowhere"}, "option 'topic': there is no topic nowhere; name one that is there"),
        ({"schema": "_offset int"}, "has a column '_offset', which the lake has itself"),
        ({"compact": "often"}, "option 'compact' must be an integer, not 'often'"),
    ],
)
def test_a_wrong_option_is_named(spark, tides, topic, tmp_path, options, told):
    with pytest.raises(WrongOption, match=told):
        fill(spark, tides, tmp_path, **{"topic": topic, **options})
