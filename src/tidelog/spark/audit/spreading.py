"""Which pieces one task takes: a task has a cost of its own, so small pieces share one, and all take about as long."""

from collections.abc import Sequence
from heapq import heappop, heappush

TASKS_PER_CORE = 4
TASK_BYTES = 256 * 1024 * 1024
OPENING_BYTES = 256 * 1024
"""To begin with a piece takes as long as to read so much of it."""


def spread(sizes: Sequence[int], cores: int) -> list[list[int]]:
    """OffsetLookup of the pieces, by task. The largest first, each to the task that has least by then."""
    total = sum(sizes) + OPENING_BYTES * len(sizes)
    tasks = min(len(sizes), max(cores * TASKS_PER_CORE, -(-total // TASK_BYTES)))
    heap = [(0, task) for task in range(tasks)]
    found: list[list[int]] = [[] for _ in range(tasks)]
    for place in sorted(range(len(sizes)), key=lambda each: -sizes[each]):
        load, task = heappop(heap)
        found[task].append(place)
        heappush(heap, (load + sizes[place] + OPENING_BYTES, task))
    return found
