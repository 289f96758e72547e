"""Ranges of offsets cut into tasks: at most so many records each, at least so many tasks in all."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from tidelog.model import TopicPartition
from tidelog.spark.offsets import Offsets


class Span(NamedTuple):
    """Offsets [start, end) of one partition."""

    name: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def spans(start: Mapping[TopicPartition, int], end: Offsets) -> list[Span]:
    """What is to be read between two places; nothing of a partition that has not moved."""
    return [Span(name, start[name], offset) for name, offset in sorted(end.items()) if offset > start[name]]


def cut(whole: list[Span], at_least: int | None, at_most: int | None) -> list[Span]:
    """`at_least` tasks where there are fewer, shared by the sizes of the spans; `at_most` so many offsets each."""
    found = whole
    if at_most is not None:
        found = [part for span in whole for part in _divided(span, -(-span.size // at_most))]
    if at_least is None or len(found) >= at_least or not found:
        return found
    total = sum(span.size for span in found)
    small = [span for span in found if _share(span.size, total, at_least) == 1]
    rest = total - sum(span.size for span in small)
    left = max(at_least - len(small), 1)
    return [part for span in found for part in _divided(span, 1 if span in small else _share(span.size, rest, left))]


def _share(size: int, total: int, tasks: int) -> int:
    return max(int(size / total * tasks + 0.5), 1)


def _divided(span: Span, parts: int) -> Iterable[Span]:
    """As even as can be; the last takes what is over."""
    edges = [span.start + span.size * number // parts for number in range(parts + 1)]
    return [Span(span.name, a, b) for a, b in pairwise(edges) if b > a]
