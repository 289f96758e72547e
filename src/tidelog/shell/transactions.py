"""The transactional producer over real sockets, blocking."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tidelog.client.options import Address, ProducerOptions
from tidelog.client.results import CommittedOffset, GroupPlace
from tidelog.client.transactional import TransactionalProducer as Client
from tidelog.effects import Effect
from tidelog.model import TopicPartition
from tidelog.shell.client_sockets import addresses, now
from tidelog.shell.transport import FOREVER, Consumer, Producer, Results


class TransactionalProducer(Producer):
    """`with TransactionalProducer("127.0.0.1:9092", "my-id") as producer:` and, for each transaction,
    `with producer.transaction(): producer.send("topic", b"value")`. ApiError where the cluster refuses."""

    def __init__(self, bootstrap: str | Sequence[Address], transactional_id: str, **options: Any) -> None:
        chosen = ProducerOptions(transactional_id=transactional_id, **options)
        self._transactional = Client(addresses(bootstrap), chosen, os.urandom)
        self._results = Results(self._transactional.take_results)
        super().__init__(bootstrap, client=self._transactional)
        try:
            self.init_transactions()
        except BaseException:
            self.abandon()
            raise

    def init_transactions(self) -> None:
        """Take over the ID again, after `hand_over`."""
        self._wait(self._transactional.init_transactions(now()))

    def hand_over(self) -> None:
        """Leave the open transaction to someone else, who ends it; `init_transactions` must follow."""
        self._transactional.hand_over()

    def begin(self) -> None:
        self._transactional.begin()

    def commit(self) -> None:
        """Deliver all records and commit; ApiError if anything failed, and then the transaction must be aborted."""
        self._wait(self._transactional.commit(now()))

    def abort(self) -> None:
        self._wait(self._transactional.abort(now()))

    @property
    def identity(self) -> tuple[int, int, int]:
        """Producer id, epoch and transaction version of the open transaction, for a caller that ends it itself."""
        return *self._transactional.identity, self._transactional.version

    def send_offsets(
        self, offsets: Mapping[tuple[str, int], int | CommittedOffset], group: str | GroupPlace | Consumer
    ) -> None:
        """Add a group's offsets to the transaction: of a group by name, or as the member that a consumer is."""
        place = group.group_place if isinstance(group, Consumer) else group
        positions = {
            TopicPartition(*where): offset if isinstance(offset, CommittedOffset) else CommittedOffset(offset)
            for where, offset in offsets.items()
        }
        group_place = GroupPlace(place) if isinstance(place, str) else place
        self._wait(self._transactional.send_offsets(positions, group_place, now()))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction that commits at the end; if an exception is raised or a record failed, it aborts and raises
        that error."""
        self.begin()
        try:
            yield
            self.commit()
        except BaseException:
            if not self._transactional.fatal:
                self.abort()
            raise

    def _finish(self) -> None:
        """Abort an open transaction: nobody will commit it."""
        if self._transactional.is_open:
            self.abort()
        super()._finish()

    def _wait(self, call: tuple[int, list[Effect]]) -> None:
        ticket, effects = call
        self._sockets.carry_out(effects)
        self._run_until(lambda: self._results.has(ticket), FOREVER)
        self._results.value(ticket)
