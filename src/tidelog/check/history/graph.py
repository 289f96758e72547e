"""Graphs of numbered nodes: strongly connected components (Tarjan's, without recursion) and a shortest cycle in one."""

from collections import deque
from collections.abc import Collection, Iterator, Mapping

Edges = Mapping[int, Mapping[int, str]]
"""node → the nodes that come after it → why."""


def components(edges: Edges) -> Iterator[list[int]]:
    """The strongly connected components of at least two nodes."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in edges:
        if root in index:
            continue
        work: list[tuple[int, Iterator[int]]] = [_enter(root, edges, index, low, stack, on_stack)]
        while work:
            node, following = work[-1]
            step = next(following, None)
            if step is not None:
                if step not in index:
                    work.append(_enter(step, edges, index, low, stack, on_stack))
                elif step in on_stack:
                    low[node] = min(low[node], index[step])
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                found = _leave(node, stack, on_stack)
                if len(found) > 1:
                    yield found


def _enter(
    node: int, edges: Edges, index: dict[int, int], low: dict[int, int], stack: list[int], on_stack: set[int]
) -> tuple[int, Iterator[int]]:
    index[node] = low[node] = len(index)
    stack.append(node)
    on_stack.add(node)
    return node, iter(edges.get(node, {}))


def _leave(node: int, stack: list[int], on_stack: set[int]) -> list[int]:
    found = []
    while True:
        top = stack.pop()
        on_stack.discard(top)
        found.append(top)
        if top == node:
            return found[::-1]


def cycle(edges: Edges, component: Collection[int]) -> list[int]:
    """The nodes of a shortest way from the component's least node back to itself."""
    inside = set(component)
    start = min(inside)
    came_from: dict[int, int] = {}
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        for step in edges.get(node, {}):
            if step == start:
                way = [node]
                while way[-1] != start:
                    way.append(came_from[way[-1]])
                return way[::-1]
            if step in inside and step not in came_from:
                came_from[step] = node
                waiting.append(step)
    return []
