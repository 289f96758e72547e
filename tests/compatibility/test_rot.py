"""Bits that turn in old segments of running brokers: consumers and new replicas get what was written, and the files are
mended to the byte; where there is no other copy, it is said so, and what follows is read.
"""

import shutil
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.compatibility.support import Load, Topic, assert_exact, stored
from tests.processes import Processes
from tests.waiting import PATIENCE_S, wait_for
from tidelog.shell.supervisor import Supervisor
from tidelog.wire.records import HEADER_BYTES

LENGTH_BEGINS, LENGTH_ENDS = 8, 12
SEGMENT = "00000000000000000000.log"


def told(supervisor: Supervisor, broker: int, kind: str) -> int:
    """How often the broker has said so."""
    path = supervisor.children[broker].log
    assert path is not None
    return path.read_text().count(f" {kind} ")


def started(exits: ExitStack, tmp_path: Path) -> Supervisor:
    overrides = {"replica.lag.time.max.ms": "3000", "offsets.topic.num.partitions": "4"}
    supervisor = Processes(tmp_path, overrides=overrides, port=0)
    for child in supervisor.children:
        child.log = child.folder.with_suffix(".log")
    return exits.enter_context(supervisor)


def segment(supervisor: Supervisor, broker: int, name: str) -> Path:
    return supervisor.children[broker].folder / f"{name}-0" / SEGMENT


def fill(supervisor: Supervisor, topic: Topic) -> Load:
    """More than one segment of records, all acknowledged."""
    load = Load(supervisor.bootstrap, topic, {"batch.num.messages": 50}, pace_s=0.0, digits=200)
    with load:
        wait_for(lambda: len(list(segment(supervisor, 0, topic.name).parent.glob("*.log"))) > 1, "a second segment")
        load.await_more(100)
    return load


def turn(path: Path, place: float) -> None:
    """One bit of the file there, or of the first record behind where that is a batch's header: the sizes of batches, and
    so what stands there, depend on how fast they were sent, and the first bytes of a header are under no checksum."""
    data = path.read_bytes()
    position, begin = int(len(data) * place), 0
    while (end := begin + LENGTH_ENDS + int.from_bytes(data[begin + LENGTH_BEGINS : begin + LENGTH_ENDS])) <= position:
        begin = end
    position = max(position, begin + HEADER_BYTES)
    with path.open("r+b", buffering=0) as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 0x40]))


def test_what_is_read_is_what_was_written_and_every_copy_is_mended(tmp_path):
    with ExitStack() as exits:
        supervisor = started(exits, tmp_path)
        topic = Topic(supervisor.bootstrap, "rotten", 1, leader=0, segment_bytes="1048576", min_insync_replicas="2")
        load = fill(supervisor, topic)
        good = segment(supervisor, 0, "rotten").read_bytes()
        for broker in (1, 2):  # two are enough for an acknowledgement
            path = segment(supervisor, broker, "rotten")
            wait_for(lambda path=path: path.exists() and path.read_bytes() == good, f"the copy of broker {broker}")
        for place in (0.0001, 0.3, 0.7):
            turn(segment(supervisor, 0, "rotten"), place)
        assert_exact(load, stored(supervisor.bootstrap, topic))
        wait_for(lambda: told(supervisor, 0, "log.repaired") == 3, "three repairs")
        assert told(supervisor, 0, "log.rot") == 3
        assert segment(supervisor, 0, "rotten").read_bytes() == good

        supervisor.kill(0)
        supervisor.start_broker(0)
        supervisor.wait_ready()
        wait_for(lambda: topic.leader() != -1 and len(topic.isrs()[0]) == 3, "all replicas in sync")
        leader = topic.led_by()
        empty = 2 if leader != 2 else 1
        turn(segment(supervisor, leader, "rotten"), 0.5)
        supervisor.kill(empty)
        shutil.rmtree(segment(supervisor, empty, "rotten").parent)
        wait_for(lambda: len(topic.isrs()[0]) == 2, "the empty replica to be missed")
        supervisor.start_broker(empty)
        wait_for(lambda: len(topic.isrs()[0]) == 3, "the empty replica to have all of it again")
        for broker in range(3):
            assert segment(supervisor, broker, "rotten").read_bytes() == good, broker
        assert not any(told(supervisor, broker, "log.unrepairable") for broker in range(3))


def test_without_another_copy_it_is_said_so_and_what_follows_is_read(tmp_path):
    with ExitStack() as exits:
        supervisor = started(exits, tmp_path)
        topic = Topic(supervisor.bootstrap, "alone", 1, 1, leader=0, segment_bytes="1048576")
        load = fill(supervisor, topic)
        path = segment(supervisor, 0, "alone")
        turn(path, 0.5)
        rotten = path.read_bytes()
        consumer = Consumer({"bootstrap.servers": supervisor.bootstrap, "group.id": "reader", "log_level": 0})
        exits.callback(consumer.close)
        consumer.assign([TopicPartition("alone", 0, 0)])
        seen: dict[int, int] = {}

        message = None
        while not (message is not None and message.error() is not None):
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            if message.error() is None:
                seen[message.offset()] = int(message.value())
        assert message.error().code() == KafkaError.INVALID_MSG
        bad = max(seen) + 1
        last = max(offset for _, offset in load.acknowledged.values())
        consumer.assign([TopicPartition("alone", 0, bad + 60)])
        while last not in seen:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            assert message.error() is None, message.error()
            seen[message.offset()] = int(message.value())
        assert all(load.acknowledged[number] == (0, offset) for offset, number in seen.items())
        assert len(load.acknowledged) - len(seen) <= 60
        assert told(supervisor, 0, "log.unrepairable") >= 1
        assert path.read_bytes() == rotten, "nothing is cut off"
