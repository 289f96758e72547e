"""A C client: librdkafka sends records of one size as fast as it can, through confluent-kafka's batch call.

Runs in a process of its own, so that every pass starts with a fresh client: python -m bench.loads.librdkafka …
"""

import subprocess
import sys
import time
from dataclasses import dataclass

from confluent_kafka import Producer

CALL_RECORDS = 10_000


@dataclass(frozen=True)
class Librdkafka:
    """`records` records of `size` bytes with acks=all, linger 5 ms and batches of 1 MB."""

    records: int
    size: int

    def run(self, bootstrap: str, topic: str) -> float:
        """Send; the seconds from the first record to the last acknowledgement."""
        command = [sys.executable, "-m", __spec__.name, bootstrap, topic, str(self.records), str(self.size)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
        return float(done.stdout)


def send(bootstrap: str, topic: str, records: int, size: int) -> float:
    options: dict[str, str | int] = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "linger.ms": 5,
        "batch.size": 1_000_000,
        "batch.num.messages": 1_000_000,
        "queue.buffering.max.messages": 2_000_000,
        "queue.buffering.max.kbytes": 512 * 1024,
    }
    failed: list[object] = []
    producer = Producer({**options, "error_cb": failed.append})
    producer.list_topics(topic, timeout=30)
    messages = [{"value": b"x" * size}] * CALL_RECORDS
    begin = time.perf_counter()
    for _ in range(records // CALL_RECORDS):
        _send_all(producer, topic, messages)
    left = producer.flush(300)
    seconds = time.perf_counter() - begin
    if left or failed:
        raise RuntimeError(f"{left} records are not acknowledged; {failed[:1]}")
    return seconds


def _send_all(producer: Producer, topic: str, messages: list[dict[str, bytes]]) -> None:
    rest = messages
    while rest:
        rest = rest[producer.produce_batch(topic, rest) :]
        if rest:
            producer.poll(0.005)


if __name__ == "__main__":
    print(send(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
