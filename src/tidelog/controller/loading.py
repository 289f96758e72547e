"""The image from the tree: what a new controller reads before it decides anything, and again after a conflict."""

from collections.abc import Sequence
from typing import Any

from tidelog.controller import tree
from tidelog.controller.commands.config_changes import load_configs
from tidelog.controller.commands.deletion import Deletions
from tidelog.controller.commands.elections import LogEnds, elect_as_written, elect_where_due
from tidelog.controller.commands.features import keep_min_insync, load_features
from tidelog.controller.commands.liveness import adopt, notice_log_folders, push_all_roles, read_brokers
from tidelog.controller.commands.reassignment import begin_requested
from tidelog.controller.commands.topics import complete
from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.journal import Slices, Steps, read_all, read_each
from tidelog.controller.state import Topic
from tidelog.ports import Children, Delete, Node, Read, Watch

PLACES_A_COUNT = 50
"""Assigned partitions that are listed in the time of one item of a slice."""

WATCHED = (
    tree.BROKER_IDS,
    tree.LOG_DIR_EVENTS,
    tree.CONFIG_CHANGES,
    tree.REASSIGN_PARTITIONS,
    tree.PREFERRED_ELECTION,
    tree.DELETE_TOPICS,
)


def load(term: ControllerTerm, logs: LogEnds, deletions: Deletions) -> Steps[None]:
    """Read everything, finish what an earlier controller left incomplete, elect where due, and push to all brokers."""
    yield [Watch(path) for path in WATCHED]
    cluster = term.cluster
    cluster.topics.clear()
    cluster.topic_ids.clear()
    deletions.clear()
    logs.wanted.clear()
    logs.known.clear()
    logs.lacking.clear()
    (cluster_id,) = yield [Read(tree.CLUSTER_ID)]
    cluster.cluster_id = tree.parse_cluster_id(cluster_id.data) if cluster_id else ""
    yield from load_features(term)
    brokers = yield from read_brokers(term)
    yield from load_configs(term)
    yield from _load_tokens(term)
    marked, missing, made = yield from _load_topics(term)
    term.pushes.queues.clear()
    adopt(term, brokers)
    yield from _report_gone(term)
    for topic in marked:
        yield from deletions.begin(term, topic)
    yield from complete(term, missing, made)
    yield from _drop_stray_marks({topic.name for topic in marked})
    yield from keep_min_insync(term)
    yield from notice_log_folders(term)
    yield from elect_where_due(term, logs, list(cluster.partitions()), "new controller")
    yield from begin_requested(term)
    yield from elect_as_written(term, logs)
    term.arrived = {partition: None for partition in cluster.partitions() if partition.is_moving}
    yield from push_all_roles(term, list(cluster.partitions()))
    term.loaded = True
    term.report(
        "controller.loaded",
        epoch=term.epoch,
        brokers=sorted(cluster.brokers),
        topics=len(cluster.topics),
        partitions=sum(len(topic.partitions) for topic in cluster.topics.values()),
    )


def _report_gone(term: ControllerTerm) -> Steps[None]:
    """Report dead brokers that are still in in-sync sets: the controller that would have reported them may have died
    with them."""
    counted: dict[int, int] = {}
    slices = Slices()
    for partition in list(term.cluster.partitions()):
        yield from slices.count()
        counted.update(partition.state.recorded)
    for broker in sorted(counted.keys() - term.cluster.brokers.keys()):
        term.report("broker.gone", broker=broker, epoch=counted[broker])


def _load_topics(term: ControllerTerm) -> Steps[tuple[list[Topic], dict[str, list[int]], list[str]]]:
    """Topics with the states there are; those marked for deletion; partitions without a state, and the nodes that they
    have nevertheless."""
    topics, marks = yield [Children(tree.TOPICS), Children(tree.DELETE_TOPICS)]
    nodes: dict[str, Node] = {}
    children_of: dict[str, Sequence[str]] = {}

    def read(name: str, node: Any) -> None:
        if isinstance(node, Node):
            nodes[name] = node

    def listed(name: str, children: Any) -> None:
        node = nodes.pop(name, None)
        if node is not None and (assignment := _assignment(term, name, node.data)) is not None:
            term.cluster.add_topic(Topic(name, assignment, node.version))
            children_of[name] = children or ()

    yield from read_each(topics, lambda name: Read(tree.topic_path(name)), read)
    yield from read_each(topics, lambda name: Children(tree.partitions_path(name)), listed)
    missing = yield from _load_states(term)
    made = [
        tree.partition_path(name, index)
        for name, indexes in missing.items()
        for index in {int(child) for child in children_of[name] if child.isdigit()}.intersection(indexes)
    ]
    return [term.cluster.topics[name] for name in marks if name in term.cluster.topics], missing, made


def _assignment(term: ControllerTerm, name: str, data: bytes) -> tree.Assignment | None:
    """None if the node is malformed: the topic counts as missing."""
    try:
        return tree.parse_assignment(data)
    except tree.UNREADABLE as error:
        term.report("topic.unreadable", "warning", topic=name, reason=f"{type(error).__name__}: {error}")
        return None


def _load_states(term: ControllerTerm) -> Steps[dict[str, list[int]]]:
    wanted = [(topic, index) for topic in term.cluster.topics.values() for index in topic.assignment.replicas]
    yield from Slices().count(len(wanted) // PLACES_A_COUNT)
    missing: dict[str, list[int]] = {}

    def take(place: tuple[Topic, int], node: Any) -> None:
        topic, index = place
        if node is None:
            missing.setdefault(topic.name, []).append(index)
            return
        partition = topic.partitions[index] = topic.add(index)
        partition.commit(tree.parse_state(node.data), node.version)

    yield from read_each(wanted, lambda place: Read(tree.state_path(place[0].name, place[1])), take)
    return missing


def _load_tokens(term: ControllerTerm) -> Steps[None]:
    cluster = term.cluster
    if not cluster.tokens.is_enabled:
        return
    cluster.tokens.clear()
    cluster.token_versions.clear()
    root, ids, changes = yield [
        Read(tree.DELEGATION_TOKEN),
        Children(tree.DELEGATION_TOKENS),
        Children(tree.DELEGATION_TOKEN_CHANGES),
    ]
    above = {tree.DELEGATION_TOKEN: root, tree.DELEGATION_TOKENS: ids, tree.DELEGATION_TOKEN_CHANGES: changes}
    cluster.missing_token_nodes = [path for path, found in above.items() if found is None]
    cluster.token_changes = tree.change_numbers(changes or ())
    nodes = yield from read_all([Read(tree.delegation_token_path(token_id)) for token_id in ids or ()])
    for token_id, node in zip(ids or (), nodes, strict=True):
        token = tree.readable_token(token_id, node.data) if node is not None else None
        if token is not None:
            cluster.tokens.put(token)
            cluster.token_versions[token_id] = node.version


def _drop_stray_marks(known: set[str]) -> Steps[None]:
    """A mark for a topic that does not exist has nothing to wait for."""
    (marks,) = yield [Children(tree.DELETE_TOPICS)]
    yield [Delete(tree.delete_path(name)) for name in marks if name not in known]
