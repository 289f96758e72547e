"""Reassignments (KIP-455): partitions that move to other brokers, by request or by `/admin/reassign_partitions`.

All of the state of a move is in the tree: the topic's node names what is added and removed. A step is one multi of the
topic's node and its partitions' states, so that a controller that dies leaves one step or the next.
`ControllerTerm.arrived` names the moves that may have come to their end, `finish_moves` ends them. A topic marked for
deletion may end its moves, not begin one.

Operators of a ZooKeeper tree start reassignments without a request to a broker: `/admin/reassign_partitions` names
partitions and their target replicas. Moves begin when it appears; an entry is removed when its move is over, was
refused, or was replaced or cancelled by a request; the node is removed with the last entry.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from tidelog.controller import tree
from tidelog.controller.commands.deletion import Deletions
from tidelog.controller.commands.elections import LogEnds, elect_where_due, report_unclean
from tidelog.controller.commands.throttling import release
from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.journal import CHUNK, Slices, Steps, chunks
from tidelog.controller.moves import Move, begun, ended, reverted, reverted_uncleanly
from tidelog.controller.placement import check_assignment
from tidelog.controller.state import Partition, Topic
from tidelog.controller.tree import Assignment, RequestedReplicas
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import NO_LEADER
from tidelog.ports import Change, Delete, Node, Read, Write
from tidelog.wire.messages.topics.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def alter_reassignments(
    term: ControllerTerm, logs: LogEnds, deletions: Deletions, request: AlterPartitionReassignmentsRequest
) -> Steps[AlterPartitionReassignmentsResponse]:
    """Begin, replace and cancel moves, each partition for itself."""
    moves: dict[Partition, Move] = {}
    response = AlterPartitionReassignmentsResponse()
    response.allow_replication_factor_change = request.allow_replication_factor_change
    named: dict[Partition, None] = {}
    wanted: dict[Partition, tuple[int, ...]] = {}
    for topic in request.topics:
        answers = []
        for requested in topic.partitions:
            answer = ReassignablePartitionResponse(partition_index=requested.partition_index, error_message=None)
            answers.append(answer)
            try:
                partition = find(term, topic.name, requested.partition_index)
                named[partition] = None
                if requested.replicas is None:
                    moves[partition] = _cancelled(term, partition)
                    continue
                move = planned_move(term, partition, requested.replicas, free=request.allow_replication_factor_change)
                wanted[partition] = partition.replicas
                if move is not None:
                    moves[partition] = move
            except ApiError as error:
                answer.error_code, answer.error_message = error.code, error.message
        response.responses.append(ReassignableTopicResponse(name=topic.name, partitions=answers))
    yield from forget_requests(term, named)
    yield from carry_out(term, list(moves.values()), "reassignment")
    yield from release(term, {p: replicas for p, replicas in wanted.items() if not p.is_moving})
    yield from deletions.moved(term)
    leaderless = [p for p in moves if p.state.leader == NO_LEADER and not p.deleted]
    yield from elect_where_due(term, logs, leaderless, "reassignment")
    return response


def find(term: ControllerTerm, topic: str, index: int) -> Partition:
    found = term.cluster.topics.get(topic)
    if found is None or found.deleted:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {topic}.")
    if index not in found.partitions:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic}:{index}.")
    return found.partitions[index]


def _cancelled(term: ControllerTerm, partition: Partition) -> Move:
    if not partition.is_moving:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    move = reverted(partition, term.cluster.lives, term.min_in_sync(partition))
    if move is None and term.topic_config(partition.topic.name).unclean_leader_election_enable:
        move = reverted_uncleanly(partition, term.cluster.lives)
        if move is not None:
            report_unclean(term, partition, move.state.leader)
    if move is None:
        raise _invalid(f"Going back with {partition.topic.name}:{partition.index} takes an unclean leader election.")
    return move


def planned_move(
    term: ControllerTerm, partition: Partition, target: Sequence[int], *, free: bool = True
) -> Move | None:
    """The beginning of the move, or None if the partition already has these replicas. Without `free` it must keep its
    number of replicas."""
    if partition.topic.marked:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {partition.topic.name} is marked for deletion.")
    check_assignment(target, term.cluster.brokers, None)
    if not free and len(target) != len(partition.origin):
        message = f"The replication factor is changed from {len(partition.origin)} to {len(target)}"
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if partition.target == tuple(target):
        return None
    move = begun(partition, target, term.cluster.lives, term.min_in_sync(partition))
    if move is None:
        raise _invalid(f"None of the replicas that {partition.topic.name}:{partition.index} would keep is in sync.")
    return move


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


class Step(NamedTuple):
    """The changes of one topic in one multi: its node, and the states of some partitions."""

    topic: Topic
    moves: Sequence[Move]

    def changes(self, term: ControllerTerm) -> list[Change]:
        states = [(move.partition, move.state._replace(controller_epoch=term.epoch)) for move in self.moves]
        return [
            Write(tree.topic_path(self.topic.name), tree.format_assignment(self.assignment), self.topic.version),
            *(Write(tree.state_path(*p.name), tree.format_state(state), p.version) for p, state in states),
        ]

    @property
    def assignment(self) -> Assignment:
        old = self.topic.assignment
        replicas, adding, removing = dict(old.replicas), dict(old.adding), dict(old.removing)
        for move in self.moves:
            index = move.partition.index
            replicas[index] = move.replicas
            for named, moved in ((adding, move.adding), (removing, move.removing)):
                named.pop(index, None)
                if moved:
                    named[index] = moved
        return Assignment(old.topic_id, replicas, adding, removing)


def carry_out(term: ControllerTerm, moves: Sequence[Move], why: str) -> Steps[None]:
    """Write as many steps into one multi as fit, and push the changes once they are committed."""
    of: dict[Topic, list[Move]] = {}
    for move in moves:
        of.setdefault(move.partition.topic, []).append(move)
    longest = max(map(len, of.values()), default=0)
    most = CHUNK - 1
    for start in range(0, longest, most):  # one step of a topic at a time: each writes over the node of the one before
        for steps in _together(Step(topic, own[start : start + most]) for topic, own in of.items() if own[start:]):
            changes = [step.changes(term) for step in steps]
            nodes = list((yield [change for several in changes for change in several]))
            for step in steps:
                _adopt(term, step, nodes[: len(step.moves) + 1], why)
                del nodes[: len(step.moves) + 1]


def _together(steps: Iterable[Step]) -> list[list[Step]]:
    packed: list[list[Step]] = []
    room = 0
    for step in steps:
        size = len(step.moves) + 1
        if size > room:
            packed.append([])
            room = CHUNK
        packed[-1].append(step)
        room -= size
    return packed


def _adopt(term: ControllerTerm, step: Step, nodes: Sequence[Node], why: str) -> None:
    topic, pushes = step.topic, term.pushes
    topic.assignment = step.assignment
    topic.version = nodes[0].version
    for move, node in zip(step.moves, nodes[1:], strict=True):
        partition, dropped = move.partition, move.dropped
        state = move.state._replace(controller_epoch=term.epoch)
        term.report_change(partition, state, why, "debug")
        partition.reassign(move.replicas, move.adding, move.removing)
        partition.commit(state, node.version)
        for broker in dropped:
            pushes.push_removal(broker, partition)
        if partition.is_moving:
            term.arrived[partition] = None
    _report_moves(term, step, why)
    pushes.push_roles(move.partition for move in step.moves)
    pushes.push_metadata(move.partition for move in step.moves)


def _report_moves(term: ControllerTerm, step: Step, why: str) -> None:
    for few in chunks(step.moves, 20):
        moved = {
            str(move.partition.index): {
                "replicas": list(move.replicas),
                "adding": list(move.adding),
                "removing": list(move.removing),
            }
            for move in few
        }
        term.report("partitions.reassigned", topic=step.topic.name, why=why, partitions=moved)


def finish_moves(term: ControllerTerm, deletions: Deletions) -> Steps[None]:
    """End the moves whose whole target is in sync."""
    arrived, term.arrived = term.arrived, {}
    current, lives = term.cluster.current(arrived), term.cluster.lives
    moves = [move for p in current if (move := ended(p, lives, term.min_in_sync(p))) is not None]
    if not moves:
        return
    replicas = {move.partition: move.partition.replicas for move in moves}
    yield from carry_out(term, moves, "reassigned")
    yield from forget_requests(term, replicas)
    yield from release(term, replicas)
    yield from deletions.moved(term)


def list_reassignments(
    term: ControllerTerm, request: ListPartitionReassignmentsRequest
) -> Steps[ListPartitionReassignmentsResponse]:
    topics = term.cluster.topics
    wanted = (
        [(topic, sorted(topic.partitions)) for topic in topics.values() if topic.is_moving]
        if request.topics is None
        else [
            (topics[requested.name], requested.partition_indexes)
            for requested in request.topics
            if requested.name in topics
        ]
    )
    slices = Slices()
    found = []
    for topic, indexes in wanted:
        ongoing: list[OngoingPartitionReassignment] = []
        found.append((topic.name, ongoing))
        for index in indexes:
            if _moves(topic, index):
                ongoing.append(_ongoing(topic.partitions[index]))
            yield from slices.count()
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[OngoingTopicReassignment(name=name, partitions=ongoing) for name, ongoing in found if ongoing],
    )


def _moves(topic: Topic, index: int) -> bool:
    return index in topic.partitions and topic.partitions[index].is_moving


def _ongoing(partition: Partition) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=partition.index,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding),
        removing_replicas=list(partition.removing),
    )


def begin_requested(term: ControllerTerm) -> Steps[None]:
    """The node came, changed or went, or another controller leads."""
    requests, node = yield from read_requests(term)
    if node is None:
        return
    moves: list[Move] = []
    left: list[RequestedReplicas] = []
    for requested in {(requested.topic, requested.partition): requested for requested in requests}.values():
        try:
            partition = find(term, requested.topic, requested.partition)
            move = planned_move(term, partition, requested.replicas)
        except ApiError as error:
            fields = {"topic": requested.topic, "partition": requested.partition, "reason": error.message}
            term.report("reassignment.refused", "warning", **fields)
            continue
        if move is not None and (move.adding or move.removing):
            left.append(requested)
        elif move is None and partition.is_moving:
            left.append(requested)  # it is on its way
        if move is not None:
            moves.append(move)
    yield from carry_out(term, moves, "reassignment")
    yield from keep_requests(term, node, requests, left)


def read_requests(term: ControllerTerm) -> Steps[tuple[list[RequestedReplicas], Node | None]]:
    """The entries of the node; none if it is missing or malformed."""
    (node,) = yield [Read(tree.REASSIGN_PARTITIONS)]
    term.has_requests = node is not None
    if node is None:
        return [], None
    try:
        return tree.parse_reassignment(node.data), node
    except (ValueError, TypeError, KeyError) as error:
        term.report("reassignment.unreadable", "warning", reason=f"{type(error).__name__}: {error}")
        return [], node


def forget_requests(term: ControllerTerm, partitions: Collection[Partition]) -> Steps[None]:
    """Remove the entries of these partitions from the node."""
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
