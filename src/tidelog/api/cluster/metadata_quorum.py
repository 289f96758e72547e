"""The requests of the metadata quorum, which its member on this node answers: Vote (52), BeginQuorumEpoch (53),
EndQuorumEpoch (54), Fetch (1) of the metadata log, DescribeQuorum (55), AddRaftVoter (80), RemoveRaftVoter (81),
UpdateRaftVoter (82), MetadataWrite (10001). Served on the listeners of controllers; brokers take those of
administrators (55, 80, 81), too.
"""

from typing import Any

from tidelog.api.context import PENDING, Context, Pending


def submit(request: Any, context: Context) -> Pending:
    quorum = context.broker.quorum
    assert quorum is not None, "listeners of controllers are opened with a quorum only"
    quorum.request(context.token, request, context.now)
    return PENDING


def forward(request: Any, context: Context) -> Pending:
    """Give a request of an administrator to the leader of the quorum, which is the controller. What another broker
    forwarded is never forwarded again."""
    broker = context.broker
    if broker.controller.leading or context.from_broker:
        return submit(request, context)
    return broker.forward(context, request)
