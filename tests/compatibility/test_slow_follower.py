"""A follower that stops and goes on (SIGSTOP, SIGCONT): the ISR follows it, and the high watermark waits as it must.

Two that stop, one after the other, by lag and by session, down to a leader that refuses: in virtual time, in
tests/simulation/test_stopped_followers.py. A process that loses its session: tests/shell/test_supervisor_process.py.
"""

import signal
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Producer

from tests.compatibility.differential.wire import Connection
from tests.compatibility.support import Topic, controller_of
from tests.processes import Processes
from tests.waiting import PATIENCE_S, wait_for
from tidelog.shell.supervisor import Supervisor

OPTIONS = {"replica.lag.time.max.ms": "2000", "broker.session.timeout.ms": "60000"}
REQUEST_MS = 60_000


@pytest.fixture
def started(tmp_path) -> Iterator[Supervisor]:
    with Processes(tmp_path, brokers=3, port=0, overrides=OPTIONS) as running:
        yield running


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


class Writer:
    """Sends one record at a time and reports what became of it."""

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


def test_a_follower_that_lags_leaves_the_isr_and_comes_back(started):
    """One in sync is enough here: another one that a busy machine keeps waiting for two seconds changes nothing."""
    leader = controller_of(started.bootstrap)
    topic = Topic(started.bootstrap, "slow", 1, leader=leader, min_insync_replicas="1")
    stopped = started.children[(leader + 1) % 3]
    at = started.children[leader]
    writer = Writer(f"{at.host}:{at.port}", topic.name)
    with closing(Seen(at.port, topic.name)) as alive:
        assert writer.send(b"three in sync") == ""
        stopped.signal(signal.SIGSTOP)
        assert writer.send(b"waits until the ISR shrinks") == ""
        assert alive.high_watermark() == 2
        wait_for(lambda: stopped.number not in alive.isr(), "the stopped one to leave")
        assert writer.send(b"without it") == ""
        assert alive.high_watermark() == 3
        stopped.signal(signal.SIGCONT)
        wait_for(lambda: alive.isr() == [0, 1, 2], "all in sync again")
        assert writer.send(b"three again") == ""
        assert alive.high_watermark() == 4
