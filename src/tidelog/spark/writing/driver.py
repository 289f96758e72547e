"""What the driver does when all tasks of a batch have finished: record the batch, then commit it. docs/spark.md, "The
sink", explains why each row is written exactly once in any crash."""

import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

from tidelog.errors import ApiError, ErrorCode
from tidelog.spark.access import Access
from tidelog.spark.writing import prepared_transactions
from tidelog.spark.writing.ledger import Ledger, LedgerEntry, State, Transaction
from tidelog.spark.writing.prepared_transactions import Fate
from tidelog.spark.writing.task import Job, Prepared, Recorded, check_order, is_of_task

_log = logging.getLogger(__name__)

RETRY_S = 0.5
SHOWN = 10
"""The number of partitions listed in an error."""


class TransactionsLost(Exception):
    """Transactions of a batch timed out and were aborted before they were committed. The message says what was written
    of the batch, and what to do."""


class Driver:
    """The driver of one query. After a failed call, `close` it and create another."""

    def __init__(self, access: Access, key: str) -> None:
        self._admin = access.admin()
        self._is_clean = False
        try:
            self._ledger = Ledger(access, key, self._admin)
        except BaseException:
            self._admin.abandon()
            raise

    def commit(self, messages: Sequence[Prepared | Recorded], job: Job) -> None:
        """Commit all that the tasks wrote, or none of it. If the batch already has a ledger entry, that entry counts,
        not what these tasks wrote. After TransactionsLost or ApiError, a rerun of the batch decides."""
        written = [one.transaction for one in messages if isinstance(one, Prepared) and one.transaction]
        entry = self._ledger.read()
        check_order(entry, job)
        if entry is not None and entry.batch == job.batch and entry.state is not State.VOID:
            _log.warning("the ledger has batch %d of %s: it is ended, and not written again", job.batch, job.key)
            self._finish(entry, job)
            prepared_transactions.abort(self._admin, entry.without(written))
            self._clean(job.key)
        elif any(isinstance(one, Recorded) for one in messages):
            raise ApiError(ErrorCode.INVALID_TXN_STATE, f"the entry of batch {job.batch} of {job.key} is gone")
        elif written:
            self._check_open(written)
            decided = LedgerEntry(job.batch, State.DECIDED, tuple(written))
            self._ledger.write(decided)
            self._finish(decided, job)
            self._is_clean &= not any(isinstance(one, Prepared) and one.is_new for one in messages)
            self._clean(job.key)

    def abort(self, transactions: Iterable[Transaction], job: Job, *, patience_s: float = 0) -> None:
        """The batch failed: abort what its tasks left open, unless the batch has a ledger entry, which a rerun will
        commit. Tasks that are being killed may begin transactions for `patience_s` more."""
        entry = self._ledger.read()
        is_decided = entry is not None and entry.batch == job.batch and entry.state is not State.VOID
        kept = entry if is_decided else None
        prepared_transactions.abort(self._admin, list(transactions) if kept is None else kept.without(transactions))
        until = time.monotonic() + patience_s
        while kept is None:
            self._is_clean = False
            self._clean(job.key)
            if time.monotonic() >= until:
                return
            time.sleep(RETRY_S)

    def settle(self, messages: Sequence[Prepared | Recorded], job: Job, *, is_named: bool) -> None:
        """A batch job is over: the entry of a named job stays, any other is deleted."""
        if is_named and any(isinstance(one, Prepared) for one in messages):
            self._ledger.write(LedgerEntry(job.batch, State.ENDED, ()))
        elif not is_named and any(isinstance(one, Prepared) and one.transaction for one in messages):
            self._ledger.write(None)

    def close(self) -> None:
        self._ledger.close()
        self._admin.abandon()

    def _check_open(self, written: Sequence[Transaction]) -> None:
        """Raise TransactionsLost if a transaction is gone. Before the batch is recorded that costs nothing: it is
        written again."""
        gone = prepared_transactions.not_open(self._admin, written)
        if gone:
            raise TransactionsLost(
                f"{len(gone)} of {len(written)} transactions of the batch were aborted before the last task was "
                f"through, first {gone[0].id}; nothing of the batch is in the topic. Set kafka.transaction.timeout.ms "
                "(and the brokers' transaction.max.timeout.ms) to more than a batch takes, or make batches smaller, "
                "and start again"
            )

    def _finish(self, entry: LedgerEntry, job: Job) -> None:
        """Commit all transactions of the entry; those already ended stay as they are."""
        if entry.state is State.ENDED:
            return
        fates = prepared_transactions.commit(self._admin, entry.transactions)
        if all(fate is Fate.COMMITTED for fate in fates):
            return
        if all(fate is Fate.ABORTED for fate in fates):
            self._ledger.write(entry.now(State.VOID))
            raise TransactionsLost(
                f"all transactions of batch {job.batch} of {job.key} were aborted before they were ended: the driver "
                "was away for longer than kafka.transaction.timeout.ms. Nothing of the batch is in the topic; start "
                "the query again, and it is written anew"
            )
        raise TransactionsLost(_partly_lost_message(entry, fates, job))

    def _clean(self, key: str) -> None:
        """Abort what dead processes left open, so that readers need not wait for the timeout. There is nothing to abort
        while the same processes write one batch after another."""
        if not self._is_clean:
            with suppress(ApiError):  # a broker is gone; the next batch tries again
                found = prepared_transactions.left_open(self._admin, lambda name: is_of_task(name, key))
                prepared_transactions.abort(self._admin, found)
                self._is_clean = True


def _partly_lost_message(entry: LedgerEntry, fates: Sequence[Fate], job: Job) -> str:
    lost = [one for one, fate in zip(entry.transactions, fates, strict=True) if fate is not Fate.COMMITTED]
    places = [f"{topic}-{number} from {offset}" for one in lost for (topic, number), offset in one.first.items()]
    return (
        f"{len(lost)} of {len(fates)} transactions of batch {job.batch} of {job.key} were not committed in time, while "
        f"the others were: rows are missing in {', '.join(places[:SHOWN])}{' …' * (len(places) > SHOWN)}. The driver "
        "was away for longer than kafka.transaction.timeout.ms. The query cannot go on by itself: write the missing "
        "rows of this batch by hand, or begin anew with another checkpoint and topic"
    )
