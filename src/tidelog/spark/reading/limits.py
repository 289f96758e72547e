"""Starting and ending offsets, as given by options: earliest, latest, an offset or a time for each partition, or one
time for all. `offset_lookup` resolves them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidelog.client.positions import EARLIEST, LATEST
from tidelog.model import TopicPartition
from tidelog.spark.options import BadOption

NAMED = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True)
class EdgeLimit:
    """EARLIEST or LATEST, of every partition."""

    option: str
    edge: int


@dataclass(frozen=True)
class OffsetLimit:
    """An offset for every partition; EARLIEST and LATEST are allowed."""

    option: str
    places: dict[TopicPartition, int]


@dataclass(frozen=True)
class TimeLimit:
    """A time for every partition, or one for all if `places` is None, in wall milliseconds. If no record is that new,
    reading starts at the end only if `falls_back`, and ends there in any case."""

    option: str
    places: dict[TopicPartition, int] | None
    time: int = 0
    falls_back: bool = False


Limit = EdgeLimit | OffsetLimit | TimeLimit


def limit(options: Mapping[str, str], side: str, edge: int) -> Limit:
    """The limit given by the options of one side (starting or ending). One time overrides times by partition, which
    override offsets, as in Spark's own connector."""
    one, each, offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    falls_back = _strategy(options)
    if (text := options.get(one.lower())) is not None:
        return TimeLimit(one, None, _time(one, text), falls_back)
    if (text := options.get(each.lower())) is not None:
        return TimeLimit(each, _by_partition(each, text, '{"topic":{"0":1700000000000}}'), 0, falls_back)
    text = options.get(offsets.lower(), "").strip()
    if not text:
        return EdgeLimit(offsets, edge)
    if text.lower() in NAMED:
        return EdgeLimit(offsets, NAMED[text.lower()])
    return OffsetLimit(offsets, _by_partition(offsets, text, 'earliest, latest or {"topic":{"0":23,"1":-2}}'))


def _strategy(options: Mapping[str, str]) -> bool:
    name = "startingOffsetsByTimestampStrategy"
    text = options.get(name.lower(), "error").strip().lower()
    if text not in ("error", "latest"):
        raise BadOption(f"option {name!r} is error or latest, not {text!r}")
    return text == "latest"


def _time(name: str, text: str) -> int:
    if not text.strip().isdigit():
        raise BadOption(f"option {name!r} is one time in milliseconds since 1970, not {text!r}")
    return int(text)


def _by_partition(name: str, text: str, example: str) -> dict[TopicPartition, int]:
    def places(value: Any) -> dict[TopicPartition, int]:
        return {
            TopicPartition(topic, int(partition)): int(place)
            for topic, partitions in value.items()
            for partition, place in partitions.items()
        }

    found: dict[TopicPartition, int] = from_json(name, text, example, places)
    return found


def from_json(name: str, text: str, example: str, convert: Callable[[Any], Any]) -> Any:
    """The converted JSON; BadOption with the example if it is malformed."""
    try:
        return convert(json.loads(text))
    except (ValueError, AttributeError, TypeError):
        raise BadOption(f"option {name!r} is expected as {example}, not {text!r}") from None


def check_batch(start: Limit, end: Limit) -> None:
    """A batch must not start at the end, end at the start, or go backwards."""
    if LATEST in _named(start):
        raise BadOption(f"option {start.option!r}: a starting offset cannot be latest (-1) for batch queries")
    if EARLIEST in _named(end):
        raise BadOption(f"option {end.option!r}: an ending offset cannot be earliest (-2) for batch queries")
    for some in (OffsetLimit, TimeLimit):
        if isinstance(start, some) and isinstance(end, some) and start.places and end.places:
            _check_forward(start.option, start.places, end.option, end.places)


def _named(limit: Limit) -> set[int]:
    return (
        {limit.edge}
        if isinstance(limit, EdgeLimit)
        else set(limit.places.values())
        if isinstance(limit, OffsetLimit)
        else set()
    )


def _check_forward(
    starting: str, start: Mapping[TopicPartition, int], ending: str, end: Mapping[TopicPartition, int]
) -> None:
    if start.keys() != end.keys():
        odd = min(start.keys() ^ end.keys())
        raise BadOption(f"options {starting!r} and {ending!r} name different partitions: only one has {odd}")
    for name, place in start.items():
        if place > end[name] >= 0:
            raise BadOption(
                f"{name}: the start {place} of option {starting!r} is behind the end {end[name]} of {ending!r}"
            )
