"""Kafka 4.3.1's TransactionalMessageCopier between two topics of three broker processes, while brokers and the copier
itself are killed: what readers of committed records find is the input, once and in its order.

How many records it moves is `TIDELOG_COPIER_RECORDS`; each part of `RECORDS_PER_KILL` has its own copier and one kill
in its midst. So that a fast copier is not at its end before the kill comes, it is stopped as soon as it tells of its
first committed transaction, and goes on when the kill is done.

The copier counts what it has committed only when it tells of it, so a killed one has often copied more than it told:
`remaining`, which the next one works out from the positions in the group, is the only true measure of progress. A
copier with assigned partitions asks for its position before it has its transactional id, so nobody ends the killed
one's transaction but its time-out: with the default of a minute it gives up asking, on a real Kafka as well as here.
"""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from tests import jvm
from tests.compatibility.support import Topic, read
from tests.output import lines_of
from tests.waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.timeout(900)

RECORDS_PER_KILL = 4_500
PARTS = int(os.environ.get("TIDELOG_COPIER_RECORDS", "13500")) // RECORDS_PER_KILL
"""Every other kill hits the copier; in group mode each of those costs its session of ten seconds."""
SIZE = 150


class Copier:
    """One after the other under the same transactional id."""

    def __init__(self, libs: str, bootstrap: str, source: Topic, target: Topic, *mode: str) -> None:
        name = target.name
        self._command = [
            "java", "-Xmx256m", *jvm.KAFKA, "-cp", libs,
            "org.apache.kafka.tools.TransactionalMessageCopier", "--broker-list", bootstrap,
            "--transactional-id", name, "--consumer-group", name, "--enable-random-aborts",
            "--input-topic", source.name, "--input-partition", "0", "--output-topic", name,
            "--transaction-size", str(SIZE), "--transaction-timeout", "12000", *mode,
        ]  # fmt: skip

    @contextmanager
    def running(self) -> Iterator[None]:
        """One that stops in its midst; whoever is there at the end is killed."""
        self.start(stopping=True)
        try:
            yield
        finally:
            self.kill()

    def start(self, *, stopping: bool = False) -> None:
        """`stopping`: as soon as it has reported a first transaction, until `go_on`."""
        self._stopping = stopping
        self.stopped = False
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._follow, args=(self.process,))
        self._reader.start()

    def _follow(self, process: "subprocess.Popen[str]") -> None:
        for line in lines_of(process.stdout):
            if self._stopping and line.startswith("{") and json.loads(line)["totalProcessed"]:
                process.send_signal(signal.SIGSTOP)
                self._stopping, self.stopped = False, True

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self._reader.join()
        self.process.communicate()

    def finish(self) -> None:
        assert self.process.wait(PATIENCE_S * 3) == 0, self.process.communicate()[1]
        self._reader.join()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mode", [["--group-mode", "--use-group-metadata"], []], ids=["group", "assigned"])
def test_what_is_copied_is_the_input_although_brokers_and_the_copier_die(cluster, kafka_libs, mode):
    kind = "group" if mode else "assigned"
    source = Topic(cluster.bootstrap, f"{kind}-in", 1)
    target = Topic(cluster.bootstrap, f"{kind}-out", 1, min_insync_replicas="2")
    sender = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    copier = Copier(kafka_libs, cluster.bootstrap, source, target, *mode)
    for part in range(PARTS):
        for number in range(part * RECORDS_PER_KILL, (part + 1) * RECORDS_PER_KILL):
            sender.produce(source.name, b"%d" % number)
            sender.poll(0)
        assert sender.flush(PATIENCE_S) == 0
        wait_for(lambda: len(target.isrs()[0]) == 3, "all replicas")  # the broker killed before has caught up
        with copier.running():
            wait_for(lambda: copier.stopped, "a first transaction of this part")
            if part % 2:
                copier.kill()
                copier.start()
            else:
                victim = part // 2 % 3
                cluster.kill(victim)
                copier.go_on()
                wait_for(lambda gone=victim: target.leader() not in (-1, gone), "a leader")
                cluster.start_broker(victim)
            copier.finish()
    cluster.wait_ready()  # the broker that was killed last is back for whoever comes next
    expected = [str(number) for number in range(PARTS * RECORDS_PER_KILL)]
    copies = wait_for(lambda: len(found := read(cluster.bootstrap, target)) >= len(expected) and found, "all copies")
    assert copies == expected
