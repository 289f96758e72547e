"""A controller that knows many partitions and ACLs, and the requests of a few bytes that concern all of them; and what
happens to a cluster with many partitions.

    .venv/bin/python -m tests.controller.large_commands [ENTRIES]

prints the longest input of each, as processor time of this machine.
"""

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.controller.fake_cluster import FakeCluster
from tests.shell.killed_with_acls import ANYTHING
from tidelog.controller import acl_tree, tree
from tidelog.controller.controller import Controller
from tidelog.controller.state import Topic
from tidelog.controller.tree import Assignment, LeadershipState
from tidelog.ports import Node
from tidelog.security.acls import Acl, AclOperation, PatternType, Permission, ResourcePattern, ResourceType
from tidelog.sim.store import Staged
from tidelog.wire.messages.security.acls import DeleteAclsFilter, DeleteAclsRequest, DescribeAclsRequest
from tidelog.wire.messages.topics.reassignments import ElectLeadersRequest, ListPartitionReassignmentsRequest
from tidelog.wire.messages.topics.topic_changes import DeleteTopicsRequest, DeleteTopicState

INPUTS = ("handle", "store_result", "store_event", "answered", "wake")
DEAD = 9
ACLS_OF_A_RESOURCE = 5
MOST_ACLS = 10_000
"""The simulator's tree takes long to delete many nodes."""


def filled(entries: int) -> FakeCluster:
    """One topic with so many partitions, which move from a dead broker; so many ACLs."""
    cluster = FakeCluster(brokers=1).start()
    replicas = (DEAD, 0)
    everywhere = dict.fromkeys(range(entries), replicas)
    adding = dict.fromkeys(range(entries), (0,))
    topic = Topic("large", Assignment(b"large-topic-id..", everywhere, adding, {}), 0)
    for index in range(entries):
        partition = topic.partitions[index] = topic.add(index)
        partition.commit(LeadershipState(0, 1, (0,), (cluster.brokers[0].epoch,)), 0)
    cluster.state.add_topic(topic)
    for path in acl_tree.skeleton():
        cluster.tree.nodes[path] = Node(b"", 0, 1)
    rules = [Acl(f"User:{each}", "*", AclOperation.READ, Permission.ALLOW) for each in range(ACLS_OF_A_RESOURCE)]
    data = acl_tree.format_acls(rules)
    for number in range(min(entries, MOST_ACLS) // ACLS_OF_A_RESOURCE):
        pattern = ResourcePattern(ResourceType.TOPIC, f"t{number}", PatternType.LITERAL)
        cluster.tree.nodes[acl_tree.pattern_path(pattern)] = Node(data, 0, 1)
    return cluster


REQUESTS: dict[str, Any] = {
    "elections": ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=60_000),
    "reassignments": ListPartitionReassignmentsRequest(topics=None, timeout_ms=60_000),
    "described ACLs": DescribeAclsRequest(**ANYTHING),
    "deleted ACLs": DeleteAclsRequest(filters=[DeleteAclsFilter(**ANYTHING)]),
}
"""The last one changes the tree, and comes last."""


def written(entries: int, topics: int = 1) -> FakeCluster:
    """Three brokers, and as many partitions in their tree as a new controller finds there."""
    cluster = FakeCluster(brokers=3, num_partitions=1).start()
    epochs = tuple(broker.epoch for broker in cluster.brokers.values())
    state = tree.format_state(LeadershipState(0, 1, (0, 1, 2), epochs))
    replicas = dict.fromkeys(range(entries // topics), (0, 1, 2))
    nodes = {}
    for number in range(topics):
        name = f"t{number}"
        topic = tree.format_assignment(Assignment((number + 1).to_bytes(16), replicas, {}, {}))
        nodes |= {tree.topic_path(name): topic, tree.partitions_path(name): b""}
        for index in replicas:
            nodes |= {tree.partition_path(name, index): b"", tree.state_path(name, index): state}
    cluster.tree.nodes |= {path: Node(data, 0, 1) for path, data in nodes.items()}
    # The ghost and the tree would look at all of them in every step.
    cluster.ghost.look = lambda _lives: None
    names: dict[str, list[str]] = {tree.TOPICS: []}
    for path in nodes:
        above, _, name = path.rpartition("/")
        names.setdefault(above, []).append(name)
    plain = cluster.tree.children
    cluster.tree.children = lambda path: tuple(names[path]) if path in names else plain(path)
    return cluster


def _delete_all(cluster: FakeCluster) -> None:
    topics = [DeleteTopicState(name=name) for name in cluster.state.topics]
    cluster.submit(DeleteTopicsRequest(topics=topics, timeout_ms=60_000))


EVENTS: dict[str, Callable[[FakeCluster], Any]] = {
    "a new controller": lambda cluster: cluster.leader.kill(),
    "a broker dies": lambda cluster: next(
        b for b in cluster.brokers.values() if b.alive and b != cluster.leader
    ).kill(),
    "brokers return": lambda cluster: [b.start() for b in cluster.brokers.values() if not b.alive],
    "preferred leaders": lambda cluster: cluster.advance(10**6),
    "all topics are deleted": _delete_all,
}
"""In this order, in one cluster."""


def consequences(cluster: FakeCluster, name: str, begin: Callable[[], Callable[[], int]]) -> list[int]:
    """What each input of the controllers costs from this event until nothing moves."""
    found: list[int] = []
    has_children = Staged.has_children
    Staged.has_children = lambda *_: False  # as above
    try:
        with _measured(found, begin):
            EVENTS[name](cluster)
            cluster.settle(limit=10**6)
    finally:
        Staged.has_children = has_children
    return found


def costs(cluster: FakeCluster, name: str, begin: Callable[[], Callable[[], int]]) -> tuple[list[int], Any]:
    """What each input of the controller cost, and the answer. `begin` starts to measure one and returns what ends it."""
    found: list[int] = []
    with _measured(found, begin):
        answer = cluster.ask(REQUESTS[name])
    return found, answer


@contextmanager
def _measured(found: list[int], begin: Callable[[], Callable[[], int]]) -> Iterator[None]:
    plain = {name: getattr(Controller, name) for name in INPUTS}

    def measured(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            end = begin()
            try:
                return function(*arguments)
            finally:
                found.append(end())

        return run

    for name, function in plain.items():
        setattr(Controller, name, measured(function))
    try:
        yield
    finally:
        for name, function in plain.items():
            setattr(Controller, name, function)


def nanoseconds() -> Callable[[], int]:
    begun = time.thread_time_ns()
    return lambda: time.thread_time_ns() - begun


def main(entries: int = 100_000) -> None:
    cluster = filled(entries)
    gc.disable()  # as in a broker
    for name in REQUESTS:
        found, _ = costs(cluster, name, nanoseconds)
        show(name, found)
    for topics in (1, entries):
        cluster = written(entries, topics)
        for name in EVENTS:
            show(f"{name}, {topics} topics", consequences(cluster, name, nanoseconds))


def show(name: str, found: list[int]) -> None:
    sys.stdout.write(f"{name:40} {max(found) / 1e6:6.1f} ms longest of {len(found)}, {sum(found) / 1e6:7.1f} ms\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
