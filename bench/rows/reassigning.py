"""Row 14: four brokers, 500 replicas that all move to the next broker at once, while a producer waits for every record
(acks=all, replication 3): the time until the last has moved, and what the producer feels of it."""

import time
from collections import defaultdict
from collections.abc import Iterator

from bench.loads.steady import Steady
from bench.measure import Figures, Measure, Target, alternate, pair
from bench.sides import Side
from bench.wire import PRODUCE, Client, NotYet, end_offsets, fresh_topic, leaders, patiently, records_for
from tidelog.client.admin import ANY
from tidelog.shell.transport import Admin
from tidelog.wire.messages.topics.reassignments import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

BROKERS = 4
REPLICAS = 500
RECORDS, SIZE = 64, 1000
TOPIC, BUSY = "many", "busy"
EVERY_MS = 5.0
LOOK_S = 0.02
LEADER_ACK = 1

LINES = (
    ("seconds", "500 replicas of 64 KB move to other brokers under load", "s"),
    ("p99", "p99 of a producer with acks=all meanwhile", "ms"),
)


def moves(scale: float) -> Iterator[Measure]:
    with pair(BROKERS) as sides:
        for side in sides:
            fresh_topic(side.ports[0], BUSY, 1, 3)
            fresh_topic(side.ports[0], TOPIC, max(20, int(REPLICAS * scale)), 1)
            patiently(_fill, side.ports[0])
        found = alternate(sides, _move)
        for name, what, unit in LINES:
            yield found.measure(name, "14", what, unit, Target(1))


def _fill(port: int) -> None:
    led, ports = leaders(port, TOPIC)
    by_leader: dict[int, list[int]] = defaultdict(list)
    for partition, leader in led.items():
        by_leader[leader].append(partition)
    for leader, partitions in by_leader.items():
        with Client(ports[leader]) as client:
            for partition in partitions:
                client.call(PRODUCE, records_for(TOPIC, [partition], LEADER_ACK, SIZE, RECORDS))


def _move(side: Side) -> Figures:
    led, _ = patiently(leaders, side.ports[0], TOPIC)
    stored = patiently(end_offsets, side.ports[0], TOPIC)
    targets = [
        ReassignablePartition(partition_index=partition, replicas=[(leader + 1) % BROKERS])
        for partition, leader in led.items()
    ]
    load = Steady(side.ports[0], BUSY, EVERY_MS)
    time.sleep(1)
    begin = time.perf_counter()
    with Admin(side.bootstrap) as admin:
        topics = [ReassignableTopic(name=TOPIC, partitions=targets)]
        answer = admin.ask(AlterPartitionReassignmentsRequest(topics=topics), ANY)
        if any(each.error_code for topic in answer.responses for each in topic.partitions):
            raise RuntimeError(f"{side.name} refuses to move")
        while admin.ask(ListPartitionReassignmentsRequest(topics=None), ANY).topics:
            time.sleep(LOOK_S)
    seconds = time.perf_counter() - begin
    felt = load.stop()
    patiently(_check_nothing_is_lost, side.ports[0], stored)
    return {"seconds": seconds, "p99": felt["p99"]}


def _check_nothing_is_lost(port: int, stored: int) -> None:
    """A new leader reports its end a moment after it leads."""
    if (left := end_offsets(port, TOPIC)) != stored:
        raise NotYet(f"of {stored} records there are {left}")
