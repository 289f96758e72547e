"""Consumers that a Python worker of Spark keeps between its tasks: to connect anew for each range costs more than many
ranges take to read. A worker runs one task at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from tidelog.client.options import ConsumerOptions
from tidelog.shell.transport import Consumer

MOST = 4
"""A worker serves queries with other options too; beyond so many the one kept longest is closed."""

_kept: dict[tuple[str, ConsumerOptions], Consumer] = {}


@contextmanager
def borrowed(bootstrap: str, options: ConsumerOptions) -> Iterator[Consumer]:
    """A consumer without a group. One that met an error, or is given back early, is not kept."""
    key = bootstrap, options
    consumer = _kept.pop(key, None)
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
    if key in _kept:
        consumer.close()
        return
    _kept[key] = consumer
    while len(_kept) > MOST:
        _kept.pop(next(iter(_kept))).close()
