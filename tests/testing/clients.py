"""The three clients that Python has for Kafka, behind one interface: what each of them sees of a fault.

Request timeouts of producers are short, so that a lost request costs a second; what they do after it is their default.
A consumer that joins a group with a short one may never get in on a busy machine.
"""

import asyncio
import time
import warnings
from typing import NamedTuple

import confluent_kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError

from tests.waiting import PATIENCE_S

with warnings.catch_warnings(action="ignore"):  # its import uses a function that Python deprecates
    import kafka

REQUEST_MS = 1000
BACKOFF_MS = 20


class Sent(NamedTuple):
    """`error` is the client's name of the error, or "" with the offset of the record."""

    offset: int
    error: str = ""


class Confluent:
    name = "confluent-kafka"

    class Writer:
        def __init__(self, bootstrap, topic, *, idempotent=False, request_ms=REQUEST_MS, delivery_ms=60_000):
            self._topic = topic
            self._producer = confluent_kafka.Producer(
                {
                    "bootstrap.servers": bootstrap,
                    "linger.ms": 0,
                    "enable.idempotence": idempotent,
                    "socket.timeout.ms": request_ms,
                    "request.timeout.ms": request_ms,
                    "message.timeout.ms": delivery_ms,
                    "retry.backoff.ms": BACKOFF_MS,
                    "retry.backoff.max.ms": 5 * BACKOFF_MS,
                    "reconnect.backoff.ms": BACKOFF_MS,
                    "reconnect.backoff.max.ms": 5 * BACKOFF_MS,
                    "log_level": 0,
                }
            )

        def send(self, value, partition=0):
            found = []
            self._producer.produce(
                self._topic, value, partition=partition, on_delivery=lambda *given: found.append(given)
            )
            assert self._producer.flush(PATIENCE_S) == 0
            ((error, message),) = found
            return Sent(-1, error.name()) if error else Sent(message.offset())

        def close(self):
            self._producer.flush(0)

    class Reader:
        def __init__(self, bootstrap, topic, *, group="readers", session_ms=45_000, request_ms=30_000, partitions=1):
            self._consumer = confluent_kafka.Consumer(
                {
                    "bootstrap.servers": bootstrap,
                    "group.id": group,
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                    "session.timeout.ms": session_ms,
                    "heartbeat.interval.ms": 200,
                    "socket.timeout.ms": request_ms,
                    "fetch.wait.max.ms": 200,
                    "retry.backoff.ms": BACKOFF_MS,
                    "reconnect.backoff.ms": BACKOFF_MS,
                    "reconnect.backoff.max.ms": 5 * BACKOFF_MS,
                    "log_level": 0,
                }
            )
            self._consumer.subscribe([topic])

        def take(self, count):
            found, deadline = [], time.monotonic() + PATIENCE_S
            while len(found) < count:
                assert time.monotonic() < deadline, found
                found += [each.value() for each in self._consumer.consume(count - len(found), 0.1) if not each.error()]
            return found

        def commit(self):
            self._consumer.commit(asynchronous=False)

        def close(self):
            self._consumer.close()


class AioKafka:
    name = "aiokafka"

    class Writer:
        def __init__(self, bootstrap, topic, *, idempotent=False, request_ms=REQUEST_MS, delivery_ms=None):
            """It has no delivery timeout: a batch is given up after its request timeout."""
            self._topic = topic
            self._loop = asyncio.new_event_loop()

            async def start():
                self._producer = AIOKafkaProducer(
                    bootstrap_servers=bootstrap,
                    enable_idempotence=idempotent,
                    acks="all",
                    request_timeout_ms=request_ms,
                    retry_backoff_ms=BACKOFF_MS,
                )
                await self._producer.start()

            self._loop.run_until_complete(start())

        def send(self, value, partition=0):
            try:
                sent = self._loop.run_until_complete(
                    self._producer.send_and_wait(self._topic, value, partition=partition)
                )
            except AioKafkaError as error:
                return Sent(-1, type(error).__name__)
            return Sent(sent.offset)

        def close(self):
            self._loop.run_until_complete(self._producer.stop())
            self._loop.close()

    class Reader:
        def __init__(self, bootstrap, topic, *, group="readers", session_ms=45_000, request_ms=30_000, partitions=1):
            self._loop = asyncio.new_event_loop()

            async def start():
                self._consumer = AIOKafkaConsumer(
                    topic,
                    bootstrap_servers=bootstrap,
                    group_id=group,
                    auto_offset_reset="earliest",
                    enable_auto_commit=False,
                    session_timeout_ms=session_ms,
                    heartbeat_interval_ms=200,
                    request_timeout_ms=request_ms,
                    fetch_max_wait_ms=200,
                    retry_backoff_ms=BACKOFF_MS,
                )
                await self._consumer.start()

            self._loop.run_until_complete(start())

        def take(self, count):
            async def take():
                return [(await self._consumer.getone()).value for _ in range(count)]

            return self._loop.run_until_complete(asyncio.wait_for(take(), PATIENCE_S))

        def commit(self):
            self._loop.run_until_complete(self._consumer.commit())

        def close(self):
            self._loop.run_until_complete(self._consumer.stop())
            self._loop.close()


class KafkaPython:
    name = "kafka-python"

    class Writer:
        def __init__(self, bootstrap, topic, *, idempotent=False, request_ms=REQUEST_MS, delivery_ms=60_000):
            self._topic = topic
            self._producer = kafka.KafkaProducer(
                bootstrap_servers=bootstrap,
                enable_idempotence=idempotent,
                acks="all",
                request_timeout_ms=request_ms,
                delivery_timeout_ms=delivery_ms,
                retry_backoff_ms=BACKOFF_MS,
                reconnect_backoff_ms=BACKOFF_MS,
                reconnect_backoff_max_ms=5 * BACKOFF_MS,
            )

        def send(self, value, partition=0):
            try:
                sent = self._producer.send(self._topic, value, partition=partition).get(PATIENCE_S)
            except kafka.errors.KafkaError as error:
                return Sent(-1, type(error).__name__)
            return Sent(sent.offset)

        def close(self):
            self._producer.close(0)

    class Reader:
        def __init__(self, bootstrap, topic, *, group="readers", session_ms=45_000, request_ms=30_000, partitions=1):
            """Without a group: version 3.0.12 sometimes stops for good while it joins one on a busy machine."""
            self._consumer = kafka.KafkaConsumer(
                bootstrap_servers=bootstrap,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                request_timeout_ms=request_ms,
                fetch_max_wait_ms=200,
                retry_backoff_ms=BACKOFF_MS,
                reconnect_backoff_ms=BACKOFF_MS,
                reconnect_backoff_max_ms=5 * BACKOFF_MS,
            )
            self._consumer.assign([kafka.TopicPartition(topic, each) for each in range(partitions)])

        def take(self, count):
            found, deadline = [], time.monotonic() + PATIENCE_S
            while len(found) < count:
                assert time.monotonic() < deadline, found
                polled = self._consumer.poll(100, max_records=count - len(found))
                found += [record.value for records in polled.values() for record in records]
            return found

        def close(self):
            self._consumer.close(autocommit=False)


CLIENTS = (Confluent, AioKafka, KafkaPython)
GROUP_CLIENTS = (Confluent, AioKafka)
