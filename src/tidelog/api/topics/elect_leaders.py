"""ElectLeaders (43): preferred or unclean elections on request (KIP-183, KIP-460)."""

from tidelog.api.cluster.to_controller import submit
from tidelog.api.context import Context, Pending
from tidelog.wire.messages.topics.elect_leaders import ElectLeadersRequest


def handle(request: ElectLeadersRequest, context: Context) -> Pending:
    return submit(request, context)
