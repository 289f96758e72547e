"""Topics created, grown and deleted within the quota of the client (KIP-599).

Newer versions refuse, topic by topic, what is beyond the quota, with THROTTLING_QUOTA_EXCEEDED; for older ones all is
done and the client is made to wait. Counted is by the broker that was asked, as it knows its clients.
"""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, NamedTuple

from tidelog.api.cluster.to_controller import submit
from tidelog.api.context import Context, Pending
from tidelog.controller.refusals import refuse
from tidelog.errors import ErrorCode


class Mutation(NamedTuple):
    """One API: where its wishes and its results stand, what a wish costs, and since which version it refuses."""

    wishes: str
    results: str
    cost: Callable[[Any, Context], int]
    strict_since: int


def hand_over_within_quota(request: Any, context: Context, mutation: Mutation) -> Any | Pending:
    """Hand what is within the quota to the controller; the rest is refused in the same answer."""
    bill = context.bill
    if bill is None or getattr(request, "validate_only", False):
        return submit(request, context)
    wishes: Sequence[Any] = getattr(request, mutation.wishes)
    fine: list[Any] = []
    refused: list[Any] = []
    for wish in wishes:
        cost = mutation.cost(wish, context)
        within, wait_ms = context.broker.quotas.mutate(
            bill.user,
            bill.client_id,
            cost,
            context.now.mono,
            strict=context.version >= mutation.strict_since,
        )
        (fine if within or cost == 0 else refused).append(wish)
        bill.throttle_ms = max(bill.throttle_ms, wait_ms)
    if not refused:
        return submit(request, context)
    refusal = refuse(_with(request, mutation, refused), ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The quota is exceeded.")
    if not fine:
        return refusal
    bill.finish = lambda response: getattr(response, mutation.results).extend(getattr(refusal, mutation.results))
    return submit(_with(request, mutation, fine), context)


def _with(request: Any, mutation: Mutation, wishes: list[Any]) -> Any:
    changed = copy(request)
    setattr(changed, mutation.wishes, wishes)
    return changed


def partitions_of(topic: str | None, topic_id: bytes, context: Context) -> int:
    """How many partitions a topic has that this broker was told of."""
    image = context.broker.image
    known = image.topics.get(topic or image.topic_names.get(topic_id, ""))
    return len(known.partitions) if known is not None else 0
