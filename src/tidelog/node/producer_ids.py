"""Ids for idempotent producers, in blocks taken from the metadata tree by compare-and-set (KIP-730's classic form)."""

from collections.abc import Callable, Sequence

from tidelog.controller import tree
from tidelog.ports import Node, Operation, Read, StoreResult, Write

BLOCK = 1000
RETRIED_MS = 5_000
"""The longest time between two tries that count as one wait, in milliseconds."""

Submit = Callable[[Sequence[Operation], Callable[[StoreResult], None]], None]


class ProducerIdBlocks:
    """Gives ids of the present block; when it runs dry the next is taken. A lost or unknown block is never given."""

    def __init__(
        self, broker_id: int, submit: Submit, wake: Callable[[], None], mono: Callable[[], int] = lambda: 0
    ) -> None:
        self._broker_id = broker_id
        self._submit = submit
        self._wake = wake
        self._next = 0
        self._end = 0
        self._busy = False
        self._mono = mono
        self._waiting_since: int | None = None
        self._failed_at = 0

    def __repr__(self) -> str:
        return f"<ProducerIdBlocks {self._next} to {self._end}>"

    def next_id(self) -> int | None:
        if self._next < self._end:
            self._next += 1
            return self._next - 1
        self.fetch_block()
        return None

    @property
    def is_ready(self) -> bool:
        """Whether `next_id` returns one now."""
        return self._next < self._end

    @property
    def waiting_ms(self) -> int:
        """How long a block has been needed and was not got, over all tries; 0 if none is being fetched."""
        return self._mono() - self._waiting_since if self._busy and self._waiting_since is not None else 0

    def restart(self) -> None:
        """A new session: what was under way is lost, a block at hand is still this broker's."""
        self._busy = False

    def fetch_block(self) -> None:
        """Take a block, unless one is being taken."""
        if not self._busy:
            self._busy = True
            if self._waiting_since is None or self._mono() - self._failed_at > RETRIED_MS:
                self._waiting_since = self._mono()
            self._submit([Read(tree.PRODUCER_ID_BLOCK)], self._read)

    def _read(self, result: StoreResult) -> None:
        node = result.values[0] if result.outcome == "ok" else None
        if not isinstance(node, Node):
            self._failed()
            return
        first = tree.parse_producer_id_block(node.data)[1] + 1
        content = tree.format_producer_id_block(self._broker_id, first, first + BLOCK - 1)

        def written(outcome: StoreResult) -> None:
            self._busy = False
            if outcome.outcome != "ok":
                self.fetch_block()
                return
            self._next, self._end = first, first + BLOCK
            self._waiting_since = None
            self._wake()

        self._submit([Write(tree.PRODUCER_ID_BLOCK, content, node.version)], written)

    def _failed(self) -> None:
        """The store did not answer: the next request for an id tries again."""
        self._busy = False
        self._failed_at = self._mono()
        self._wake()
