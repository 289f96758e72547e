"""Consumers that are kept from range to range: a new connection for each range costs more than reading many ranges."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from tidelog.client.options import ConsumerOptions
from tidelog.shell.transport import Consumer

MAX_IDLE_CONSUMERS = 4
"""A worker also serves queries with other options; beyond this number the oldest consumer is closed."""


class ConsumerPool:
    """Consumers of one thread, by what they are connected to."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, ConsumerOptions], Consumer] = {}

    @contextmanager
    def borrowed(self, bootstrap: str, options: ConsumerOptions) -> Iterator[Consumer]:
        """A consumer without a group. After an error, or if it is returned early, it is closed."""
        key = bootstrap, options
        consumer = self._idle.pop(key, None)
        if consumer is None:
            given = {**asdict(options), "auto_offset_reset": "none"}
            del given["group_id"]
            consumer = Consumer(bootstrap, **given)
        try:
            yield consumer
            consumer.assign([])
        except BaseException:
            consumer.abandon()
            raise
        if key in self._idle:
            consumer.close()
            return
        self._idle[key] = consumer
        while len(self._idle) > MAX_IDLE_CONSUMERS:
            self._idle.pop(next(iter(self._idle))).close()

    def close(self) -> None:
        """Close the idle ones."""
        while self._idle:
            self._idle.popitem()[1].close()
