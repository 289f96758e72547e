"""Checkpoints and tables on an object store (s3a://), by Hadoop's file system, delta-rs and Arrow, with one set of
settings."""

import json

import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError

from tests.spark.records import create, send
from tests.spark.test_pipelines_mirror import read
from tests.spark.test_pipelines_tables import RECORD, Frame, wanted
from tidelog.spark.options import BOOTSTRAP
from tidelog.spark.pipelines import cdc, lake
from tidelog.spark.pipelines.folders import folder_of
from tidelog.spark.pipelines.iceberg_table import IcebergTableOfRows
from tidelog.spark.pipelines.object_store import StoreAccess, store_access
from tidelog.spark.pipelines.plan import Plan
from tidelog.spark.pipelines.running import run


def fill(pipeline, spark, tides, place, **options):
    given = pipeline.PIPELINE.complete({"path": f"{place}/table", **options})
    plan = Plan(tides.bootstrap, f"{place}/checkpoint", given, once=True)
    run(pipeline.PIPELINE.stages(spark, plan), once=True, on_progress=lambda _: None)


def rows(spark, place):
    table = f"{place}/table"
    return DeltaTable(table, storage_options=store_access(table, spark).for_delta()).to_pyarrow_table().to_pylist()


def test_a_file_is_created_once(spark, bucket):
    """Also if it appears between the look and the end of the write."""
    folder = folder_of(f"{bucket}/files", spark)
    assert (folder.read("a"), folder.names()) == (None, [])
    assert folder.create("a/b", "ü")
    assert not folder.create("a/b", "other")
    path, others = folder._path("c"), []
    for text in (b"1", b"2"):
        builder = folder._files.createFile(path).overwrite(False).recursive()
        others.append(builder.opt("fs.option.create.conditional.overwrite", "true").build())
        others[-1].write(bytearray(text))
    others[0].close()
    with pytest.raises(Py4JJavaError, match="RemoteFileChangedException"):
        others[1].close()
    folder.write("d", "1")
    folder.write("d", "2")
    assert [folder.read(name) for name in ("a/b", "c", "d")] == ["ü", "1", "2"]
    folder.remove("a")
    assert folder.names() == ["c", "d"]


def test_the_settings_of_a_bucket_take_precedence(spark, bucket, conf):
    conf("fs.s3a.bucket.other.endpoint", "store.example:9000")
    conf("fs.s3a.bucket.other.secret.key", "more")
    conf("fs.s3a.connection.ssl.enabled", "false")
    found = store_access("s3a://other/table", spark)
    assert found == StoreAccess("http://store.example:9000", "eu-north-1", "user", "more")
    assert "more" not in repr(found)
    assert store_access("/data/table", spark) == StoreAccess()
    assert store_access("s3a://other/table", None) == StoreAccess()


def test_lake_cdc_and_sink_keep_everything_there(spark, tides, bucket):
    topic, copy = create(tides, "away", 2), create(tides, "copied")
    place = f"{bucket}/{topic}"
    values = [json.dumps({"id": n, "name": f"n{n % 3}"}).encode() for n in range(40)]
    send(tides.bootstrap, topic, values[:25])
    folder_of(f"{place}/checkpoint", spark).write("lake/offsets/.0.x.tmp", "of a driver that was killed")
    fill(lake, spark, tides, place, topic=topic, schema="id bigint, name string", partition="name")
    send(tides.bootstrap, topic, values[25:], 1)
    fill(lake, spark, tides, place, topic=topic, schema="id bigint, name string", partition="name")
    assert sorted((row["id"], row["name"]) for row in rows(spark, place)) == [(n, f"n{n % 3}") for n in range(40)]

    changes = create(tides, "changed")
    for op, name in (("c", "a"), ("c", "b"), ("u", "a"), ("d", "b")):
        after = None if op == "d" else {"id": name, "op": op}
        send(
            tides.bootstrap,
            changes,
            [json.dumps({"op": op, "after": after}).encode()],
            key=b'{"id":"%s"}' % name.encode(),
        )
    fill(cdc, spark, tides, f"{bucket}/{changes}", topic=changes, schema="id string, op string", key="id")
    assert [(row["id"], row["op"]) for row in rows(spark, f"{bucket}/{changes}")] == [("a", "u")]

    records = spark.readStream.format("tidelog").option(BOOTSTRAP, tides.bootstrap).option("subscribe", topic)
    writer = records.option("startingOffsets", "earliest").load().select("value").writeStream.format("tidelog")
    writer = writer.option(BOOTSTRAP, tides.bootstrap).option("topic", copy).option("exactlyOnce", "true")
    query = writer.option("checkpointLocation", f"{place}/copied").trigger(availableNow=True).start()
    query.awaitTermination()
    assert sorted(each.value for found in read(tides.bootstrap, copy).values() for each in found) == sorted(values)


def test_an_iceberg_table_is_there(spark, bucket, tmp_path):
    """Its catalog is elsewhere. The same task as on executors runs here."""
    place, url = f"{bucket}/more/ice", f"sqlite:///{tmp_path}/catalog.sqlite"

    def table():
        return IcebergTableOfRows(place, url, store_access(place, spark))

    assert table().record() is None
    table().create(RECORD, Frame(0, 0).schema, ["place"], "query")
    for end in (10, 10, 15):
        own = table()
        assert own.record() == RECORD
        own.add(Frame(0, end), end, "query")
    found = table()._opened().scan().to_arrow().to_pylist()
    assert sorted((row["_partition"], row["_offset"], row["place"]) for row in found) == wanted(15)
