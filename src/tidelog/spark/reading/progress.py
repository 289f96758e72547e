"""A query's place as a group's: offsets of finished batches are committed for lag tools to see. Nothing is ever read
from there; the checkpoint alone says where a query goes on."""

import logging
from dataclasses import asdict

from tidelog.errors import RETRIABLE, ApiError
from tidelog.shell.transport import Consumer
from tidelog.spark.offsets import Offsets
from tidelog.spark.options import BadOption
from tidelog.spark.reading.options import ReadOptions

_log = logging.getLogger(__name__)

PATIENCE_MS = 10_000
"""How long a batch waits for a coordinator; the next one commits what this one could not."""


class Progress:
    """Commits for a group without members."""

    def __init__(self, options: ReadOptions) -> None:
        self._group = options.commit_group
        patience = min(options.client.default_api_timeout_ms, PATIENCE_MS)
        given = {**asdict(options.client), "enable_auto_commit": False, "default_api_timeout_ms": patience}
        del given["group_id"]
        self._consumer = Consumer(options.bootstrap, self._group, **given)
        self._shown: Offsets = {}

    def show(self, offsets: Offsets) -> None:
        """Commit what is news. What passes by itself is only logged: the query's own progress does not depend on it."""
        if offsets == self._shown:
            return
        try:
            self._consumer.commit({(name.topic, name.partition): offset for name, offset in offsets.items()})
        except ApiError as error:
            if error.code not in RETRIABLE:
                raise BadOption(
                    f"option 'commitGroup': offsets cannot be committed for group {self._group!r}: {error} "
                    f"({error.code.name}); name a group that no consumer is a member of"
                ) from None
            _log.warning("group %s was not told of the batch: %s", self._group, error)
        else:
            self._shown = offsets

    def close(self) -> None:
        self._consumer.close()
