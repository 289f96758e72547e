"""Producers that are kept from task to task: in a small batch, connections, metadata and a producer ID cost more than
the rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from tidelog.client.options import ProducerOptions
from tidelog.errors import ApiError
from tidelog.shell.client_sockets import now
from tidelog.shell.transactions import TransactionalProducer
from tidelog.shell.transport import Producer

MAX_IDLE_PRODUCERS = 8
"""A worker also serves queries with other options, and needs an ID for each task that it does in a batch; beyond this
number the one that was idle for longest is dropped."""
MAX_IDLE_MS = 300_000
FRESH_MS = 1_000
"""Metadata that is older is fetched again before rows are sent, so that they go to the topics of now."""


class ProducerPool:
    """Idle producers of one process, by what they are connected to, the oldest first. A kept producer is dropped if its
    metadata cannot be fetched, or shows another cluster or another topic of the same name."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, ProducerOptions, str], tuple[Producer, int]] = {}

    @contextmanager
    def borrowed(self, bootstrap: str, options: ProducerOptions) -> Iterator[Producer]:
        """A producer without transactions. After an error, or if rows are pending, it is not kept."""
        producer = self._kept(bootstrap, options, "") or Producer(bootstrap, **_keywords(options))
        try:
            yield producer
        except BaseException:
            producer.abandon()
            raise
        self._keep((bootstrap, options, ""), producer)

    @contextmanager
    def transaction(
        self, bootstrap: str, options: ProducerOptions, transactional_id: str
    ) -> Iterator[TransactionalProducer]:
        """A producer in a new transaction, which stays open at the end; it is aborted after an error. Whoever calls
        this must know that no transaction of this ID is prepared, since it would be aborted."""
        producer = self._kept(bootstrap, options, transactional_id)
        if isinstance(producer, TransactionalProducer):
            try:
                producer.init_transactions()
            except BaseException:
                producer.abandon()
                raise
        else:
            producer = TransactionalProducer(bootstrap, transactional_id, **_keywords(options))
        is_prepared = False
        try:
            producer.begin()
            yield producer
            producer.hand_over()
            is_prepared = True
        except Exception:
            producer.close()  # aborts
            raise
        finally:
            if not is_prepared:
                producer.abandon()
        self._keep((bootstrap, options, transactional_id), producer)

    def close(self) -> None:
        """Drop the idle ones."""
        while self._idle:
            self._idle.popitem()[1][0].abandon()

    def _kept(self, bootstrap: str, options: ProducerOptions, transactional_id: str) -> Producer | None:
        self._drop_idle()
        producer, _since = self._idle.pop((bootstrap, options, transactional_id), (None, 0))
        if producer is None:
            return None
        try:
            if producer.is_current(FRESH_MS):
                return producer
        except ApiError:
            pass  # a new producer finds out what is wrong
        except BaseException:
            producer.abandon()
            raise
        producer.abandon()
        return None

    def _keep(self, key: tuple[str, ProducerOptions, str], producer: Producer) -> None:
        other, _since = self._idle.pop(key, (None, 0))
        if other is not None:
            other.abandon()
        self._idle[key] = producer, now().mono
        while len(self._idle) > MAX_IDLE_PRODUCERS:
            self._idle.pop(next(iter(self._idle)))[0].abandon()

    def _drop_idle(self) -> None:
        limit = now().mono - MAX_IDLE_MS
        for key in [key for key, (_, since) in self._idle.items() if since < limit]:
            self._idle.pop(key)[0].abandon()


def _keywords(options: ProducerOptions) -> dict[str, Any]:
    """The options as keywords; the transactional ID is passed separately."""
    return {field.name: getattr(options, field.name) for field in fields(options) if field.name != "transactional_id"}
