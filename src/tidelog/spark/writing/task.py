"""What a task does: send its rows and report to the driver. With `exactlyOnce` its transaction stays open, prepared.

Transactional ids: nobody else may ever begin a transaction under an id whose transaction may be prepared, since that
would abort it. Two attempts of one task run at once where Spark speculates, and a task whose driver is gone may run for
a while. So ids do not come from the number of the task or the attempt; they belong to a process, which does one task
after another and none when it is dead. A process reuses an id only in a later batch of its query, which Spark begins
when all transactions of the batch before have ended.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from tidelog.errors import ApiError, ErrorCode
from tidelog.shell.client_sockets import now
from tidelog.spark.access import Access
from tidelog.spark.options import BadOption
from tidelog.spark.writing.frame_columns import Columns
from tidelog.spark.writing.ledger import LedgerEntry, Reader, State, Transaction
from tidelog.spark.writing.producers import ProducerPool
from tidelog.spark.writing.rows import RowSender
from tidelog.spark.writing.write_options import WriteOptions

LOOKS_AGAIN_MS = 1_000
"""How long a task relies on what an earlier one of its process and batch saw in the ledger."""

_slots: dict[str, list[int]] = {}
_process: tuple[int, str] = (0, "")


def take_transactional_id(key: str, batch: int) -> tuple[str, bool]:
    """An ID for one task of a batch of the query `key`, and whether it is new."""
    slots = _slots_of(key)
    for number, last in enumerate(slots):
        if last < batch:
            slots[number] = batch
            return f"{key}-{_process[1]}-{number}", False
    slots.append(batch)
    return f"{key}-{_process[1]}-{len(slots) - 1}", True


def is_of_task(transactional_id: str, key: str) -> bool:
    """Whether a task of the query `key` uses this ID. The key alone, as a prefix, would also fit the IDs of another job
    whose name begins with this one's."""
    return re.fullmatch(re.escape(key) + r"-[0-9a-f]{12}-\d+", transactional_id) is not None


def _slots_of(key: str) -> list[int]:
    """A forked process gets its own IDs."""
    global _process  # noqa: PLW0603  what a process is, is global
    if _process[0] != os.getpid():
        _process = (os.getpid(), os.urandom(6).hex())
        _slots.clear()
    return _slots.setdefault(key, [])


class Job(NamedTuple):
    """One batch of one query, or one batch job: the identity that its tasks and its driver share."""

    key: str
    batch: int


@dataclass
class Written(WriterCommitMessage):
    """Rows that are in the topic for good."""

    rows: int


@dataclass
class Prepared(WriterCommitMessage):
    """Rows that count once the transaction is committed; None if there were no rows. `is_new`: the ID was not used
    before, so an earlier process may have left a transaction open."""

    job: Job
    rows: int
    transaction: Transaction | None
    is_new: bool


@dataclass
class Recorded(WriterCommitMessage):
    """The batch already has its entry in the ledger: nothing was written."""

    job: Job


class _Unrecorded:
    """The job that had no entry when this process looked last. Small tasks of one batch that follow each other closely
    look once: that can only make them write in vain, since the driver checks again."""

    def __init__(self) -> None:
        self._job: Job | None = None
        self._until = 0

    def covers(self, job: Job) -> bool:
        return self._job == job and now().mono < self._until

    def found(self, job: Job) -> None:
        self._job, self._until = job, now().mono + LOOKS_AGAIN_MS


_unrecorded = _Unrecorded()


def write(batches: Iterable[pa.RecordBatch], options: WriteOptions, columns: Columns) -> Written:
    """At least once: all rows are acknowledged when this returns."""
    with _producers.borrowed(options.bootstrap, options.producer) as producer:
        sender = RowSender(producer, options, columns)
        sender.send(batches)
        sender.flush()
    return Written(sender.rows)


def prepare(
    batches: Iterable[pa.RecordBatch], options: WriteOptions, columns: Columns, job: Job
) -> Prepared | Recorded:
    """All rows are acknowledged when this returns, in a transaction that the driver will end."""
    if not _unrecorded.covers(job):
        if is_recorded(options, job):
            return Recorded(job)
        _unrecorded.found(job)
    transactional_id, is_new = take_transactional_id(job.key, job.batch)
    with (
        _limited_timeout(options),
        _producers.transaction(options.bootstrap, options.producer, transactional_id) as producer,
    ):
        sender = RowSender(producer, options, columns)
        sender.send(batches)
        sender.flush()
        transaction = Transaction(transactional_id, *producer.identity, sender.first) if sender.rows else None
    return Prepared(job, sender.rows, transaction, is_new)


@contextmanager
def _limited_timeout(options: WriteOptions) -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        if error.code is not ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise
        raise BadOption(
            f"option 'kafka.transaction.timeout.ms' is {options.producer.transaction_timeout_ms}, more than the "
            "brokers allow: lower it, or raise their transaction.max.timeout.ms"
        ) from None


def is_recorded(options: WriteOptions, job: Job) -> bool:
    """Whether the batch already has its entry, as far as one task can see; the driver checks again."""
    reader = _reader(options.access, job.key)
    try:
        entry = reader.newest()
    except ApiError as error:
        _readers.pop((options.access, job.key)).close()
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return False  # no entry was written yet
        raise
    check_order(entry, job)
    return entry is not None and entry.batch == job.batch and entry.state is not State.VOID


def check_order(entry: LedgerEntry | None, job: Job) -> None:
    """ApiError if the ledger is ahead of the query."""
    if entry is not None and entry.batch > job.batch:
        raise ApiError(
            ErrorCode.INVALID_TXN_STATE,
            f"batch {job.batch} of {job.key} was written before: the ledger has batch {entry.batch}. The checkpoint is "
            "an old copy; restore the newest one, or begin with a new checkpoint",
        )


_producers = ProducerPool()
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
