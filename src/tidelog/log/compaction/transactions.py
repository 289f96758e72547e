"""What of transactions compaction may drop: the data of aborted ones, and later the markers that ended them.

A marker stays while a record of its transaction was there in this pass: without it a reader could not tell how the
transaction ended. A pass that meets the marker alone gives it a delete horizon, and one after the horizon drops it.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from tidelog.log.transactions import Aborted
from tidelog.wire.records import BatchHeader, Marker


class PassedTransactions:
    """Told of every batch of a part of the log, in order."""

    def __init__(self) -> None:
        self._coming: list[tuple[int, Aborted]] = []
        self._aborted: dict[int, Aborted] = {}
        self._seen: set[int] = set()
        self._committed: set[int] = set()
        self._kept: list[Aborted] = []

    def __repr__(self) -> str:
        return f"<PassedTransactions {len(self._aborted)} aborted, {len(self._committed)} committed ones open>"

    def add(self, aborted: Iterable[Aborted]) -> None:
        """Those that reach into the next part; one that spans several parts may come again."""
        for entry in aborted:
            heappush(self._coming, (entry.first_offset, entry))

    def take_kept(self) -> list[Aborted]:
        """Aborted transactions that ended since this was last asked and of which data was seen: they stay in the
        transaction index."""
        kept, self._kept = self._kept, []
        return kept

    def is_aborted(self, batch: BatchHeader) -> bool:
        """Whether this batch of records belongs to an aborted transaction."""
        self._begin(batch.last_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._seen.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def is_marker_alone(self, batch: BatchHeader, marker: Marker | None) -> bool:
        """Whether of the transaction that this control batch ended nothing was seen."""
        self._begin(batch.last_offset)
        producer = batch.producer_id
        if marker is None:
            return False
        if marker.committed:
            alone = producer not in self._committed
            self._committed.discard(producer)
            return alone
        entry = self._aborted.pop(producer, None)
        if entry is None or producer not in self._seen:
            return True
        self._seen.discard(producer)
        self._kept.append(entry)
        return False

    def _begin(self, offset: int) -> None:
        """Transactions that begin up to this offset are open now."""
        while self._coming and self._coming[0][0] <= offset:
            entry = heappop(self._coming)[1]
            self._aborted.setdefault(entry.producer_id, entry)
