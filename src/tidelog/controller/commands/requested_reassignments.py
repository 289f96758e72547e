"""Moves that `/admin/reassign_partitions` asks for begin (see `reassignment_node`)."""

from tidelog.controller.commands.reassignment import carry_out, find, planned_move
from tidelog.controller.commands.reassignment_node import keep_requests, read_requests
from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.journal import Steps
from tidelog.controller.moves import Move
from tidelog.controller.tree import RequestedReplicas
from tidelog.errors import ApiError


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
            term.tell("reassignment.refused", "warning", **fields)
            continue
        if move is not None and (move.adding or move.removing):
            left.append(requested)
        elif move is None and partition.is_moving:
            left.append(requested)  # it is on its way
        if move is not None:
            moves.append(move)
    yield from carry_out(term, moves, "reassignment")
    yield from keep_requests(term, node, requests, left)
