"""A C client that writes records with keys drawn at random, the same ones at every run.

Runs in a process of its own: python -m bench.loads.keyed …
"""

import random
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Producer

CALL_RECORDS = 10_000
SEED = 5


@dataclass(frozen=True)
class Keyed:
    """`records` records of `size` bytes under `keys` keys, acks=all, in batches of 16 KB."""

    records: int
    size: int
    keys: int

    def run(self, bootstrap: str, topic: str) -> None:
        numbers = map(str, (self.records, self.size, self.keys))
        command = [sys.executable, "-m", __spec__.name, bootstrap, topic, *numbers]
        subprocess.run(command, check=True, timeout=600)


def send(bootstrap: str, topic: str, records: int, size: int, keys: int) -> None:
    failed: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 16_384,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 256 * 1024,
            "error_cb": failed.append,
        }
    )
    producer.list_topics(topic, timeout=30)
    chance, value = random.Random(SEED), b"x" * size
    for _ in range(records // CALL_RECORDS):
        drawn = [b"key-%012d" % chance.randrange(keys) for _ in range(CALL_RECORDS)]
        _send_all(producer, topic, [{"key": key, "value": value} for key in drawn])
    if (left := producer.flush(300)) or failed:
        raise RuntimeError(f"{left} records are not acknowledged; {failed[:1]}")


def _send_all(producer: Producer, topic: str, messages: list[dict[str, Any]]) -> None:
    rest = messages
    while rest:
        rest = rest[producer.produce_batch(topic, rest) :]
        if rest:
            producer.poll(0.005)


if __name__ == "__main__":
    send(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
