"""A Kafka Streams 4.3.1 application with exactly_once_v2 (java/Flights.java) adds flights up by carrier and hour while
brokers and the application itself are killed: no flight is left out or counted twice, at no moment.

`TIDELOG_STREAMS_FLIGHTS` is how many of the 336,776 flights of 2013 it adds up.
"""

import os
import signal
import subprocess
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests import jvm
from tests.compatibility.support import Topic
from tests.waiting import PATIENCE_S, wait_for
from tidelog.shell.supervisor import Supervisor
from tidelog.spark.pipelines.flights import packaged

COUNT = int(os.environ.get("TIDELOG_STREAMS_FLIGHTS", "40000"))
SOURCE = Path(__file__).parent / "java" / "Flights.java"
VICTIMS = (0, "application", 1, 2)
"""Who is killed after each part of the input but the last."""

Sums = tuple[int, ...]


class Application:
    """The JVM, and what it says in the end where it does not run any more."""

    def __init__(self, libs: str, bootstrap: str, folder: Path) -> None:
        self._command = [
            "java",
            "-Xmx512m",
            *jvm.KAFKA,
            "-cp",
            libs,
            str(SOURCE),
            bootstrap,
            "adding-up",
        ]
        self._command.append(str(folder / "state"))
        self._log = folder / "application.log"
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def check(self) -> None:
        assert self._process.poll() is None, self._log.read_text(encoding="utf-8")


class Totals:
    """What a reader of committed records has seen: the last sums of each key, each above those before."""

    def __init__(self, bootstrap: str, topic: Topic) -> None:
        self.sums: dict[str, Sums] = {}
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
        )
        self._consumer.assign([TopicPartition(topic.name, index, 0) for index in range(topic.count)])

    def flights(self) -> int:
        for message in self._consumer.consume(1000, 0.1):
            assert message.error() is None, message.error()
            key, sums = message.key().decode(), tuple(map(int, message.value().split(b",")))
            assert sums[0] > self.sums.get(key, (0,))[0], (key, self.sums[key], sums)
            self.sums[key] = sums
        return sum(flights for flights, _, _ in self.sums.values())

    def close(self) -> None:
        self._consumer.close()


def rows() -> list[tuple[str, str, Sums]]:
    """(tail number, carrier and hour, what it adds)."""
    chosen = pd.read_csv(packaged("flights.csv.zip")).head(COUNT)
    delays = chosen["arr_delay"].fillna(0).astype(int)
    keys = chosen["carrier"] + "," + chosen["hour"].astype(str)
    added = [(1, miles, minutes) for miles, minutes in zip(chosen["distance"].astype(int), delays, strict=True)]
    return list(zip(chosen["tailnum"].fillna("unknown"), keys, added, strict=True))


def added_up(flights: list[tuple[str, str, Sums]]) -> dict[str, Sums]:
    sums: dict[str, Sums] = {}
    for _, key, added in flights:
        sums[key] = tuple(map(sum, zip(sums.get(key, (0, 0, 0)), added, strict=True)))
    return sums


def send(cluster: Supervisor, topic: Topic, flights: list[tuple[str, str, Sums]]) -> None:
    sender = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for tail, key, (_, miles, minutes) in flights:
        sender.produce(topic.name, f"{key},{miles},{minutes}".encode(), tail.encode())
        sender.poll(0)
    assert sender.flush(PATIENCE_S) == 0


@pytest.mark.timeout(900)
def test_totals_are_exact_although_brokers_and_the_application_die(cluster, kafka_libs, tmp_path):
    source = Topic(cluster.bootstrap, "flights", 4, min_insync_replicas="2")
    target = Topic(cluster.bootstrap, "totals", 2, min_insync_replicas="2")
    flights = rows()
    application = Application(kafka_libs, cluster.bootstrap, tmp_path)
    totals = Totals(cluster.bootstrap, target)

    def counted(count: int) -> bool:
        application.check()
        return totals.flights() >= count

    try:
        parts = [len(flights) * number // (len(VICTIMS) + 1) for number in range(len(VICTIMS) + 2)]
        for (begin, end), victim in zip(pairwise(parts), (*VICTIMS, None), strict=True):
            send(cluster, source, flights[begin:end])
            if victim is None:
                continue
            wait_for(lambda: counted((begin + end) // 2), "half of this part", within_s=PATIENCE_S * 3)  # noqa: B023
            strike(cluster, source, application, victim)
        wait_for(lambda: counted(len(flights)), "every flight", within_s=PATIENCE_S * 3)
    finally:
        application.kill()
        totals.close()
    assert totals.sums == added_up(flights)


def strike(cluster: Supervisor, topic: Topic, application: Application, victim: int | str) -> None:
    if isinstance(victim, str):
        application.kill()
        application.start()
        return
    wait_for(lambda: all(len(isr) == 3 for isr in topic.isrs().values()), "all replicas")
    cluster.kill(victim)
    wait_for(lambda: all(topic.leader(index) not in (-1, victim) for index in range(topic.count)), "leaders")
    cluster.start_broker(victim)
