"""A history that a test fills with the answers that its clients received, for the history checker."""

import time
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from tidelog.check.history.anomalies.lost_records import LOST, MISMATCH, UNSEEN, VANISHED
from tidelog.check.history.operation import (
    DEBUG,
    FAIL,
    INVOKE,
    OK,
    POLL,
    SCAN_BEGINS,
    SCAN_ENDS,
    SEND,
    Header,
    Operation,
    Poll,
    Send,
)
from tidelog.check.history.operation import History as CheckedHistory
from tidelog.client.results import ConsumerRecord

LOSSES = frozenset({LOST, MISMATCH, UNSEEN, VANISHED})
"""The anomalies that mean that a record is gone."""


class History:
    """The answers that clients received about records. Values must differ within a partition. Any thread may call it.

    >>> history = History()
    >>> producer.produce("orders", b"order 1", on_delivery=history.delivered)
    >>> producer.flush()
    >>> cluster.assert_no_loss(history)
    """

    def __init__(self) -> None:
        self._partitions: list[tuple[str, int]] = []
        self._calls: list[tuple[str, str, Any]] = []
        """(function, outcome, micro-operation)"""
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"History({len(self._calls)} calls)"

    @property
    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self._partitions})

    def acknowledged(self, topic: str, partition: int, offset: int, value: "bytes | str | None") -> None:
        """A producer received the answer that this record is stored at this offset."""
        self._add(SEND, OK, topic, partition, offset, value)

    def failed(self, topic: str, partition: int, value: "bytes | str | None") -> None:
        """A broker has answered that this record is not stored. Do not call it for
        timeouts, after which a record may be stored."""
        self._add(SEND, FAIL, topic, partition, None, value)

    def read(self, topic: str, partition: int, offset: int, value: "bytes | str | None") -> None:
        """A consumer returned this record."""
        self._add(POLL, OK, topic, partition, offset, value)

    def delivered(self, error: object, message: Any) -> None:
        """The `on_delivery` of confluent-kafka's producer; a failed delivery counts as unknown."""
        if error is None:
            self.acknowledged(message.topic(), message.partition(), message.offset(), message.value())

    def _add(self, f: str, outcome: str, topic: str, partition: int, offset: int | None, value: Any) -> None:
        with self._lock:
            if (topic, partition) not in self._partitions:
                self._partitions.append((topic, partition))
            key = self._partitions.index((topic, partition))
            found = _text(value)
            move = Send(key, offset, found) if f == SEND else Poll({key: [(offset or 0, found)]})
            self._calls.append((f, outcome, move))

    def scanned(self, records: Mapping[str, Sequence[ConsumerRecord]]) -> CheckedHistory:
        """The history with a final scan that found these records, by topic."""
        with self._lock:
            calls, partitions = list(self._calls), list(self._partitions)
        found: dict[int, list[tuple[int, str]]] = {key: [] for key in range(len(partitions))}
        for topic, of_topic in records.items():
            for record in of_topic:
                if (topic, record.partition) in partitions:
                    key = partitions.index((topic, record.partition))
                    found[key].append((record.offset, _text(record.value)))
        operations: list[Operation] = []

        def call(process: int, f: str, outcome: str, asked: Any, told: Any) -> None:
            for kind, value in ((INVOKE, asked), (outcome, told)):
                number = len(operations)
                operations.append(Operation(number + 2, number, number, process, kind, f, value))

        for process, (f, outcome, move) in enumerate(calls):  # a process each: nothing is known of their order
            asked = [Send(move.key, None, move.value)] if isinstance(move, Send) else [Poll({})]
            call(process, f, outcome, asked, [move])
        scan = len(calls)
        call(scan, DEBUG, OK, SCAN_BEGINS, SCAN_BEGINS)
        call(scan, POLL, OK, [Poll({})], [Poll(found)])
        call(scan, DEBUG, OK, SCAN_ENDS, SCAN_ENDS)
        return CheckedHistory(Header(partitions, {"at": time.time()}), operations)


def _text(value: "bytes | str | None") -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
