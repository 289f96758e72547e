"""Transactional producers as they were before transaction version 2 (KIP-890): partitions are added first, EndTxn
raises no epoch, and an epoch stands for many transactions.

Nothing but the epoch tells a late request from one of the next transaction, so an application that wants exactly once
with them takes its id anew when a connection broke: what may still be on its way is fenced then.
"""

from collections.abc import Sequence

from tidelog.client.backoff import Entropy
from tidelog.client.options import Address, ProducerOptions
from tidelog.client.transactional import OLDER, TransactionalProducer, Versions
from tidelog.model import Time

OLDEST = Versions(produce=8, add=1, end=1, offsets=3)
"""Those of Kafka 2.5, the first with positions that name their member (KIP-447)."""

AGES = (OLDER, OLDER, OLDEST)


class OldProducer(TransactionalProducer):
    """Speaks no newer versions than `speaks`, whatever the cluster can do."""

    def __init__(
        self, bootstrap: Sequence[Address], options: ProducerOptions, entropy: Entropy, speaks: Versions
    ) -> None:
        super().__init__(bootstrap, options, entropy)
        self.speaks = speaks

    def _speaks(self, now: Time) -> tuple[int, Versions]:
        del now
        return 0, self.speaks


def producer(
    bootstrap: Sequence[Address], options: ProducerOptions, entropy: Entropy, speaks: Versions | None
) -> TransactionalProducer:
    """A producer of today where `speaks` is None."""
    if speaks is None:
        return TransactionalProducer(bootstrap, options, entropy)
    return OldProducer(bootstrap, options, entropy, speaks)
