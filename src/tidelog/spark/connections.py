"""Consumers that a Python worker of Spark keeps between its tasks: to connect anew for each range costs more than many
ranges take to read. A worker runs one task at a time."""

from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.shell.transport import Consumer

FETCH_BYTES = 8 * 1024 * 1024
"""Of one partition in one answer: columns are the quicker the more records are decoded together."""

_kept: dict[str, Consumer] = {}


@contextmanager
def borrowed(bootstrap: str) -> Iterator[Consumer]:
    """A consumer without a group. One that met an error, or is given back early, is not kept."""
    consumer = _kept.pop(bootstrap, None)
    if consumer is None:
        consumer = Consumer(
            bootstrap,
            auto_offset_reset="none",
            allow_auto_create_topics=False,
            max_partition_fetch_bytes=FETCH_BYTES,
        )
    try:
        yield consumer
        consumer.assign([])
    except BaseException:
        consumer.abandon()
        raise
    if bootstrap in _kept:
        consumer.close()
    else:
        _kept[bootstrap] = consumer
