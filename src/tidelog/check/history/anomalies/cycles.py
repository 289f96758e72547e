"""Calls that cannot be put into one order.

G0: writes alone (ww: the next value in the log belongs to another call). G1c: writes and reads (wr: a call read
another's value). With `-process` or `-realtime` the cycle includes the order of a process, or of the clock. Kafka does
not isolate writes, so cycles with a ww edge are reported but allowed; a cycle of reads alone (kind `wr-cycle…`) is an
error. There are no rw edges.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from tidelog.check.history.anomalies import Anomaly
from tidelog.check.history.facts import Facts
from tidelog.check.history.operation import INFO, MOVES_RECORDS, Call

Edges = Mapping[int, Mapping[int, str]]
"""node → its successors → the reason of the edge."""

WW, WR, PROCESS, REALTIME = "ww", "wr", "process", "realtime"
_Graph = dict[int, dict[int, str]]
CYCLE_KINDS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("wr-cycle", (WR,)),
    ("wr-cycle-process", (WR, PROCESS)),
    ("wr-cycle-realtime", (WR, PROCESS, REALTIME)),
    ("G0", (WW,)),
    ("G0-process", (WW, PROCESS)),
    ("G0-realtime", (WW, PROCESS, REALTIME)),
    ("G1c", (WW, WR)),
    ("G1c-process", (WW, WR, PROCESS)),
    ("G1c-realtime", (WW, WR, PROCESS, REALTIME)),
)
"""Kind → its edges. A cycle is reported once, as the first kind that contains it."""


def components(edges: Edges) -> Iterator[list[int]]:
    """The strongly connected components of at least two nodes (Tarjan's algorithm, without recursion)."""
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


def shortest_cycle(edges: Edges, component: Collection[int]) -> list[int]:
    """The nodes of a shortest cycle through the least node of the component."""
    inside = set(component)
    start = min(inside)
    came_from: dict[int, int] = {}
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        for step in edges.get(node, {}):
            if step == start:
                cycle = [node]
                while cycle[-1] != start:
                    cycle.append(came_from[cycle[-1]])
                return cycle[::-1]
            if step in inside and step not in came_from:
                came_from[step] = node
                waiting.append(step)
    return []


def find_cycles(facts: Facts) -> Iterator[Anomaly]:
    committed = [call for call in facts.calls if call.invoke.f in MOVES_RECORDS and facts.is_committed(call)]
    edges = {
        WW: _write_edges(facts, committed),
        WR: _read_edges(facts, committed),
        PROCESS: _process_edges(committed),
        REALTIME: _realtime_edges(committed),
    }
    reported: set[frozenset[int]] = set()
    for kind, kinds in CYCLE_KINDS:
        joined: _Graph = defaultdict(dict)
        for each in kinds:
            for source, targets in edges[each].items():
                for target in targets:
                    joined[source].setdefault(target, each)
        for component in components(joined):
            if not any(each <= frozenset(component) for each in reported):
                reported.add(frozenset(component))
                yield _anomaly(kind, facts, joined, shortest_cycle(joined, component))


def _anomaly(kind: str, facts: Facts, edges: _Graph, cycle: Sequence[int]) -> Anomaly:
    steps = [
        f"the {facts.calls[node].invoke.f} of line {facts.calls[node].line} -{edges[node][after]}->"
        for node, after in zip(cycle, [*cycle[1:], cycle[0]], strict=True)
    ]
    sentence = " ".join([*steps, f"the first ({len(cycle)} calls in a cycle)"])
    return Anomaly(kind, sentence, tuple(sorted(facts.calls[node].line for node in cycle)))


def _write_edges(facts: Facts, committed: Sequence[Call]) -> _Graph:
    numbers = {call.number for call in committed}
    found: _Graph = defaultdict(dict)
    for key, versions in facts.versions.items():
        writers = [facts.writes[key].get(versions.value_at(offset)) for offset in versions.offsets]
        for before, after in pairwise(writers):
            if before is None or after is None or before.call.number == after.call.number:
                continue
            if before.call.number in numbers and after.call.number in numbers:
                found[before.call.number][after.call.number] = WW
    return found


def _read_edges(facts: Facts, committed: Sequence[Call]) -> _Graph:
    numbers = {call.number for call in committed}
    found: _Graph = defaultdict(dict)
    for key, reads in facts.reads.items():
        for value, seen in reads.items():
            write = facts.writes[key].get(value)
            if write is None or write.call.number not in numbers:
                continue
            for read in seen:
                if read.call.number in numbers and read.call.number != write.call.number:
                    found[write.call.number][read.call.number] = WR
    return found


def _process_edges(committed: Sequence[Call]) -> _Graph:
    found: _Graph = defaultdict(dict)
    last: dict[int, int] = {}
    for call in committed:
        before = last.get(call.invoke.process)
        if before is not None:
            found[before][call.number] = PROCESS
        last[call.invoke.process] = call.number
    return found


def _realtime_edges(committed: Sequence[Call]) -> _Graph:
    """Edges from each answered call to the calls that began afterwards, without those that others imply."""
    ends: list[tuple[int, bool, Call]] = []
    for call in committed:
        ends.append((call.invoke.line, True, call))
        if call.end is not None and call.outcome != INFO:
            ends.append((call.end.line, False, call))
    found: _Graph = defaultdict(dict)
    before: dict[int, set[int]] = {}
    frontier: set[int] = set()
    for _, is_begin, call in sorted(ends, key=lambda moment: moment[0]):
        if is_begin:
            before[call.number] = set(frontier)
            for done in frontier:
                found[done][call.number] = REALTIME
        else:
            frontier -= before.pop(call.number)
            frontier.add(call.number)
    return found
