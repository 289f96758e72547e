"""Computes a layout in which brokers have equal numbers of replicas, bytes and leaders. Pure.

Three passes, each of which preserves the result of the ones before: replicas move from the fullest broker to the
emptiest until counts differ by at most one; pairs of replicas are exchanged while that evens out bytes; the order of
replicas changes until leaders are even. A partition never spans fewer racks than before, and a replica that does not
have to move stays.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tidelog.model import TopicPartition

BYTES_TOLERANCE = 0.05
"""The difference in bytes between brokers that counts as balanced, as a fraction of the mean."""
MAX_CANDIDATES = 40
"""How many partitions of each of two brokers are considered for an exchange."""
MAX_ROUNDS = 100_000

Layout = dict[TopicPartition, list[int]]


class BrokerLoad(NamedTuple):
    """The load of one broker."""

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
    """The balanced layout, on the brokers in `racks` only."""
    plan = _Balancer(current, sizes, racks)
    plan.even_counts()
    plan.even_bytes()
    plan.even_leaders()
    return plan.layout


class _Balancer:
    """A layout being balanced. `replicas_on` has the partitions of each broker, also of brokers that must be
    emptied."""

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
        """Pairs (too full, too empty), most unequal first; a broker that is not in `racks` is always too full."""
        leaving = [broker for broker in self.replicas_on if broker not in self.racks and self.replicas_on[broker]]
        staying = sorted(self.racks, key=lambda broker: (len(self.replicas_on[broker]), self.bytes[broker], broker))
        for source in (*leaving, *reversed(staying)):
            for target in staying:
                if source in leaving or len(self.replicas_on[source]) - len(self.replicas_on[target]) > 1:
                    yield source, target

    def _move_one(self, source: int, target: int) -> bool:
        """Move the replica whose size evens out the bytes of both brokers best; returns whether one moved."""
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
        """Whether the partition spans at least as many racks after the move."""
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
        """Exchange the two replicas that even out the brokers' bytes best; returns whether any were exchanged."""
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
        """Move leaders from brokers with more to replicas on brokers with fewer, until no move helps."""
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
