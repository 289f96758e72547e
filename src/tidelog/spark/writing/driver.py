"""What the driver does when all tasks of a batch are through: record, then end. docs/spark.md, "The sink", has the
argument why each row is there once whatever crashes in between."""

import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

from tidelog.errors import ApiError, ErrorCode
from tidelog.spark.access import Access
from tidelog.spark.writing import prepared_transactions
from tidelog.spark.writing.ledger import Ledger, LedgerEntry, State, Transaction, writer_id
from tidelog.spark.writing.prepared_transactions import Fate
from tidelog.spark.writing.task import Job, Prepared, Recorded, check_order

_log = logging.getLogger(__name__)

RETRY_S = 0.5
SHOWN = 10
"""So many places are named in an error."""


class TransactionsLost(Exception):
    """Transactions of a batch were aborted before they were ended: their time was over. Says what is there of the
    batch, and what to do."""


class Driver:
    """The driver of one query. Once a call failed it is of no use any more: `close` it and make another."""

    def __init__(self, access: Access, key: str) -> None:
        self._admin = access.admin()
        self._is_clean = False
        try:
            self._ledger = Ledger(access, key, self._admin)
        except BaseException:
            self._admin.abandon()
            raise

    def commit(self, messages: Sequence[Prepared | Recorded], job: Job) -> None:
        """Make all that the tasks wrote count, or none of it: where the batch has an entry already, what that says
        counts, and not what these tasks wrote. TransactionsLost, or ApiError, leave it to a rerun of the batch."""
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
        """The batch failed: abort what its tasks left open, unless it has an entry, which a rerun will end. Tasks that
        are being killed may begin something for `patience_s` more."""
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
        """A job that is not a query's is over: one with a name stays known, the entry of another is taken away."""
        if is_named and any(isinstance(one, Prepared) for one in messages):
            self._ledger.write(LedgerEntry(job.batch, State.ENDED, ()))
        elif not is_named and any(isinstance(one, Prepared) and one.transaction for one in messages):
            self._ledger.write(None)

    def close(self) -> None:
        self._ledger.close()
        self._admin.abandon()

    def _check_open(self, written: Sequence[Transaction]) -> None:
        """Before it is decided, a transaction that is gone costs nothing: the batch is written again."""
        gone = prepared_transactions.not_open(self._admin, written)
        if gone:
            raise TransactionsLost(
                f"{len(gone)} of {len(written)} transactions of the batch were aborted before the last task was "
                f"through, first {gone[0].id}; nothing of the batch is in the topic. Set kafka.transaction.timeout.ms "
                "(and the brokers' transaction.max.timeout.ms) to more than a batch takes, or make batches smaller, "
                "and start again"
            )

    def _finish(self, entry: LedgerEntry, job: Job) -> None:
        """End all transactions of the entry; those that are ended already stay as they are."""
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
        """Abort what dead processes left open, so that readers need not wait until its time is over. There is nothing
        of that kind while the same processes do one batch after another."""
        if not self._is_clean:
            with suppress(ApiError):  # a broker is gone; the next batch tries again
                found = prepared_transactions.left_open(self._admin, f"{key}-")
                prepared_transactions.abort(self._admin, [one for one in found if one.id != writer_id(key)])
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
