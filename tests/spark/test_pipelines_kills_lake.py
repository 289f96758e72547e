"""Lakes through SIGKILL of their driver and of a broker: each record is one row, with what pandas reads in its value."""

import json

import pandas as pd
import pytest

from tests.spark.kills import BATCH, disturbed, fill, records, same
from tests.spark.records import send
from tests.spark.test_pipelines_lake import iceberg

pytestmark = pytest.mark.timeout(900)
COLUMNS = ["carrier", "origin", "flight", "dep_delay", "time_hour"]
SCHEMA = "carrier string, origin string, flight bigint, dep_delay double, time_hour string"
OTHERS = [b"no JSON at all", b'{"carrier":"UA"', b"[1]", b"\xc3\xa4 is none either"]
PLACE = ["_partition", "_offset"]


def expected(bootstrap, topic):
    """The topic's records as pandas reads them."""
    rows = [
        {"_partition": record.partition, "_offset": record.offset, **parsed(record.value)}
        for record in records(bootstrap, topic)
    ]
    return pd.DataFrame(rows, columns=[*PLACE, *COLUMNS, "_malformed"])


def parsed(value):
    if value in OTHERS:
        return {"_malformed": value.decode()}
    return json.loads(value)


def table(spark, folder, kind):
    if kind == "parquet":
        return spark.read.parquet(str(folder)).toPandas()
    if kind == "iceberg":
        return iceberg(folder).to_pandas()
    from deltalake import DeltaTable

    return DeltaTable(folder).to_pandas()


@pytest.mark.parametrize(("kind", "seed"), [("delta", 2), ("parquet", 5), ("iceberg", 7)])
def test_a_lake_ends_with_every_record(spark, cluster, tmp_path, kind, seed):
    topic = fill(cluster, OTHERS)
    options = {"topic": topic, "path": tmp_path / "table", "batch": BATCH, "compact": 3}
    options |= {} if kind == "iceberg" else {"partition": "origin"}
    with disturbed(spark, cluster, tmp_path, "lake", seed, alone=True, format=kind, schema=SCHEMA, **options) as driver:
        send(cluster.bootstrap, topic, OTHERS, 1)
        assert "lake: batch" in driver.finish(), "there was still something to write"
    same(table(spark, tmp_path / "table", kind), expected(cluster.bootstrap, topic), PLACE)
