"""What a task does: send its rows, and tell the driver. With `exactlyOnce` its transaction stays open, prepared."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from tidelog.errors import ApiError, ErrorCode
from tidelog.shell.transactions import TransactionalProducer
from tidelog.shell.transport import Producer
from tidelog.spark.access import Access
from tidelog.spark.options import BadOption
from tidelog.spark.writing import identities
from tidelog.spark.writing.columns import Columns
from tidelog.spark.writing.entries import LedgerEntry, State, Transaction
from tidelog.spark.writing.ledger import Reader
from tidelog.spark.writing.options import WriteOptions
from tidelog.spark.writing.rows import RowSender


class Job(NamedTuple):
    """One batch of one query, or one job: what all its tasks and its driver know it by."""

    key: str
    batch: int


@dataclass
class Written(WriterCommitMessage):
    """Rows that are in the topic for good."""

    rows: int


@dataclass
class Prepared(WriterCommitMessage):
    """Rows that count once the transaction is committed; None where there were none. `is_new` tells that the id was not
    used before: a process before may have left a transaction open."""

    job: Job
    rows: int
    transaction: Transaction | None
    is_new: bool


@dataclass
class Recorded(WriterCommitMessage):
    """The batch has its entry in the ledger already: nothing was written."""

    job: Job


def write(batches: Iterable[pa.RecordBatch], options: WriteOptions, columns: Columns) -> Written:
    """At least once: all rows are acknowledged when this returns."""
    with Producer(options.bootstrap, **_sending(options)) as producer:
        sender = RowSender(producer, options, columns)
        try:
            sender.send(batches)
            sender.flush()
        except BaseException:
            producer.abandon()
            raise
    return Written(sender.rows)


def prepare(
    batches: Iterable[pa.RecordBatch], options: WriteOptions, columns: Columns, job: Job
) -> Prepared | Recorded:
    """All rows are acknowledged when this returns, in a transaction that is left to the driver."""
    if is_recorded(options, job):
        return Recorded(job)
    transactional_id, is_new = identities.take(job.key, job.batch)
    producer = _begun(options, transactional_id)
    try:
        producer.begin()
        sender = RowSender(producer, options, columns)
        try:
            sender.send(batches)
            sender.flush()
        except Exception:
            producer.close()  # aborts
            raise
        transaction = Transaction(transactional_id, *producer.identity, sender.first) if sender.rows else None
    finally:
        producer.abandon()
    return Prepared(job, sender.rows, transaction, is_new)


def _begun(options: WriteOptions, transactional_id: str) -> TransactionalProducer:
    try:
        return TransactionalProducer(options.bootstrap, transactional_id, **_sending(options))
    except ApiError as error:
        if error.code is not ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise
        raise BadOption(
            f"option 'kafka.transaction.timeout.ms' is {options.producer.transaction_timeout_ms}, more than the "
            "brokers allow: lower it, or raise their transaction.max.timeout.ms"
        ) from None


def is_recorded(options: WriteOptions, job: Job) -> bool:
    """Whether the batch has its entry already, as far as one task can see: the driver looks again."""
    reader = _reader(options.access, job.key)
    try:
        entry = reader.newest()
    except ApiError as error:
        _readers.pop((options.access, job.key)).close()
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return False  # nobody wrote an entry yet
        raise
    check_order(entry, job)
    return entry is not None and entry.batch == job.batch and entry.state is not State.VOID


def check_order(entry: LedgerEntry | None, job: Job) -> None:
    """ApiError where the ledger is ahead of the query."""
    if entry is not None and entry.batch > job.batch:
        raise ApiError(
            ErrorCode.INVALID_TXN_STATE,
            f"batch {job.batch} of {job.key} was written before: the ledger has batch {entry.batch}. The checkpoint is "
            "an old copy; restore the newest one, or begin with a new checkpoint",
        )


def _sending(options: WriteOptions) -> dict[str, Any]:
    """The producer's options as keywords; the transactional id is given beside them."""
    chosen = options.producer
    return {field.name: getattr(chosen, field.name) for field in fields(chosen) if field.name != "transactional_id"}


_readers: dict[tuple[Access, str], Reader] = {}
_KEPT = 8


def _reader(access: Access, key: str) -> Reader:
    """Kept between the tasks of a process."""
    name = (access, key)
    if name not in _readers:
        while len(_readers) >= _KEPT:
            _readers.pop(next(iter(_readers))).close()
        _readers[name] = Reader(access, key)
    return _readers[name]
