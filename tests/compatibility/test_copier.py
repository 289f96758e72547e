"""Kafka 4.3.1's TransactionalMessageCopier between two topics of three broker processes, while brokers and the copier
itself are killed: what readers of committed records find is the input, once and in its order.

How many records it moves is `TIDELOG_COPIER_RECORDS`; the number of kills grows with them.

The copier counts what it has committed only when it tells of it, so a killed one has often copied more than it told:
`remaining`, which the next one works out from the positions in the group, is the only true measure of progress. A
copier with assigned partitions asks for its position before it has its transactional id, so nobody ends the killed
one's transaction but its time-out: with the default of a minute it gives up asking, on a real Kafka as well as here.
"""

import json
import os
import subprocess
import threading
from typing import Self

import pytest
from confluent_kafka import Producer

from tests.compatibility.support import PATIENCE_S, Topic, awaited, read
from tidelog.shell.supervisor import Supervisor

pytestmark = [pytest.mark.kafka, pytest.mark.processes]

COUNT = int(os.environ.get("TIDELOG_COPIER_RECORDS", "18000"))
SIZE = 750
RECORDS_PER_KILL = 4_500
"""Every other kill hits the copier; in group mode each of those costs its session of ten seconds."""


class Copier:
    """One after the other under the same transactional id, and how far they have come."""

    def __init__(self, libs: str, bootstrap: str, source: Topic, target: Topic, *mode: str) -> None:
        name = target.name
        self._command = [
            "java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", libs,
            "org.apache.kafka.tools.TransactionalMessageCopier", "--broker-list", bootstrap,
            "--transactional-id", name, "--consumer-group", name, "--enable-random-aborts",
            "--input-topic", source.name, "--input-partition", "0", "--output-topic", name,
            "--transaction-size", str(SIZE), "--max-messages", str(COUNT), "--transaction-timeout", "3000", *mode,
        ]  # fmt: skip
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        self.copied = 0
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._follow, args=(self.process,))
        self._reader.start()

    def _follow(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                self.copied = COUNT - int(json.loads(line)["remaining"])

    def kill(self) -> None:
        self.process.kill()
        self._reader.join()
        self.process.communicate()

    def has_copied(self, count: int) -> bool:
        assert self.process.poll() is None, f"it ended with {self.copied} copied"
        return self.copied >= count

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
    for number in range(COUNT):
        sender.produce(source.name, b"%d" % number)
        sender.poll(0)
    assert sender.flush(PATIENCE_S) == 0
    expected = [str(number) for number in range(COUNT)]
    kills = COUNT // RECORDS_PER_KILL - 1
    with Copier(kafka_libs, cluster.bootstrap, source, target, *mode) as copier:
        for kill in range(kills):
            awaited(lambda part=kill + 1: copier.has_copied(COUNT * part // (kills + 1)), "the next part")
            if kill % 2:
                copier.kill()
                copier.start()
            else:
                _kill_and_restart(cluster, kill // 2 % 3, target)
        copier.finish()
    cluster.wait_ready()  # the broker that was killed last is back for whoever comes next
    assert awaited(lambda: len(found := read(cluster.bootstrap, target)) >= COUNT and found, "all copies") == expected


def _kill_and_restart(cluster: Supervisor, victim: int, target: Topic) -> None:
    """The broker before has caught up by then, this one not when the copier goes on."""
    awaited(lambda: len(target.isrs()[0]) == 3, "all replicas")
    cluster.kill(victim)
    awaited(lambda: target.leader() not in (-1, victim), "a leader")
    cluster.start_broker(victim)
