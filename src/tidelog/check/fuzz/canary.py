"""A client that produces a record and fetches it again, over and over, and measures how long that takes."""

import time
from threading import Event, Thread

from tidelog.check.workload.target import WorkloadTarget
from tidelog.errors import ApiError
from tidelog.shell.transport import Consumer, Producer

PAUSE_S = 0.02


class Canary:
    """`failure` says why it has ended, if it was not stopped: an error, or a round of more than `bound_ms`."""

    def __init__(self, target: WorkloadTarget, bound_ms: int) -> None:
        self.failure: str | None = None
        self.latencies_ms: list[float] = []
        self._target = target
        self._bound_ms = bound_ms
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __repr__(self) -> str:
        return f"<Canary {len(self.latencies_ms)} rounds, failure={self.failure}>"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def percentile(self, share: float) -> float:
        """In milliseconds; 0 before the first round."""
        ordered = sorted(self.latencies_ms)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0

    def _run(self) -> None:
        (partition,) = self._target.partitions
        client = {**self._target.client, "default_api_timeout_ms": self._bound_ms}
        try:
            with (
                Producer(self._target.bootstrap, **client, linger_ms=0) as producer,
                Consumer(self._target.bootstrap, **client) as consumer,
            ):
                consumer.assign([partition])
                consumer.seek_to_beginning([partition])
                while self.failure is None and not self._stop.wait(PAUSE_S):
                    self._round(producer, consumer, partition.topic)
        except (ApiError, OSError) as error:
            self.failure = f"the canary failed: {error}"

    def _round(self, producer: Producer, consumer: Consumer, topic: str) -> None:
        value = b"%d" % len(self.latencies_ms)
        started = time.monotonic()
        until = started + self._bound_ms / 1000
        producer.send(topic, value, partition=0)
        delivered = producer.flush(max(0.0, until - time.monotonic()))
        fetched: list[bytes | None] = []
        while not fetched and delivered and time.monotonic() < until:
            fetched = [record.value for record in consumer.poll(max(0.0, until - time.monotonic()))]
        took_ms = (time.monotonic() - started) * 1000
        refused = [delivery.error for delivery in delivered if delivery.error]
        if refused:
            self.failure = f"the canary's record was refused: {refused[0]!r}"
        elif took_ms > self._bound_ms or not fetched:
            self.failure = f"the canary waited for {took_ms:.0f} ms; the bound is {self._bound_ms} ms"
        elif fetched != [value]:
            self.failure = f"the canary wrote {value!r} and read {fetched!r}"
        else:
            self.latencies_ms.append(took_ms)
