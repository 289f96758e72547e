"""Lakes on Spark hold each record as a row, once; and what is no JSON of the schema is a row, too."""

import shutil

import pandas as pd
import pytest

from tests.spark.flights_data import flights, send_spread, values
from tests.spark.records import create, delete_topic, make_topic, send
from tidelog.spark.pipelines.json_schema import _columns, resolve
from tidelog.spark.pipelines.lake import PIPELINE
from tidelog.spark.pipelines.plan import Plan, WrongOption
from tidelog.spark.pipelines.running import run

FLIGHTS = (
    "year int, month int, day int, carrier string, flight bigint, origin string, dep_delay double, time_hour timestamp"
)


KINDS = pytest.mark.parametrize("kind", ["parquet", "delta"])
ALL_KINDS = pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])


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
    if kind == "iceberg":
        return iceberg(table).to_pandas()
    from deltalake import DeltaTable

    return DeltaTable(table).to_pandas()


def iceberg(table):
    """As docs/pipelines.md says."""
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("tidelog", uri=f"sqlite:///{table}/catalog.sqlite")
    try:
        return catalog.load_table("tidelog.rows").scan().to_arrow()
    finally:
        catalog.close()


def compared(found):
    columns = ["year", "month", "day", "carrier", "flight", "origin", "dep_delay"]
    return found[columns].astype({"dep_delay": "float64"}).sort_values(columns, ignore_index=True)


@KINDS
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


def ids(first, end):
    return [b'{"id":%d}' % number for number in range(first, end)]


@ALL_KINDS
def test_a_checkpoint_that_was_deleted_continues_from_the_table(spark, tides, tmp_path, kind):
    """Its first batches have the numbers of those in the table; the topic has others in them by then."""
    topic = create(tides, f"lake-{kind}", 2)
    send(tides.bootstrap, topic, ids(0, 10), 0)
    send(tides.bootstrap, topic, ids(100, 110), 1)
    options = {"topic": topic, "schema": "id bigint", "format": kind, "batch": "8"}
    fill(spark, tides, tmp_path, **options)
    shutil.rmtree(tmp_path / "checkpoint")
    send(tides.bootstrap, topic, ids(10, 25), 0)
    with pytest.raises(WrongOption, match=f"wrote {tmp_path}/table: option restart=table continues"):
        fill(spark, tides, tmp_path, **options)
    fill(spark, tides, tmp_path, **options, restart="table")
    send(tides.bootstrap, topic, ids(110, 115), 1)
    table = fill(spark, tides, tmp_path, **options)
    found = found_in(spark, table, kind)
    assert sorted(found.id) == [*range(25), *range(100, 115)]
    assert not found.duplicated(["_partition", "_offset"]).any()


@KINDS
def test_a_second_query_and_a_topic_that_was_made_anew_are_refused(spark, tides, tmp_path, kind):
    topic = make_topic(tides.bootstrap)
    send(tides.bootstrap, topic, ids(0, 10))
    options = {"topic": topic, "schema": "id bigint", "format": kind}
    table = fill(spark, tides, tmp_path, **options)
    shutil.move(tmp_path / "checkpoint", tmp_path / "first")
    with pytest.raises(WrongOption, match=f"wrote {table}"):
        fill(spark, tides, tmp_path, **options)
    delete_topic(tides.bootstrap, topic)
    make_topic(tides.bootstrap, name=topic)
    send(tides.bootstrap, topic, ids(20, 30))
    with pytest.raises(WrongOption, match=f"table is a table of topic {topic} .* and this is topic {topic} "):
        fill(spark, tides, tmp_path, **options, restart="table")
    assert sorted(found_in(spark, table, kind).id) == list(range(10))


def test_columns_are_found_by_a_session_that_has_no_context_as_under_spark_connect(spark, tides, topic, monkeypatch):
    plan = Plan(tides.bootstrap, "unused", PIPELINE.complete({"topic": topic, "path": "unused"}))
    monkeypatch.delattr(type(spark), "sparkContext")
    assert {field.name for field in resolve(spark, plan, "").fields} == set(flights(3).columns)


@KINDS
def test_columns_are_found_in_the_values_and_kept(spark, tides, topic, tmp_path, kind):
    table = fill(spark, tides, tmp_path, topic=topic, format=kind)
    found = found_in(spark, table, kind)
    assert found.distance.dropna().map(float.is_integer).all()
    assert len(found) == len(flights(3)) + 3
    assert set(found.columns) == {*flights(3).columns, "_partition", "_offset", "_timestamp", "_malformed"}
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(WrongOption, match="'schema' differs from that of the table"):
        fill(spark, tides, tmp_path, topic=topic, format=kind, schema=FLIGHTS, restart="table")
    fill(spark, tides, tmp_path, topic=topic, format=kind, restart="table")
    assert len(found_in(spark, table, kind)) == len(found)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"format": "orc"}, "option 'format' is delta, parquet, iceberg, not 'orc'"),
        ({"catalog": "sqlite://"}, "option 'catalog' is for format=iceberg, not for format=delta"),
        ({"format": "iceberg", "path": "s3a://a/b"}, "option 'catalog' is required for format=iceberg"),
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
        ({"restart": "now"}, "option 'restart' is table, or left out, not 'now'"),
        ({"compact": "often"}, "option 'compact' must be an integer, not 'often'"),
    ],
)
def test_a_wrong_option_is_named(spark, tides, topic, tmp_path, options, told):
    with pytest.raises(WrongOption, match=told):
        fill(spark, tides, tmp_path, **{"topic": topic, **options})
