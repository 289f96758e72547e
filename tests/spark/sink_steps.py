"""What Spark does with the sink for one batch, in a process that can be ended at a named point: two tasks, then the
driver. `python -m tests.spark.sink_steps` reads lines of JSON, [BOOTSTRAP, TOPIC, QUERY, BATCH, POINT]; for each it forks a
process that ends itself by SIGKILL there, and writes its exit code. `Steps` is the other side.

The points are outside the product's code: its functions are wrapped here.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator

import pyarrow as pa

from tidelog.shell.transactions import TransactionalProducer
from tidelog.spark.access import Access
from tidelog.spark.writing import driver, prepared_transactions, task
from tidelog.spark.writing.frame_columns import Columns
from tidelog.spark.writing.ledger import Ledger
from tidelog.spark.writing.rows import RowSender
from tidelog.spark.writing.task import Job, Prepared, Recorded
from tidelog.spark.writing.write_options import WriteOptions

ROWS = 500
TASKS = 2
NOWHERE = "nowhere"


def options(bootstrap: str, topic: str, **more: str) -> WriteOptions:
    given = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "exactlyOnce": "true"}
    return WriteOptions.of({**given, "kafka.batch.size": "2000", **more}, streaming=True)


def rows(batch: int, number: int) -> list[bytes]:
    """What a task writes."""
    return [b"%d-%d-%d" % (batch, number, row) for row in range(ROWS)]


def prepared(chosen: WriteOptions, job: Job, number: int) -> Prepared | Recorded:
    """A task."""
    values = rows(job.batch, number)
    halves = [values[: ROWS // 2], values[ROWS // 2 :]]
    batches = (pa.RecordBatch.from_arrays([pa.array(half)], names=["value"]) for half in halves)
    return task.prepare(batches, chosen, Columns(key=False, headers=False, partition=False), job)


def messages(chosen: WriteOptions, job: Job) -> list[Prepared | Recorded]:
    return [prepared(chosen, job, number) for number in range(TASKS)]


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _in_a_task() -> None:
    """The second task sent its first rows."""
    send, sent = RowSender.send, []

    def sending(sender: RowSender, batches: Iterator[pa.RecordBatch]) -> None:
        sent.append(sender)
        if len(sent) < TASKS:
            send(sender, batches)
        else:
            send(sender, [next(batches)])
            sender.flush()
            _die()

    RowSender.send = sending  # type: ignore[method-assign]


def _after_the_tasks() -> None:
    driver.Driver.commit = lambda *_: _die()  # type: ignore[method-assign,assignment]


def _before_the_entry() -> None:
    Ledger.write = lambda *_: _die()  # type: ignore[method-assign,assignment]


def _within_the_entry() -> None:
    """The entry is in its partition, and its transaction is open."""

    def flushed(producer: TransactionalProducer) -> None:
        assert all(delivery.is_acknowledged for delivery in producer.flush())
        _die()

    TransactionalProducer.commit = flushed  # type: ignore[method-assign]


def _after_the_entry() -> None:
    prepared_transactions.commit = lambda *_: _die()  # type: ignore[assignment]


def _between_two_ends() -> None:
    commit = prepared_transactions.commit

    def half(admin: prepared_transactions.Admin, transactions: tuple[prepared_transactions.Transaction, ...]) -> None:
        commit(admin, transactions[:1])
        _die()

    prepared_transactions.commit = half  # type: ignore[assignment]


def _after_the_ends() -> None:
    commit = prepared_transactions.commit

    def whole(admin: prepared_transactions.Admin, transactions: tuple[prepared_transactions.Transaction, ...]) -> None:
        commit(admin, transactions)
        _die()

    prepared_transactions.commit = whole  # type: ignore[assignment]


POINTS: dict[str, Callable[[], None]] = {
    "in a task": _in_a_task,
    "after the tasks": _after_the_tasks,
    "before the entry": _before_the_entry,
    "within the entry": _within_the_entry,
    "after the entry": _after_the_entry,
    "between two ends": _between_two_ends,
    "after the ends": _after_the_ends,
}


def main(bootstrap: str, topic: str, query: str, batch: str, point: str) -> None:
    if point != NOWHERE:
        POINTS[point]()
    job = Job(query, int(batch))
    running = driver.Driver(Access(bootstrap), job.key)
    running.commit(messages(options(bootstrap, topic), job), job)


def serve() -> None:
    """This process itself does no step, and has no thread and no connection that a fork would share."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                main(*json.loads(line))
                code = 0
            finally:
                if code:
                    traceback.print_exc()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{code}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
