"""`/admin/reassign_partitions`, by which operators of a ZooKeeper tree start reassignments without asking a broker.

The node names partitions and the replicas they are to have. Moves begin when it appears; an entry goes when its move is
over, was refused, or was replaced or cancelled by a request; the node goes with the last entry.
"""

from collections.abc import Collection, Sequence

from tidelog.controller import tree
from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.journal import Steps
from tidelog.controller.state import Partition
from tidelog.controller.tree import RequestedReplicas
from tidelog.ports import Change, Delete, Node, Read, Write


def read_requests(term: ControllerTerm) -> Steps[tuple[list[RequestedReplicas], Node | None]]:
    """What the node asks for; none where it is missing or is not of Kafka's form."""
    (node,) = yield [Read(tree.REASSIGN_PARTITIONS)]
    term.has_requests = node is not None
    if node is None:
        return [], None
    try:
        return tree.parse_reassignment(node.data), node
    except (ValueError, TypeError, KeyError) as error:
        term.tell("reassignment.unreadable", "warning", reason=f"{type(error).__name__}: {error}")
        return [], node


def forget_requests(term: ControllerTerm, partitions: Collection[Partition]) -> Steps[None]:
    """These partitions are over with, as far as the node is concerned."""
    if not term.has_requests:
        return
    over = {partition.name for partition in partitions}
    requests, node = yield from read_requests(term)
    if node is not None:
        yield from keep_requests(
            term,
            node,
            requests,
            [requested for requested in requests if (requested.topic, requested.partition) not in over],
        )


def keep_requests(
    term: ControllerTerm, node: Node, before: Sequence[RequestedReplicas], left: Sequence[RequestedReplicas]
) -> Steps[None]:
    if left and len(left) == len(before):
        return
    path = tree.REASSIGN_PARTITIONS
    change: Change = Write(path, tree.format_reassignment(left), node.version) if left else Delete(path, node.version)
    yield [change]
    term.has_requests = bool(left)
