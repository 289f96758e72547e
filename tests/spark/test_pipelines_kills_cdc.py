"""A table of changes through SIGKILL of its driver and of a broker: its rows are those of a dictionary that applies the
changes, and no change is lost or applied twice."""

import pytest

from tests.spark.kills import PARTITIONS, REPLICAS, disturbed
from tests.spark.records import in_sync, make_topic
from tests.spark.test_pipelines_cdc import SCHEMA, Database, table, write

pytestmark = pytest.mark.timeout(900)
CHANGES = 3000


def test_a_table_of_changes_ends_with_the_rows_that_are_there(spark, cluster, tmp_path):
    topic = make_topic(cluster.bootstrap, PARTITIONS, replicas=REPLICAS, min_insync_replicas="2")
    database = Database(8, PARTITIONS)
    write(cluster.bootstrap, topic, database.changes(CHANGES))
    in_sync(cluster.bootstrap, topic, REPLICAS)
    options = {"topic": topic, "path": tmp_path / "table", "batch": "1200", "compact": 3, "schema": SCHEMA, "key": "id"}
    with disturbed(spark, cluster, tmp_path, "cdc", 6, alone=True, **options) as driver:
        write(cluster.bootstrap, topic, database.changes(CHANGES // 10))
        assert "changes: batch" in driver.finish(), "there was still something to merge"
    assert table(tmp_path / "table") == database.rows
