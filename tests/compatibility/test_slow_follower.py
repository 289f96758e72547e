"""Followers that stop and go on (SIGSTOP, SIGCONT): the ISR follows them, and the high watermark waits as it must.

A stopped process loses its session after broker.session.timeout.ms as well. Once the lag is the first to be noticed,
by the leader; once the session, by the store, and then the controller is among the stopped.
"""

import signal
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Producer

from tests.compatibility.differential.batches import batch
from tests.compatibility.differential.wire import Connection
from tests.compatibility.support import Topic, controller_of
from tests.waiting import PATIENCE_S, wait_for
from tidelog.errors import ErrorCode
from tidelog.shell.child import Child
from tidelog.shell.supervisor import Supervisor

LAG_FIRST = {"replica.lag.time.max.ms": "9000", "broker.session.timeout.ms": "60000"}
SESSION_FIRST = {"replica.lag.time.max.ms": "60000", "broker.session.timeout.ms": "9000"}
"""Long enough that no broker is given up which only has to wait for its turn on a busy machine."""
REQUEST_MS = 60_000
IMPATIENT_MS = 1_000
REFUSALS = {"REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"}


@pytest.fixture
def started(request, tmp_path) -> Iterator[Supervisor]:
    with Supervisor(tmp_path, brokers=3, port=0, overrides=request.param) as running:
        yield running
        for child in running.children:
            child.signal(signal.SIGCONT)


class Seen:
    """The topic as one broker sees it. A client library would also ask those that are stopped."""

    def __init__(self, port: int, topic: str) -> None:
        self._connection = Connection(port)
        self._topic = topic

    def close(self) -> None:
        self._connection.close()

    def isr(self) -> list[int]:
        asked = self._connection.ask("Metadata", 12, topics=[{"name": self._topic}])
        return sorted(asked.topics[0].partitions[0].isr_nodes)

    def high_watermark(self) -> int:
        wanted = [{"name": self._topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        found = self._connection.ask("ListOffsets", 7, replica_id=-1, topics=wanted)
        return int(found.topics[0].partitions[0].offset)

    def append(self, value: bytes) -> str:
        """What the leader says of a record whose sender will not wait long for the others; it has it by then."""
        data = [{"name": self._topic, "partition_data": [{"index": 0, "records": batch(value)}]}]
        told = self._connection.ask("Produce", 12, acks=-1, timeout_ms=IMPATIENT_MS, topic_data=data)
        return ErrorCode(told.responses[0].partition_responses[0].error_code).name


class Writer:
    """Sends one record at a time and tells what became of it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        usual = {"acks": "all", "log_level": 0, "retries": 0, "enable.idempotence": False, "linger.ms": 0}
        self._producer = Producer({"bootstrap.servers": bootstrap, "request.timeout.ms": REQUEST_MS, **usual})
        self._topic = topic

    def send(self, value: bytes) -> str:
        """'' where it is acknowledged, else the name of the error."""
        outcome: list[str] = []
        told = lambda error, _: outcome.append(error.name() if error else "")  # noqa: E731
        self._producer.produce(self._topic, value, partition=0, on_delivery=told)
        self._producer.flush(PATIENCE_S)
        return outcome[0]


@pytest.mark.parametrize("started", [LAG_FIRST], indirect=True)
def test_followers_that_lag_leave_the_isr_and_come_back(started):
    _tell(started, leader=controller_of(started.bootstrap))


@pytest.mark.parametrize("started", [SESSION_FIRST], indirect=True)
def test_followers_that_lose_their_session_leave_the_isr_and_come_back(started):
    _tell(started, leader=(controller_of(started.bootstrap) + 1) % 3)


def _tell(cluster: Supervisor, leader: int) -> None:
    topic = Topic(cluster.bootstrap, "slow", 1, leader=leader, min_insync_replicas="2")
    controller = controller_of(cluster.bootstrap)
    followers = [child for child in cluster.children if child.number != leader]
    first, second = sorted(followers, key=lambda child: child.number != controller)
    address = f"{cluster.children[leader].host}:{cluster.children[leader].port}"
    writer = Writer(address, topic.name)
    with closing(Seen(cluster.children[leader].port, topic.name)) as alive:
        _stop_and_go_on(writer, alive, leader, first, second)


def _stop_and_go_on(writer: Writer, alive: Seen, leader: int, first: Child, second: Child) -> None:
    assert writer.send(b"three in sync") == ""

    first.signal(signal.SIGSTOP)
    assert writer.send(b"waits until the ISR shrinks") == ""
    wait_for(lambda: alive.isr() == sorted({leader, second.number}), "an ISR of two")
    assert writer.send(b"two in sync") == ""
    assert alive.high_watermark() == 3

    second.signal(signal.SIGSTOP)
    assert alive.append(b"appended, but not enough in sync") in REFUSALS
    wait_for(lambda: alive.isr() == [leader], "an ISR of one")
    assert writer.send(b"refused") == "NOT_ENOUGH_REPLICAS"
    assert alive.high_watermark() == 3

    for child in (first, second):
        child.signal(signal.SIGCONT)
    wait_for(lambda: alive.isr() == [0, 1, 2], "all in sync again")
    assert writer.send(b"three again") == ""
    assert alive.high_watermark() == 5  # what was appended is committed now; what was refused was never there
