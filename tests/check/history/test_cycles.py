"""Tarjan's components against a naive twin: two nodes are in one component if each is reached from the other."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.check.history.anomalies.cycles import components, shortest_cycle

NODES = st.integers(0, 9)


def reached(edges, start):
    found, waiting = set(), [start]
    while waiting:
        for step in edges.get(waiting.pop(), {}):
            if step not in found:
                found.add(step)
                waiting.append(step)
    return found


@given(st.sets(st.tuples(NODES, NODES), max_size=30))
def test_components_are_those_of_mutual_reach(pairs):
    edges = {}
    for source, target in sorted(pairs):
        if source != target:
            edges.setdefault(source, {})[target] = "edge"
    expected = set()
    for node in range(10):
        mutual = {other for other in reached(edges, node) if node in reached(edges, other)} | {node}
        if len(mutual) > 1:
            expected.add(frozenset(mutual))
    found = list(components(edges))
    assert {frozenset(component) for component in found} == expected
    for component in found:
        way = shortest_cycle(edges, component)
        assert len(way) > 1
        assert len(set(way)) == len(way)
        assert all(after in edges[before] for before, after in zip(way, [*way[1:], way[0]], strict=True))


def test_a_long_chain_needs_no_recursion():
    edges = {node: {node + 1: "edge"} for node in range(5000)} | {5000: {0: "edge"}}
    assert len(next(iter(components(edges)))) == 5001
