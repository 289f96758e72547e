"""Moves that `/admin/reassign_partitions` asks for begin (see `wishes`)."""

from tidelog.controller.commands.reassignment import carry_out, find, wished
from tidelog.controller.commands.reassignment_requests import keep_requests, read_requests
from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.journal import Steps
from tidelog.controller.moves import Move
from tidelog.controller.tree import RequestedReplicas
from tidelog.errors import ApiError


def begin_requested(term: ControllerTerm) -> Steps[None]:
    """The node came, changed or went, or another controller leads."""
    wishes, node = yield from read_requests(term)
    if node is None:
        return
    moves: list[Move] = []
    left: list[RequestedReplicas] = []
    for wish in {(wish.topic, wish.partition): wish for wish in wishes}.values():
        try:
            partition = find(term, wish.topic, wish.partition)
            move = wished(term, partition, wish.replicas)
        except ApiError as error:
            fields = {"topic": wish.topic, "partition": wish.partition, "reason": error.message}
            term.tell("reassignment.refused", "warning", **fields)
            continue
        if move is not None and (move.adding or move.removing):
            left.append(wish)
        elif move is None and partition.is_moving:
            left.append(wish)  # it is on its way
        if move is not None:
            moves.append(move)
    yield from carry_out(term, moves, "reassignment")
    yield from keep_requests(term, node, wishes, left)
