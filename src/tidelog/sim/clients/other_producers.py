"""Transactional producers that differ from Tidelog's.

Before transaction version 2 (KIP-890) partitions are added first, EndTxn does not raise the epoch, and an epoch stands
for many transactions. Only the epoch tells a late request from one of the next transaction, so an application that
wants exactly-once with them requests its ID again whenever a connection broke: that fences requests that may still be
under way.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.client.backoff import Entropy
from tidelog.client.options import Address, ProducerOptions
from tidelog.client.transactional import OLDER, TransactionalProducer, Versions
from tidelog.model import Time, TopicPartition

OLDEST = Versions(produce=8, add=1, end=1, offsets=3)
"""The versions of Kafka 2.5, the first whose committed positions name their member (KIP-447)."""

OLD_VERSIONS = (OLDER, OLDER, OLDEST)


class OldProducer(TransactionalProducer):
    """Uses no newer versions than `versions`, whatever the cluster supports."""

    def __init__(
        self, bootstrap: Sequence[Address], options: ProducerOptions, entropy: Entropy, versions: Versions
    ) -> None:
        super().__init__(bootstrap, options, entropy)
        self.versions = versions

    def _transaction_version(self, now: Time) -> tuple[int, Versions]:
        del now
        return 0, self.versions


class EarlyEnder(TransactionalProducer):
    """Also ends transactions in which it sent nothing, as franz-go does."""

    def begin(self) -> None:
        super().begin()
        self._has_begun = True


class Skipper(TransactionalProducer):
    """Lost the first batch of a transaction without knowing it, and sends the second."""

    def skip(self, name: TopicPartition) -> bool:
        """Return whether the next record is the producer's first to the partition; its sequence is 1 then."""
        numbers = self._numbers.of(name)
        is_first = numbers.next == 0
        numbers.next += is_first
        return is_first


@dataclass(frozen=True, slots=True)
class Habits:
    """How an application's producer behaves.

    `versions` are those of an old one; `ends_empty` as `EarlyEnder`; `skips` as `Skipper`, with a new transactional ID
    for each transaction: no broker may accept any of it.
    """

    versions: Versions | None = None
    ends_empty: bool = False
    skips: bool = False

    @property
    def is_current(self) -> bool:
        return self.versions is None and not self.skips


CURRENT = Habits()


def producer(
    bootstrap: Sequence[Address], options: ProducerOptions, entropy: Entropy, habits: Habits = CURRENT
) -> TransactionalProducer:
    if habits.versions is not None:
        return OldProducer(bootstrap, options, entropy, habits.versions)
    kind = Skipper if habits.skips else EarlyEnder if habits.ends_empty else TransactionalProducer
    return kind(bootstrap, options, entropy)
