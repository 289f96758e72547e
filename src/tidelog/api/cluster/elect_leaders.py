"""ElectLeaders (43): preferred or unclean elections on request (KIP-183, KIP-460)."""

from tidelog.api.cluster.hand_over import hand_over
from tidelog.api.context import Context, Handed
from tidelog.wire.messages.topics.elect_leaders import ElectLeadersRequest


def handle(request: ElectLeadersRequest, context: Context) -> Handed:
    return hand_over(request, context)
