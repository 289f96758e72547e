"""Seed 004's __consumer_offsets that grows without bound, because it is not compacted any more: `tidelog explain` says
whose cleaner does not clean and why, the others go on, and what it advises frees it.
"""

import json
import shutil
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.compatibility.support import Topic
from tests.compatibility.test_rot import told, turn
from tests.processes import Processes
from tests.waiting import wait_for
from tidelog.cli.main import run

SEGMENT = 1 << 20
LOG = "__consumer_offsets-0"
OPTIONS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": str(SEGMENT),
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "replica.lag.time.max.ms": "3000",
}


class Group:
    """A reader that notes much beside each position."""

    def __init__(self, bootstrap: str) -> None:
        options = {"bootstrap.servers": bootstrap, "group.id": "readers", "enable.auto.commit": False, "log_level": 0}
        self._consumer = Consumer(options)
        self.position = 0

    def commit_until(self, enough) -> None:
        while not enough():
            self.position += 1
            place = TopicPartition("t", 0, self.position, "x" * 4000)
            assert self._consumer.commit(offsets=[place], asynchronous=False)

    def committed(self) -> int:
        (place,) = self._consumer.committed([TopicPartition("t", 0)], timeout=60)
        return int(place.offset)

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def supervisor(tmp_path):
    supervisor = Processes(tmp_path, overrides=OPTIONS, port=0)
    for child in supervisor.children:
        child.log = child.folder.with_suffix(".log")
    with supervisor:
        yield supervisor


@pytest.fixture
def group(supervisor):
    group = Group(supervisor.bootstrap)
    yield group
    group.close()


def test_a_cleaner_that_does_not_clean_is_explained_and_freed(supervisor, group, capsys):
    admin = AdminClient({"bootstrap.servers": supervisor.bootstrap, "log_level": 0})

    def size(broker):
        found = 0
        for file in (supervisor.children[broker].folder / LOG).glob("*.log"):
            with suppress(FileNotFoundError):  # it is replaced at this moment
                found += file.stat().st_size
        return found

    def offsets():
        return admin.list_topics("__consumer_offsets", timeout=60).topics["__consumer_offsets"].partitions[0]

    def in_sync():
        with suppress(KafkaException, KeyError):  # who was asked does not answer, or has just begun
            return len(offsets().isrs)

    def uncleanable():
        capsys.readouterr()
        place = ("--bootstrap-server", supervisor.bootstrap, "--watch-ms", "0", "--json")
        assert run(("explain", "cluster", *place)) in (0, 2)
        findings = json.loads(capsys.readouterr().out)["findings"]
        return [each for each in findings if each["kind"] == "partition.uncleanable"]

    Topic(supervisor.bootstrap, "t", 1)
    group.commit_until(lambda: group.position > 100)
    dead = offsets().leader
    others = [broker for broker in range(3) if broker != dead]
    turn(supervisor.children[dead].folder / LOG / f"{0:020}.log", 0.5)
    group.commit_until(lambda: told(supervisor, dead, "log.uncleanable"))
    group.commit_until(lambda: size(dead) > 3 * SEGMENT)
    for broker in others:
        wait_for(lambda broker=broker: size(broker) < 2 * SEGMENT, "the others to have compacted theirs")

    (finding,) = uncleanable()
    assert (finding["about"], finding["says"]) == (f"partition {LOG}", f"Broker {dead} does not compact it.")
    assert "checksum" in finding["because"][0]
    assert f"Stop broker {dead}, delete its folder {LOG}, and start it" in finding["helps"][1]

    supervisor.kill(dead)
    shutil.rmtree(supervisor.children[dead].folder / LOG)
    wait_for(lambda: in_sync() == 2, "the stopped broker to be missed")
    supervisor.start_broker(dead)
    wait_for(lambda: in_sync() == 3, "the copy")
    assert uncleanable() == []
    group.commit_until(lambda: told(supervisor, dead, "log.compacted"))
    wait_for(lambda: size(dead) < 2 * SEGMENT, "the log to be compacted")
    assert group.committed() == group.position
