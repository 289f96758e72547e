"""Rows 3 and 4: requests of one record, fifty in flight and one after the other."""

from collections.abc import Iterator

from bench.loads.requests import Requests
from bench.measure import Load, Measure, Target, alternate, pair
from bench.sides import Side
from bench.wire import fresh_topic

ALL = -1
IN_FLIGHT = 50
FLOOD, FLOOD_REPLICATED, SEQUENCE = 60_000, 20_000, 10_000
"""Requests of a pass: four to ten seconds of Kafka's."""

TOPIC = "single"


def in_flight(scale: float) -> Iterator[Measure]:
    target = Target(3, at_least=True)
    with pair(1) as sides:
        found = alternate(_with_topic(sides), _load(1, IN_FLIGHT, FLOOD, scale))
        yield found.measure("rate", "3", "one broker, acks=1, 50 in flight", "requests/s", target)
    with pair(3) as sides:
        found = alternate(_with_topic(sides), _load(1, IN_FLIGHT, FLOOD_REPLICATED, scale))
        yield found.measure("rate", "3", "replication 3, acks=1, 50 in flight", "requests/s", target)
        found = alternate(sides, _load(ALL, IN_FLIGHT, FLOOD_REPLICATED, scale))
        yield found.measure("rate", "3", "replication 3, acks=all, 50 in flight", "requests/s", target)


def one_by_one(scale: float) -> Iterator[Measure]:
    with pair(1) as sides:
        found = alternate(_with_topic(sides), _load(ALL, 1, SEQUENCE, scale))
        yield found.measure("p50", "4", "one broker, sequential, acks=all, p50", "ms", Target(1.2))
        yield found.measure("p99", "4", "one broker, sequential, acks=all, p99", "ms", Target(1))
    with pair(3) as sides:
        found = alternate(_with_topic(sides), _load(ALL, 1, SEQUENCE, scale))
        yield found.measure("p50", "4", "replication 3, sequential, acks=all, p50", "ms", Target(0.7))
        yield found.measure("p99", "4", "replication 3, sequential, acks=all, p99", "ms", Target(0.7))


def _with_topic(sides: list[Side]) -> list[Side]:
    for side in sides:
        fresh_topic(side.ports[0], TOPIC, 1, side.brokers)
    return sides


def _load(acks: int, requests_in_flight: int, count: int, scale: float) -> Load:
    requests = Requests(acks, requests_in_flight, int(count * scale))
    return lambda side: requests.run(side.ports[0], TOPIC)
