"""A C client: librdkafka sends records of one size as fast as it can, through confluent-kafka's batch call, or reads a
partition from its beginning.

Runs in a process of its own, so that every pass starts with a fresh client: python -m bench.loads.librdkafka …
"""

import subprocess
import sys
import time
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

CALL_RECORDS = 10_000


@dataclass(frozen=True)
class Librdkafka:
    """`records` records of `size` bytes with acks=all, linger 5 ms and batches of 1 MB. `authority` is the file
    with the certificate that a client of a TLS listener trusts."""

    records: int
    size: int
    authority: str = ""

    def run(self, bootstrap: str, topic: str) -> float:
        """Send; the seconds from the first record to the last acknowledgement."""
        return self._run("send", bootstrap, topic)

    def read(self, bootstrap: str, topic: str) -> float:
        """Read partition 0; the seconds from the first record to the last."""
        return self._run("read", bootstrap, topic)

    def _run(self, what: str, bootstrap: str, topic: str) -> float:
        numbers = [str(self.records), str(self.size)]
        command = [sys.executable, "-m", __spec__.name, what, bootstrap, topic, *numbers, self.authority]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
        return float(done.stdout)


def connection(bootstrap: str, authority: str) -> dict[str, str | int]:
    tls: dict[str, str | int] = {"security.protocol": "SSL", "ssl.ca.location": authority}
    return {"bootstrap.servers": bootstrap, **(tls if authority else {})}


def send(bootstrap: str, topic: str, records: int, size: int, authority: str) -> float:
    options: dict[str, str | int] = {
        **connection(bootstrap, authority),
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


def read(bootstrap: str, topic: str, records: int, size: int, authority: str) -> float:
    options: dict[str, str | int] = {
        **connection(bootstrap, authority),
        "group.id": "bench",
        "fetch.message.max.bytes": 4_000_000,
        "fetch.wait.max.ms": 100,
    }
    consumer = Consumer(options)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    got = len(consumer.consume(1, 60))
    begin = time.perf_counter()
    while got < records:
        messages = consumer.consume(min(CALL_RECORDS, records - got), 60)
        if not messages or any(message.error() for message in messages):
            raise RuntimeError(f"{got} of {records} records came")
        got += len(messages)
    seconds = time.perf_counter() - begin
    if len(messages[-1].value()) != size:
        raise RuntimeError("a record of another size came")
    consumer.close()
    return seconds


if __name__ == "__main__":
    does = {"send": send, "read": read}[sys.argv[1]]
    print(does(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6]))
