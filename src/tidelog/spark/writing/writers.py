"""The two writers that Spark knows. They are created on the driver, sent to tasks, and created again where a batch is
committed."""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tidelog.client.admin import ANY
from tidelog.spark.access import Access
from tidelog.spark.garbage import freeze_modules
from tidelog.spark.options import BadOption
from tidelog.spark.writing import frame_columns, ledger
from tidelog.spark.writing.driver import Driver
from tidelog.spark.writing.ledger import Transaction
from tidelog.spark.writing.task import Job, Prepared, Recorded, prepare, write
from tidelog.spark.writing.write_options import WriteOptions
from tidelog.wire.messages.topics.metadata import MetadataRequest

QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's names for what a task is part of."""

KILLED_WITHIN_S = 3.0
"""Spark kills the Python worker of a cancelled task after two seconds if it still runs."""

_ready: set[tuple[Access, bool]] = set()
_drivers: dict[tuple[Access, str], Driver] = {}
"""Kept from batch to batch in the process that commits."""


def stream_writer(options: Any, schema: StructType) -> "StreamWriter":
    chosen = WriteOptions.of(options, streaming=True)
    found = frame_columns.checked(schema, chosen.topic)
    _prepare(chosen)
    return StreamWriter(chosen, found)


def batch_writer(options: Any, schema: StructType, *, overwrite: bool) -> "BatchWriter":
    chosen = WriteOptions.of(options, streaming=False)
    if overwrite:
        raise BadOption("mode overwrite is not possible: a topic is only added to; use mode append")
    found = frame_columns.checked(schema, chosen.topic)
    _prepare(chosen)
    return BatchWriter(chosen, found)


class StreamWriter(DataSourceStreamArrowWriter):
    """One micro-batch after another. Output mode complete appends all rows each time, as with Spark's own connector."""

    def __init__(self, options: WriteOptions, found: frame_columns.Columns) -> None:
        self._options = options
        self._columns = found

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        freeze_modules()
        if not self._options.exactly_once:
            return write(iterator, self._options, self._columns)
        return prepare(iterator, self._options, self._columns, _job_of_task(self._options.prefix))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        of_tasks, job = _task_messages(messages)
        if job is not None:
            assert job.batch == batchId, f"tasks wrote batch {job.batch}, and Spark commits {batchId}"
            _commit(self._options.access, of_tasks, job)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """If no task reports which query this is, the next start of the query aborts what is left."""
        _, job = _task_messages(messages)
        if job is not None:
            _abort(self._options.access, messages, job, 0)


class BatchWriter(DataSourceArrowWriter):
    """One batch job. With `exactlyOnce` all of its rows count or none; a named job is written once."""

    def __init__(self, options: WriteOptions, found: frame_columns.Columns) -> None:
        self._options = options
        self._columns = found
        self._job = Job(f"{options.prefix}-{options.job or uuid.uuid4()}", 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        freeze_modules()
        if not self._options.exactly_once:
            return write(iterator, self._options, self._columns)
        return prepare(iterator, self._options, self._columns, self._job)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        of_tasks, job = _task_messages(messages)
        if job is not None:
            try:
                driver = _commit(self._options.access, of_tasks, job)
                driver.settle(of_tasks, job, is_named=self._options.job is not None)
            finally:
                _drop(self._options.access, job)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._options.exactly_once:
            _abort(self._options.access, messages, self._job, KILLED_WITHIN_S)


def _job_of_task(prefix: str) -> Job:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "tasks have a context"
    query, batch = context.getLocalProperty(QUERY), context.getLocalProperty(BATCH)
    if query is None or batch is None:
        raise BadOption("option 'exactlyOnce' needs a micro-batch: real-time and continuous triggers have none")
    return Job(f"{prefix}-{query}", int(batch))


def _task_messages(messages: Iterable[WriterCommitMessage | None]) -> tuple[list[Prepared | Recorded], Job | None]:
    """The messages of tasks with exactlyOnce, and their job."""
    found = [one for one in messages if isinstance(one, Prepared | Recorded)]
    return found, found[0].job if found else None


def _commit(access: Access, messages: Sequence[Prepared | Recorded], job: Job) -> Driver:
    driver = _drivers.get((access, job.key))
    if driver is None:
        driver = _drivers[access, job.key] = Driver(access, job.key)
    try:
        driver.commit(messages, job)
    except BaseException:
        _drop(access, job)
        raise
    return driver


def _abort(access: Access, messages: Iterable[WriterCommitMessage | None], job: Job, patience_s: float) -> None:
    """Use a new driver, which first resolves what an earlier one was writing."""
    written: list[Transaction] = [one.transaction for one in messages if isinstance(one, Prepared) and one.transaction]
    _drop(access, job)
    driver = Driver(access, job.key)
    try:
        driver.abort(written, job, patience_s=patience_s)
    finally:
        driver.close()


def _drop(access: Access, job: Job) -> None:
    driver = _drivers.pop((access, job.key), None)
    if driver is not None:
        driver.close()


def _prepare(options: WriteOptions) -> None:
    """Before the first batch is planned: report problems of the cluster on the driver."""
    freeze_modules()
    access = options.access
    name = (access, options.exactly_once)
    if name in _ready:
        return
    wait_ms = options.producer.max_block_ms
    with access.admin() as admin:
        with access.explained_errors(wait_ms):
            admin.ask(MetadataRequest(topics=[]), ANY, timeout_ms=wait_ms)
        if options.exactly_once:
            ledger.create(admin)
    _ready.add(name)
