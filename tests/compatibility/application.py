"""An application that copies numbers from one topic to another, ten at a time, under one of three settings:

    at_most_once   commits its position, then writes, and asks for no answer
    at_least_once  writes, waits until all in-sync replicas have it, then commits its position
    exactly_once   does both in one transaction

    python application.py BOOTSTRAP SOURCE TARGET SETTING COUNT DIES_AT

It ends when it has read COUNT records of partition 0. At the ten that begin with number DIES_AT it prints "between" after
the first of its two steps, and is not heard of again: whoever started it kills it there.
"""

import signal
import sys
from collections.abc import Sequence
from typing import Any

from confluent_kafka import OFFSET_STORED, Consumer, Message, Producer, TopicPartition

TOGETHER = 10
WITHIN_S = 60
PRODUCERS: dict[str, dict[str, Any]] = {
    "at_most_once": {"acks": 0},
    "at_least_once": {"acks": "all"},
    "exactly_once": {"transactional.id": "application", "transaction.timeout.ms": 60_000},
}


class Application:
    def __init__(self, bootstrap: str, source: str, target: str, setting: str) -> None:
        self._target = target
        self._setting = setting
        usual = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._producer = Producer({**usual, "linger.ms": 0, **PRODUCERS[setting]})
        if setting == "exactly_once":
            self._producer.init_transactions(WITHIN_S)
        self._consumer = Consumer(
            {**usual, "group.id": setting, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        )
        self._consumer.assign([TopicPartition(source, 0, OFFSET_STORED)])

    def run(self, count: int, dies_at: int) -> None:
        end = -1
        while end < count - 1:
            found: list[Message] = []
            while len(found) < TOGETHER:
                found += self._consumer.consume(TOGETHER - len(found), 0.1)
            end = found[-1].offset() or 0
            self._carry_out(found, dies=found[0].offset() == dies_at)

    def _carry_out(self, found: Sequence[Message], *, dies: bool) -> None:
        if self._setting == "exactly_once":
            self._producer.begin_transaction()
        steps = [self._write, self._commit]
        if self._setting == "at_most_once":
            steps.reverse()
        steps[0](found)
        if dies:
            print("between", flush=True)  # noqa: T201
            signal.pause()
        steps[1](found)
        if self._setting == "exactly_once":
            self._producer.commit_transaction(WITHIN_S)

    def _write(self, found: Sequence[Message]) -> None:
        for message in found:
            self._producer.produce(self._target, message.value(), partition=0)
        assert self._producer.flush(WITHIN_S) == 0

    def _commit(self, found: Sequence[Message]) -> None:
        place = TopicPartition(found[-1].topic() or "", 0, (found[-1].offset() or 0) + 1)
        if self._setting == "exactly_once":
            self._producer.send_offsets_to_transaction([place], self._consumer.consumer_group_metadata(), WITHIN_S)
        else:
            self._consumer.commit(offsets=[place], asynchronous=False)


if __name__ == "__main__":
    Application(*sys.argv[1:5]).run(int(sys.argv[5]), int(sys.argv[6]))
