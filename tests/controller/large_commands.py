"""A controller that knows many partitions and ACLs, and the requests of a few bytes that concern all of them.

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
from tidelog.controller import acl_tree
from tidelog.controller.controller import Controller
from tidelog.controller.state import Topic
from tidelog.controller.tree import Assignment, LeadershipState
from tidelog.ports import Node
from tidelog.security.acls import Acl, AclOperation, PatternType, Permission, ResourcePattern, ResourceType
from tidelog.wire.messages.security.acls import DeleteAclsFilter, DeleteAclsRequest, DescribeAclsRequest
from tidelog.wire.messages.topics.reassignments import ElectLeadersRequest, ListPartitionReassignmentsRequest

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
        sys.stdout.write(f"{name:28} {max(found) / 1e6:6.1f} ms longest of {len(found)}, {sum(found) / 1e6:7.1f} ms\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
