"""The way of a request to the group coordinator, and of its answer back to the form of the request's version."""

from collections.abc import Callable
from typing import Any

from tidelog.api.context import PENDING, Context, Pending
from tidelog.coordinator.group import Caller
from tidelog.effects import Reply
from tidelog.model import GROUP_TOPIC


def submit(request: Any, context: Context, finish: Callable[[Any], Any] | None = None) -> Pending:
    """The coordinator will answer; `finish` makes the answer ready for the client's version."""
    groups = context.broker.groups
    context.effects.extend(groups.handle(context.token, request, caller(context), context.now, finish))
    return PENDING


def ask(request: Any, context: Context) -> Any:
    """As `submit`, for what the coordinator mostly answers at once: such an answer takes no place among those that
    are waited for."""
    wishes = context.broker.groups.handle(context.token, request, caller(context), context.now)
    if len(wishes) == 1 and isinstance(wishes[0], Reply) and wishes[0].token == context.token:
        return wishes[0].response
    context.effects.extend(wishes)
    return PENDING


def caller(context: Context) -> Caller:
    """Hosts are shown as Java prints an address."""
    topic = context.broker.image.topics.get(GROUP_TOPIC)
    return Caller(
        client_id=context.client_id or "",
        client_host=f"/{context.peer}",
        version=context.version,
        partitions=0 if topic is None else len(topic.partitions),
    )
