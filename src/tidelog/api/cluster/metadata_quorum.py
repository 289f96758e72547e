"""The requests of the metadata quorum, which its member on this node answers: Vote (52), BeginQuorumEpoch (53),
EndQuorumEpoch (54), Fetch (1) of the metadata log, MetadataWrite (10001). Served on the listeners of controllers only.
"""

from typing import Any

from tidelog.api.context import PENDING, Context, Pending


def submit(request: Any, context: Context) -> Pending:
    quorum = context.broker.quorum
    assert quorum is not None, "listeners of controllers are opened with a quorum only"
    quorum.request(context.token, request, context.now)
    return PENDING
