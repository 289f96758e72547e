"""Which brokers hold a new partition's replicas: Kafka's round robin, pure.

First replicas go round the brokers from a random start; the others follow at a distance that grows by one with every
round, so that a broker's partitions are backed up by all others alike. Where every broker names its rack, brokers are
first put in an order that alternates racks, and no rack gets a second replica while another has none.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tidelog.errors import ApiError, ErrorCode


class Start(NamedTuple):
    """Where the round begins: the first partition's first broker, as an index, and the first distance."""

    offset: int
    shift: int


def place(
    racks: Mapping[int, str | None], partitions: int, factor: int, start: Start, first_partition: int = 0
) -> list[tuple[int, ...]]:
    """The replicas of `partitions` new partitions over the brokers in `racks`; INVALID_REPLICATION_FACTOR if there
    are too few of them."""
    return list(placements(racks, partitions, factor, start, first_partition))


def placements(
    racks: Mapping[int, str | None], partitions: int, factor: int, start: Start, first_partition: int = 0
) -> Iterator[tuple[int, ...]]:
    """`place`, one partition after another."""
    check_factor(factor, len(racks))
    order = order_of(racks)
    rack_of = _named(racks) or {broker: str(broker) for broker in racks}
    shift = start.shift
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % len(order) == 0:
            shift += 1
        first = (partition + start.offset) % len(order)
        yield _replicas(order, rack_of, factor, first, shift)


def order_of(racks: Mapping[int, str | None]) -> list[int]:
    """The brokers in the order of the round."""
    named = _named(racks)
    return alternate_racks(named) if named else sorted(racks)


def _named(racks: Mapping[int, str | None]) -> dict[int, str]:
    """The racks if every broker names one, else none: placement is aware of all racks or of none."""
    named = {broker: rack for broker, rack in racks.items() if rack is not None}
    return named if len(named) == len(racks) else {}


def check_factor(factor: int, brokers: int) -> None:
    if brokers == 0:
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, _unable(factor, "no broker is available."))
    if factor > brokers:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            _unable(factor, f"a replication factor of {factor} needs more than the {brokers} broker(s) there are."),
        )


def _unable(factor: int, why: str) -> str:
    return f"Unable to replicate the partition {factor} time(s): {why}"


def alternate_racks(rack_of: Mapping[int, str]) -> list[int]:
    """Brokers in an order that takes one of each rack in turn."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(rack_of):
        by_rack.setdefault(rack_of[broker], []).append(broker)
    columns = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max(map(len, columns), default=0)
    return [column[row] for row in range(longest) for column in columns if row < len(column)]


def _replicas(order: Sequence[int], rack_of: Mapping[int, str], factor: int, first: int, shift: int) -> tuple[int, ...]:
    replicas = [order[first]]
    racks = {rack_of[order[first]]}
    rack_count = len(set(rack_of.values()))
    step = 0
    distance = shift * (rack_count if rack_count < len(order) else 1)
    while len(replicas) < factor:
        broker = order[(first + 1 + (distance + step) % (len(order) - 1)) % len(order)]
        step += 1
        rack_is_due = rack_of[broker] not in racks or len(racks) == rack_count
        if broker not in replicas and rack_is_due:
            replicas.append(broker)
            racks.add(rack_of[broker])
    return tuple(replicas)


def check_assignment(replicas: Sequence[int], brokers: Mapping[int, object], factor: int | None) -> None:
    """A replica list given by hand: known brokers, each once, as many as the partitions before it have."""
    if not replicas:
        raise _invalid("The manual partition assignment includes an empty replica list.")
    for broker in sorted(replicas):
        if broker not in brokers:
            raise _invalid(f"The manual partition assignment names broker {broker}, which is not registered.")
        if replicas.count(broker) > 1:
            raise _invalid(f"The manual partition assignment names broker {broker} more than once.")
    if factor is not None and len(replicas) != factor:
        raise _invalid(f"The manual partition assignment has {len(replicas)} replica(s) where others have {factor}.")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
