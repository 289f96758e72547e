"""A table holds each row once, whatever is run again, crashes or is run twice; and a checkpoint that does not fit it is
refused before a row is written. Without Spark: its frames, checkpoints and logs are made here."""

import json
import shutil
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread
from types import SimpleNamespace

import pyarrow as pa
import pytest

from tests.waiting import own_clock
from tidelog.errors import ErrorCode
from tidelog.spark.options import BadOption
from tidelog.spark.pipelines import output_topics, parquet_files
from tidelog.spark.pipelines.checkpoints import last_batch
from tidelog.spark.pipelines.delta_table import PROPERTY, DeltaTableOfRows, TableLost
from tidelog.spark.pipelines.folders import LocalFolder, absolute, folder_of, is_uri
from tidelog.spark.pipelines.output_topics import TopicShape, existing_topics
from tidelog.spark.pipelines.parquet_table import ParquetTable
from tidelog.spark.pipelines.plan import Plan, WrongOption
from tidelog.spark.pipelines.tables import Record, Source, claim, source_of
from tidelog.wire.messages.topics.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

SCHEMA = pa.schema([("place", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64())])
PLACES = ["EWR", None, "a b/ü=1"]
STAGE = "lake"
SOURCE = Source("cluster", {"orders": "id"})
RECORD = Record(SOURCE, "", "place")


class Frame:
    """As much of a DataFrame as a table asks of one: rows of two partitions; its only task runs here."""

    def __init__(self, first: int, end: int, meanwhile=lambda: None) -> None:
        from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

        kinds = {"place": StringType(), "_partition": IntegerType(), "_offset": LongType()}
        self.schema = StructType([StructField(name, kind) for name, kind in kinds.items()])
        rows = [
            {"place": PLACES[offset % 3], "_partition": number, "_offset": offset}
            for offset in range(first, end)
            for number in (0, 1)
        ]
        self._batches = pa.Table.from_pylist(rows, SCHEMA).to_batches()
        self._meanwhile = meanwhile

    def mapInArrow(self, task, _schema):  # noqa: N802  Spark's name
        found = [row for batch in task(iter(self._batches)) for row in batch.to_pylist()]
        self._rows = [(row["files"], dict(row["ends"])) for row in found]
        self._meanwhile()
        return self

    def collect(self):
        return self._rows


def rows_of(folder):
    from deltalake import DeltaTable

    found = pa.table(DeltaTable(folder).to_pyarrow_table())
    return sorted((row["_partition"], row["_offset"], row["place"]) for row in found.to_pylist())


def wanted(end):
    return [(number, offset, PLACES[offset % 3]) for number in (0, 1) for offset in range(end)]


def files_of(folder):
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*.parquet"))


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "table"
    DeltaTableOfRows(str(folder)).create(RECORD, Frame(0, 0).schema, ["place"], "query")
    return folder


def opened(place):
    table = DeltaTableOfRows(str(place))
    assert table.record() == RECORD
    return table


def test_a_batch_that_comes_again_is_there_once(place):
    for first in range(0, 50, 10):
        for _ in range(2):
            opened(place).add(Frame(first, first + 10), first // 10, "query")
    assert rows_of(place) == wanted(50)
    assert len(files_of(place)) == 5 * 3


def test_batches_that_are_cut_otherwise_are_there_once(place):
    """As by a copy of the checkpoint, or by another query: whatever the numbers are, and whoever comes first."""
    opened(place).add(Frame(0, 10), 0, "one")
    opened(place).add(Frame(0, 17), 0, "two")
    opened(place).add(Frame(10, 20), 1, "one")
    opened(place).add(Frame(17, 30), 1, "two")
    opened(place).add(Frame(20, 25), 2, "one")
    assert rows_of(place) == wanted(30)


def meanwhile(place, frame):
    """What another query does once, between the reading and the commit of the first one."""
    left = [frame]

    def add():
        if left:
            opened(place).add(left.pop(), 0, "two")

    return add


def test_of_two_queries_at_the_same_time_the_later_commit_leaves_out_what_is_there(place):
    opened(place).add(Frame(0, 20, meanwhile(place, Frame(0, 12))), 0, "one")
    assert rows_of(place) == wanted(20)
    assert len(files_of(place)) == 2 * 3, "the files of the attempt that lost are removed"


def test_a_partition_that_is_new_in_two_commits_is_there_once(place):
    opened(place).add(Frame(0, 0), 0, "one")
    opened(place).add(Frame(0, 5, meanwhile(place, Frame(0, 3))), 1, "one")
    assert rows_of(place) == wanted(5)


def test_files_have_names_of_their_own(place):
    found = [parquet_files.write(Frame(0, 6), str(place), ["place"], 0, {}).files for _ in range(2)]
    assert not {file.path for file in found[0]} & {file.path for file in found[1]}
    assert len(files_of(place)) == 2 * 3
    parquet_files.remove(str(place), found[0])
    assert files_of(place) == sorted(file.path for file in found[1])


def test_small_files_are_put_together_and_rows_stay(place):
    table = opened(place)
    for number in range(12):
        table.add(Frame(number * 3, number * 3 + 3), number, "query")
    assert table.compact(1_000_000) == 36 - 3
    assert rows_of(place) == wanted(36)
    table.add(Frame(36, 39), 12, "query")
    assert table.compact(1_000_000) == 3
    assert table.compact(1_000_000) == 0
    assert rows_of(place) == wanted(39)


def test_columns_are_added_also_after_a_crash_between_the_two_commits(place):
    from pyspark.sql.types import LongType, StructField, StructType

    table = opened(place)
    table.add(Frame(0, 3), 0, "query")
    wider = StructType([*Frame(0, 0).schema.fields, StructField("more", LongType())])
    evolved = RECORD._replace(schema="wider")
    for crash in (True, False, False):
        before = table.opened().version()
        table.evolve(evolved, wider)
        if crash:  # only the columns were added
            table.opened().alter.set_table_properties({PROPERTY: RECORD.to_json()}, raise_if_not_exists=False)
    assert table.opened().version() == before
    assert table.record() == evolved
    assert [field.name for field in table.opened().schema().fields] == ["place", "_partition", "_offset", "more"]
    table.add(Frame(3, 6), 1, "query")
    assert rows_of(place) == wanted(6)


def test_a_table_that_was_made_anew_meanwhile_takes_no_rows(place):
    table = opened(place)
    shutil.rmtree(place)
    DeltaTableOfRows(str(place)).create(RECORD, Frame(0, 0).schema, ["place"], "query")
    with pytest.raises(TableLost, match="removed and created again"):
        table.add(Frame(0, 3), 0, "query")


def test_a_table_whose_offsets_are_gone_is_not_continued_from_its_start(place, monkeypatch):
    table = opened(place)
    table.add(Frame(0, 3), 0, "query")
    monkeypatch.setattr("tidelog.spark.pipelines.delta_table.ends_of", lambda _: {})
    with pytest.raises(WrongOption, match="has rows, and no offsets of them"):
        table.ends()


class Query:
    """A query of a lake without Spark: its checkpoint, its table, and batches of three offsets in two partitions."""

    def __init__(self, folder, kind, checkpoint="checkpoint", source=SOURCE, partition="place"):
        self.kind, self.table, self.checkpoint = kind, folder / "table", folder / checkpoint
        self.record = Record(source, "", partition)
        self.options = {"restart": ""}

    def start(self):
        """Claim the table, as the stage does."""
        plan = Plan("a:1", self.checkpoint, self.options)
        spark = SimpleNamespace(read=SimpleNamespace(parquet=lambda _: Rows(self.table)))
        self.writer = (
            DeltaTableOfRows(str(self.table)) if self.kind == "delta" else ParquetTable(str(self.table), spark)
        )
        self.query = claim(self.writer, plan, None, STAGE, self.record, Frame(0, 0), ["place"])

    def add(self, number, *, is_committed=True):
        """What Spark does for a batch."""
        self.note("offsets", number)
        if self.kind == "delta":
            self.writer.add(Frame(number * 3, number * 3 + 3), number, self.query)
        elif not (log := self.table / "_spark_metadata" / str(number)).exists():
            log.parent.mkdir(exist_ok=True)
            log.write_text(json.dumps([number * 3, number * 3 + 3]))
        if is_committed:
            self.note("commits", number)

    def note(self, log, number):
        folder = self.checkpoint / STAGE / log
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(number)).touch()

    def next_batch(self):
        """Where the checkpoint says that the next batch begins, by partition."""
        last = last_batch(LocalFolder(self.checkpoint), f"{STAGE}/offsets")
        text = (self.checkpoint / STAGE / "offsets" / str(last)).read_text().splitlines()[-1]
        return last + 1, json.loads(text)

    def rows(self):
        if self.kind == "delta":
            return rows_of(self.table)
        return [(number, offset, PLACES[offset % 3]) for number in (0, 1) for offset in Rows(self.table).offsets()]


class Rows:
    """The rows that Spark finds in a Parquet table, as far as it is asked for the last offsets."""

    def __init__(self, table):
        self._log = table / "_spark_metadata"

    def offsets(self):
        return sorted(o for file in self._log.iterdir() for o in range(*json.loads(file.read_text())))

    def groupBy(self, _name):  # noqa: N802
        return self

    def agg(self, _column):
        return self

    def collect(self):
        return [(number, max(self.offsets())) for number in (0, 1)]


@pytest.fixture(params=["parquet", "delta"])
def query(tmp_path, request, monkeypatch):
    from pyspark.sql import functions

    monkeypatch.setattr(functions, "max", lambda _: SimpleNamespace(alias=lambda _: None))
    query = Query(tmp_path, request.param)
    query.start()
    for number in range(3):
        query.add(number)
    return query


def refused(query, told):
    for _ in range(2):
        with pytest.raises(WrongOption, match=told):
            query.start()


def test_the_query_that_wrote_a_table_continues_also_where_both_were_moved(query, tmp_path):
    query.start()
    query.add(3, is_committed=False)
    query.start()  # it crashed before Spark knew of batch 3
    query.add(3)
    query.note("offsets", 4)
    query.start()  # it crashed before batch 4 was in the table
    query.add(4)
    query.table = query.table.rename(tmp_path / "moved")
    query.checkpoint = query.checkpoint.rename(tmp_path / "moved too")
    query.start()
    query.add(5)
    assert query.rows() == wanted(18)


def test_a_checkpoint_that_was_deleted_is_refused_and_one_in_its_place_continues(query):
    shutil.rmtree(query.checkpoint)
    refused(
        query, "another query, or one with another checkpoint than .*: option restart=table continues where the rows"
    )
    query.options["restart"] = "table"
    query.start()
    number, offsets = query.next_batch()
    assert offsets == {"orders": {"0": 9, "1": 9}, "@ids": {"orders": "id"}}
    assert number == (3 if query.kind == "parquet" else 1), "Spark's sink leaves out numbers that it has"
    query.options["restart"] = ""
    query.start()
    query.add(3)
    query.options["restart"] = "table"
    name = query.query
    query.start()
    assert query.query == name, "they agree: there is nothing to restart"
    assert query.rows() == wanted(12)


@pytest.mark.parametrize("left", ["nothing", "offsets", "all but the ID"])
def test_a_restart_that_was_killed_is_made_again(query, left, monkeypatch):
    shutil.rmtree(query.checkpoint)
    query.options["restart"] = "table"
    crash = {"nothing": "remove", "offsets": "write", "all but the ID": "create"}[left]
    with monkeypatch.context() as patch:
        write = LocalFolder.write

        def fails(folder, name, *text):
            if left == "offsets" and ("offsets" in name or name.startswith("_")):
                return write(folder, name, *text)
            raise KeyboardInterrupt

        patch.setattr(LocalFolder, crash, fails)
        with pytest.raises(KeyboardInterrupt):
            query.start()
    query.options["restart"] = ""
    refused(query, "option restart=table")
    query.options["restart"] = "table"
    query.start()
    query.add(3)
    assert query.rows() == wanted(12)


def test_spark_s_part_of_a_checkpoint_that_was_deleted_is_refused(query):
    shutil.rmtree(query.checkpoint / STAGE)
    refused(query, f"wrote {query.table}")


def test_a_second_query_is_refused(query, tmp_path):
    other = Query(tmp_path, query.kind, "other checkpoint")
    refused(other, f"wrote {query.table}")
    query.start()
    query.add(3)
    assert query.rows() == wanted(12)


def test_a_query_that_another_one_took_the_table_from_is_refused(query, tmp_path):
    other = Query(tmp_path, query.kind, "other checkpoint")
    other.options["restart"] = "table"
    other.start()
    other.add(3)
    if query.kind == "parquet":
        refused(query, f"wrote {query.table}")
    else:
        query.start()  # the offsets in the table decide
        query.add(3)
    assert query.rows() == wanted(12)


def test_a_table_that_was_deleted_is_refused_and_written_anew(query):
    shutil.rmtree(query.table)
    refused(query, f"there is no table at {query.table}, to which checkpoint {query.checkpoint} has written rows")
    query.options["restart"] = "table"
    query.start()
    assert not (query.checkpoint / STAGE / "offsets").exists()
    for number in range(3):
        query.add(number)
    assert query.rows() == wanted(9)


def test_an_older_copy_of_a_table_is_refused(query, tmp_path):
    shutil.copytree(query.table, tmp_path / "copy")
    query.add(3)
    shutil.rmtree(query.table)
    (tmp_path / "copy").rename(query.table)
    refused(query, f"wrote {query.table}")


def test_an_older_copy_of_a_checkpoint_doubles_and_leaves_out_nothing(query, tmp_path):
    """Spark's file sink would leave out its next batch, which has the number of one in the table."""
    shutil.copytree(query.checkpoint, tmp_path / "copy")
    query.add(3)
    shutil.rmtree(query.checkpoint)
    (tmp_path / "copy").rename(query.checkpoint)
    if query.kind == "parquet":
        refused(query, f"wrote {query.table}")
        return
    query.start()
    query.add(3)
    query.add(4)
    assert query.rows() == wanted(15)


@pytest.mark.parametrize(
    "source", [Source("other", SOURCE.topics), Source("cluster", {"orders": "new"}), Source("cluster", {"sales": "id"})]
)
def test_a_table_of_another_source_is_refused_with_any_checkpoint(query, source, tmp_path):
    told = r"table is a table of topic orders \(id\) of cluster cluster, and this is topic"
    for checkpoint in ("checkpoint", "other checkpoint"):
        other = Query(tmp_path, query.kind, checkpoint, source)
        other.options["restart"] = "table"
        refused(other, told)


def test_other_partition_columns_are_refused(query, tmp_path):
    refused(Query(tmp_path, query.kind, partition=""), "option 'partition' is '', and that of .* so far 'place'")


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_query_that_had_written_nothing_begins(kind, tmp_path):
    query = Query(tmp_path, kind)
    query.start()
    query.note("offsets", 0)
    query.start()
    query.add(0)
    assert query.rows() == wanted(3)


def test_of_two_queries_that_begin_at_once_one_gets_a_parquet_table(tmp_path, monkeypatch):
    first, second = Query(tmp_path, "parquet"), Query(tmp_path, "parquet", "other checkpoint")
    monkeypatch.setattr(ParquetTable, "record", lambda _: None)
    monkeypatch.setattr(ParquetTable, "agrees", lambda *_: True)
    first.start()
    with pytest.raises(WrongOption, match=r"another query began to write .* at the same time"):
        second.start()


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_what_is_no_table_of_a_pipeline_is_refused(kind, tmp_path):
    from deltalake import DeltaTable

    query = Query(tmp_path, kind)
    DeltaTable.create(query.table, SCHEMA)
    refused(query, "not of this pipeline: give another path")


def test_a_table_from_before_there_were_records_is_taken_over_if_the_numbers_agree(tmp_path):
    query = Query(tmp_path, "parquet")
    query.start()
    query.add(0)
    (query.table / "_tidelog.json").unlink()
    plan, table = Plan("a:1", query.checkpoint, {}), ParquetTable(str(query.table), None, adopts=True)
    other = Plan("a:1", tmp_path / "other", {})
    with pytest.raises(WrongOption, match="give another path, or remove"):
        claim(table, other, None, STAGE, query.record, Frame(0, 0), [])
    assert claim(table, plan, None, STAGE, query.record, Frame(0, 0), []) == query.query
    assert table.record() == query.record


@pytest.mark.parametrize("text", ["s3a://bucket/table", "hdfs://host/table", "abfss://c@a.b/table"])
def test_a_uri_is_no_folder_of_this_machine(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert is_uri(text)
    assert absolute(text) == text
    plan = Plan("a:1", text, {})
    assert plan.place("lake") == f"{text}/lake"
    with pytest.raises(BadOption, match="is not on this machine, which a session of Spark Connect cannot use"):
        plan.folder(SimpleNamespace())
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["file:/data/x", "file:///data/x", "/data/x"])
def test_a_file_uri_is_one(text):
    assert absolute(text) == "/data/x"
    assert isinstance(folder_of(text, None), LocalFolder)


def test_an_object_store_other_than_amazons_is_asked_for_files(monkeypatch):
    asked = []

    class Store(BaseHTTPRequestHandler):
        def do_HEAD(self):
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.send_header("Last-Modified", "Sat, 01 Jan 2022 00:00:00 GMT")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Store) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "any")
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        files, root = parquet_files.file_system("s3a://bucket/table")
        assert files.get_file_info(f"{root}/file").size == 5
        server.shutdown()
    assert asked == ["/bucket/table/file"]


def test_an_object_store_is_reached_by_its_own_file_system():
    files, root = parquet_files.file_system("s3a://bucket/a/table")
    assert (files.type_name, root) == ("s3", "bucket/a/table")


def test_files_are_there_whole_and_made_once(tmp_path):
    folder = folder_of(str(tmp_path / "new"), None)
    assert folder.names() == []
    assert folder.read("a/b") is None
    assert folder.create("a/b", "one")
    assert not folder.create("a/b", "two")
    folder.write("c", "ü")
    assert (folder.read("a/b"), folder.read("c"), folder.names(), folder.names("a")) == ("one", "ü", ["a", "c"], ["b"])
    for name in ("a", "a", "c"):
        folder.remove(name)
    assert folder.names() == []


class LaggingBroker:
    """Reports a topic that it does not know yet, then the topic; or never."""

    def __init__(self, code, *, learns):
        self._answers = [
            (code, []),
            *([(0, [MetadataResponsePartition(partition_index=0, replica_nodes=[1, 2])])] * learns),
        ]

    @contextmanager
    def lookup_admin(self):
        yield self

    def ask(self, _request):
        code, partitions = self._answers[0]
        self._answers = self._answers[1:] or self._answers
        topic = MetadataResponseTopic(error_code=code, name="orders", partitions=partitions)
        return MetadataResponse(topics=[topic], cluster_id="cluster")


def test_a_broker_that_learns_of_a_topic_late_is_asked_again(monkeypatch):
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert existing_topics(LaggingBroker(unknown, learns=True), "topic", ["orders"]) == {"orders": TopicShape(1, 2)}
    assert source_of(LaggingBroker(unknown, learns=True), "orders") == Source("cluster", {"orders": ""})
    with pytest.raises(WrongOption, match="there is no topic orders"):
        existing_topics(LaggingBroker(ErrorCode.INVALID_TOPIC_EXCEPTION, learns=True), "topic", ["orders"])
    monkeypatch.setattr(output_topics, "time", own_clock(monotonic=count().__next__))
    with pytest.raises(WrongOption, match="there is no topic orders"):
        existing_topics(LaggingBroker(unknown, learns=False), "topic", ["orders"])
