"""Where replicas should stand so that brokers hold as many, as much, and lead as often as each other. Pure.

Three passes, each of which keeps what the ones before reached: replicas leave the fullest broker for the emptiest until
their counts differ by one at most; pairs of them change places while that evens bytes out; and the order of replicas
changes until leaderships are even. No partition comes to have two replicas in one rack while another rack has none of
it, unless it has so already; what does not have to move stays.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tidelog.model import TopicPartition

BYTES_TOLERANCE = 0.05
"""Brokers whose bytes differ by less than this part of the mean are even enough."""
MAX_CANDIDATES = 40
"""Partitions of each of two brokers that are looked at for an exchange."""
MAX_ROUNDS = 100_000

Layout = dict[TopicPartition, list[int]]


class BrokerLoad(NamedTuple):
    """What a broker has."""

    replicas: int
    leaders: int
    bytes: int


def broker_loads(
    layout: Mapping[TopicPartition, Sequence[int]], sizes: Mapping[TopicPartition, int]
) -> dict[int, BrokerLoad]:
    found: dict[int, BrokerLoad] = {}
    for partition, replicas in layout.items():
        for position, broker in enumerate(replicas):
            load = found.get(broker, BrokerLoad(0, 0, 0))
            size = sizes.get(partition, 0)
            found[broker] = BrokerLoad(load.replicas + 1, load.leaders + (position == 0), load.bytes + size)
    return found


def even_layout(
    current: Mapping[TopicPartition, Sequence[int]],
    sizes: Mapping[TopicPartition, int],
    racks: Mapping[int, str | None],
) -> Layout:
    """The layout to move to, of the brokers in `racks` only."""
    plan = _Balancer(current, sizes, racks)
    plan.even_counts()
    plan.even_bytes()
    plan.even_leaders()
    return plan.layout


class _Balancer:
    """`replicas_on`: the partitions of each broker, all brokers that may have any."""

    def __init__(
        self,
        current: Mapping[TopicPartition, Sequence[int]],
        sizes: Mapping[TopicPartition, int],
        racks: Mapping[int, str | None],
    ) -> None:
        self.layout: Layout = {partition: list(replicas) for partition, replicas in sorted(current.items())}
        self.racks = racks
        self.sizes = sizes
        self.replicas_on: dict[int, set[TopicPartition]] = {broker: set() for broker in sorted(racks)}
        for partition, replicas in self.layout.items():
            for broker in replicas:
                self.replicas_on.setdefault(broker, set()).add(partition)
        self.bytes = {
            broker: sum(sizes.get(each, 0) for each in replicas_on) for broker, replicas_on in self.replicas_on.items()
        }

    def even_counts(self) -> None:
        for _ in range(MAX_ROUNDS):
            if not any(self._move_one(source, target) for source, target in self._unequal()):
                return

    def _unequal(self) -> Iterator[tuple[int, int]]:
        """(too full, too empty), the worst first; a broker that is not to have any is always too full."""
        leaving = [broker for broker in self.replicas_on if broker not in self.racks and self.replicas_on[broker]]
        staying = sorted(self.racks, key=lambda broker: (len(self.replicas_on[broker]), self.bytes[broker], broker))
        for source in (*leaving, *reversed(staying)):
            for target in staying:
                if source in leaving or len(self.replicas_on[source]) - len(self.replicas_on[target]) > 1:
                    yield source, target

    def _move_one(self, source: int, target: int) -> bool:
        """Move the replica whose size fits best from one broker to the other."""
        wanted = (self.bytes[source] - self.bytes[target]) / 2
        movable = self._movable(source, target)
        if not movable:
            return False
        self._move(min(movable, key=lambda each: (abs(self.sizes.get(each, 0) - wanted), each)), source, target)
        return True

    def _movable(self, source: int, target: int) -> list[TopicPartition]:
        return [
            each
            for each in self.replicas_on[source] - self.replicas_on[target]
            if self._keeps_racks(each, source, target)
        ]

    def _keeps_racks(self, partition: TopicPartition, source: int, target: int) -> bool:
        """Whether the partition's replicas are in as many racks as before."""
        before = self.layout[partition]
        after = [target if broker == source else broker for broker in before]
        return len({self._rack(b) for b in after}) >= len({self._rack(b) for b in before})

    def _rack(self, broker: int) -> str:
        return self.racks.get(broker) or f"of {broker}"

    def _move(self, partition: TopicPartition, source: int, target: int) -> None:
        replicas = self.layout[partition]
        replicas[replicas.index(source)] = target
        self.replicas_on[source].discard(partition)
        self.replicas_on[target].add(partition)
        size = self.sizes.get(partition, 0)
        self.bytes[source] -= size
        self.bytes[target] += size

    def even_bytes(self) -> None:
        mean = sum(self.bytes.values()) / max(1, len(self.racks))
        for _ in range(10 * len(self.layout)):
            order = sorted(self.racks, key=lambda broker: (self.bytes[broker], broker))
            if not order or self.bytes[order[-1]] - self.bytes[order[0]] <= BYTES_TOLERANCE * mean:
                return
            if not any(self._exchange(order[-1], target) for target in order[:-1]):
                return

    def _exchange(self, source: int, target: int) -> bool:
        """Let two replicas change places so that the brokers' bytes come nearer to each other."""
        gap = self.bytes[source] - self.bytes[target]
        best: tuple[int, TopicPartition, TopicPartition] | None = None
        largest = sorted(self._movable(source, target), key=lambda each: (-self.sizes.get(each, 0), each))[
            :MAX_CANDIDATES
        ]
        smallest = sorted(self._movable(target, source), key=lambda each: (self.sizes.get(each, 0), each))[
            :MAX_CANDIDATES
        ]
        for big in largest:
            for small in smallest:
                shift = self.sizes.get(big, 0) - self.sizes.get(small, 0)
                left = abs(gap - 2 * shift)
                if 0 < shift < gap and (best is None or left < best[0]):
                    best = left, big, small
        if best is None or best[0] > 0.9 * gap:
            return False
        self._move(best[1], source, target)
        self._move(best[2], target, source)
        return True

    def even_leaders(self) -> None:
        """Leaderships go from whoever has more to whoever has fewer, until none can."""
        leads = dict.fromkeys(self.replicas_on, 0)
        for replicas in self.layout.values():
            leads[replicas[0]] += 1
        changed = True
        while changed:
            changed = False
            for replicas in self.layout.values():
                fewest = min(replicas, key=lambda broker: leads[broker])
                if leads[replicas[0]] - leads[fewest] > 1:
                    leads[replicas[0]] -= 1
                    leads[fewest] += 1
                    position = replicas.index(fewest)
                    replicas[0], replicas[position] = replicas[position], replicas[0]
                    changed = True
