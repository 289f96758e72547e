"""An Iceberg table holds each row once, as a Delta table does (`test_pipelines_tables`). Without Spark."""

import shutil

import duckdb
import pytest

from tests.spark.test_pipelines_tables import SOURCE, Frame, wanted
from tidelog.spark.pipelines.checkpoints import Progress
from tidelog.spark.pipelines.iceberg_table import CATALOG, NAME, IcebergTableOfRows, TableLost
from tidelog.spark.pipelines.plan import WrongOption
from tidelog.spark.pipelines.tables import Record

RECORD = Record(SOURCE)


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "table"
    IcebergTableOfRows(str(folder)).create(RECORD, Frame(0, 0).schema, [], "query")
    return folder


def opened(place):
    table = IcebergTableOfRows(str(place))
    assert table.record() == RECORD
    return table


def sql_catalog(url):
    from pyiceberg.catalog.sql import SqlCatalog  # with SQLAlchemy a second, which only the worker of these tests pays

    return SqlCatalog("tidelog", uri=url)


def loaded(place):
    catalog = sql_catalog(f"sqlite:///{place}/{CATALOG}")
    try:
        return catalog.load_table(NAME)
    finally:
        catalog.engine.dispose()


def rows_of(place):
    rows = loaded(place).scan().to_arrow().to_pylist()
    return sorted((row["_partition"], row["_offset"], row["place"]) for row in rows)


def test_rows_are_there_once_however_batches_are_cut(place):
    opened(place).add(Frame(0, 10), 0, "one")
    opened(place).add(Frame(0, 10), 0, "one")
    opened(place).add(Frame(0, 17), 0, "two")
    opened(place).add(Frame(10, 20), 1, "one")
    opened(place).add(Frame(17, 30), 1, "two")
    opened(place).add(Frame(20, 25), 2, "one")
    assert rows_of(place) == wanted(30)
    assert opened(place).ends() == {0: 30, 1: 30}


def test_of_two_queries_at_the_same_time_the_later_commit_leaves_out_what_is_there(place):
    left = [Frame(0, 12)]

    def meanwhile():
        if left:
            opened(place).add(left.pop(), 0, "two")

    opened(place).add(Frame(0, 20, meanwhile), 0, "one")
    assert rows_of(place) == wanted(20)
    assert len(list(place.rglob("data/*.parquet"))) == 2, "the file of the attempt that lost is removed"


def test_snapshots_of_others_do_not_hide_the_offsets(place):
    table = opened(place)
    table.add(Frame(0, 5), 0, "one")
    other = loaded(place)
    other.append(other.scan().to_arrow().slice(0, 0))
    table.add(Frame(0, 9), 1, "one")
    assert rows_of(place) == wanted(9)


def test_what_a_checkpoint_must_be_to_continue(place):
    table = opened(place)
    assert table.agrees(Progress(None, -1, -1))
    assert not table.agrees(Progress("one", 3, 3))
    table.add(Frame(0, 0), 0, "one")
    table.add(Frame(0, 5), 1, "one")
    assert table.agrees(Progress("one", 2, 1))
    assert not table.agrees(Progress("one", 3, 2))
    assert not table.agrees(Progress("two", -1, -1))
    assert table.hand_over("two") == 0
    assert table.agrees(Progress("two", 0, 0))
    assert table.ends() == {0: 5, 1: 5}


def test_a_table_of_others_and_one_that_is_made_anew_take_no_rows(place):
    table = opened(place)
    with pytest.raises(WrongOption, match="another pipeline made a table"):
        IcebergTableOfRows(str(place)).create(RECORD._replace(schema="other"), Frame(0, 0).schema, [], "query")
    with loaded(place).transaction() as transaction:
        transaction.remove_properties("tidelog.record")
    with pytest.raises(WrongOption, match="is not of this pipeline"):
        table.record()
    shutil.rmtree(place)
    assert IcebergTableOfRows(str(place)).record() is None
    IcebergTableOfRows(str(place)).create(RECORD, Frame(0, 0).schema, [], "query")
    with pytest.raises(TableLost, match="removed and created again"):
        table.add(Frame(0, 3), 0, "query")


def test_other_programs_read_its_files(place):
    opened(place).add(Frame(0, 3), 0, "one")
    files = [task.file.file_path for task in loaded(place).scan().plan_files()]
    assert duckdb.sql(f"select count(*) from read_parquet({files})").fetchall() == [(6,)]


def test_partitions_are_columns_and_files_are_left_out_by_them(tmp_path):
    place = tmp_path / "table"
    url = f"sqlite:///{tmp_path}/catalog.sqlite"
    for first in (0, 9):
        table = IcebergTableOfRows(str(place), url)
        if table.record() is None:
            table.create(RECORD, Frame(0, 0).schema, ["place"], "query")
        table.add(Frame(first, 20), first, "query")
    catalog = sql_catalog(url)
    try:
        found = catalog.load_table(("tidelog", "table"))
    finally:
        catalog.engine.dispose()
    rows = found.scan().to_arrow().to_pylist()
    assert sorted((row["_partition"], row["_offset"], row["place"]) for row in rows) == wanted(20)
    assert len(list(found.scan().plan_files())) == 3
    (task,) = found.scan(row_filter="place == 'EWR'").plan_files()
    assert task.file.record_count == 14
    assert found.scan(row_filter="place is null").to_arrow().num_rows == 14
    with pytest.raises(WrongOption, match=r"the catalog has a table tidelog\.table at file://"):
        IcebergTableOfRows(str(tmp_path / "other" / "table"), url).record()
