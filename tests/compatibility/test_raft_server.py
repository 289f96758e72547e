"""Kafka's own KRaft client (kafka.tools.TestRaftServer) and ours vote in one quorum, one and two of three, with kills: the
logs are the same, byte for byte."""

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests import jvm
from tests.compatibility.raft_voter import TOPIC, directory
from tests.ports import free_ports
from tests.waiting import wait_for
from tidelog.model import id_text
from tidelog.wire.records import batches, crc_holds

VOTERS = 3


class Quorum:
    """`kafkas` of the three voters are Kafka's."""

    def __init__(self, folder, kafka_libs, kafkas):
        self.folder, self.libs, self.kafkas = folder, kafka_libs, kafkas
        self.ports = free_ports(VOTERS)
        self.processes = {}

    def start(self, number):
        home = self.folder / str(number)
        home.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "tests.compatibility.raft_voter", str(number), str(home)]
        command.append(",".join(map(str, self.ports)))
        if number in self.kafkas:
            file = self.folder / f"{number}.properties"
            voters = ",".join(f"{each}@127.0.0.1:{port}" for each, port in enumerate(self.ports))
            options = {
                "process.roles": "controller",
                "node.id": number,
                "controller.quorum.voters": voters,
                "controller.listener.names": "CONTROLLER",
                "listeners": f"CONTROLLER://127.0.0.1:{self.ports[number]}",
                "log.dirs": home,
            }
            file.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
            command = ["java", "-Xmx128m", *jvm.KAFKA, "-cp", self.libs, "kafka.tools.TestRaftServer"]
            command += ["--config", str(file), "--throughput", "20", "--record-size", "64"]
            command += ["--replica-directory-id", id_text(directory(number))]
        with (self.folder / f"{number}.out").open("ab") as out:
            self.processes[number] = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, cwd=Path(__file__).parents[2]
            )

    def kill(self, number):
        process = self.processes.pop(number)
        process.kill()
        process.wait()

    def batches(self, number):
        """(offset, epoch, is control, the bytes) of each whole batch of a voter's log."""
        found = []
        for file in sorted((self.folder / str(number) / f"{TOPIC}-0").glob("*.log")):
            content = file.read_bytes()
            for batch in batches(content):
                if batch.end > len(content) or not crc_holds(content, batch):
                    break
                whole = content[batch.position : batch.end]
                found.append((batch.base_offset, batch.leader_epoch, batch.is_control, whole))
        return found

    def end(self, number):
        return self.batches(number)[-1][0] if self.batches(number) else -1

    def grows(self, numbers):
        """All of these have records that none had before."""
        before = max(self.end(number) for number in range(VOTERS))
        wait_for(lambda: all(self.end(number) > before + 3 for number in numbers), "more records")

    def __repr__(self):
        told = {number: (self.folder / f"{number}.out").read_text()[-300:] for number in range(VOTERS)}
        return f"Quorum({[self.end(number) for number in range(VOTERS)]}, {told})"


@pytest.mark.parametrize("kafkas", [{0}, {0, 1}], ids=["one of Kafka's", "two of Kafka's"])
def test_kafkas_voters_and_ours_have_the_same_log_over_kills(kafka_libs, tmp_path, kafkas):
    quorum, random = Quorum(tmp_path, kafka_libs, kafkas), Random(len(kafkas))
    try:
        for number in range(VOTERS):
            quorum.start(number)
        quorum.grows(range(VOTERS))
        for victim in random.sample(range(VOTERS), VOTERS):
            quorum.kill(victim)
            quorum.grows({0, 1, 2} - {victim})
            quorum.start(victim)
            quorum.grows(range(VOTERS))
    finally:
        for number in list(quorum.processes):
            quorum.kill(number)
    logs = [quorum.batches(number) for number in range(VOTERS)]
    common = min(len(log) for log in logs)
    epochs = {epoch for _, epoch, _, _ in logs[0][:common]}
    assert len(epochs) > 1, "leaders changed"
    for number in range(1, VOTERS):
        assert logs[number][:common] == logs[0][:common]
