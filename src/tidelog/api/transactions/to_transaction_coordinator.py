"""The way of a request to the transaction coordinator, and what older clients are told instead of newer codes."""

from collections.abc import Callable
from typing import Any

from tidelog.api.context import PENDING, Context, Pending
from tidelog.errors import ErrorCode
from tidelog.model import TRANSACTION_TOPIC


def submit(asked: Any, context: Context, finish: Callable[[Any], Any]) -> Pending:
    """The coordinator will answer; `finish` makes a response of its answer."""
    topic = context.broker.image.topics.get(TRANSACTION_TOPIC)
    partitions = 0 if topic is None else len(topic.partitions)
    context.effects.extend(context.broker.transactions.handle(context.token, asked, partitions, context.now, finish))
    return PENDING


def fencing(code: ErrorCode, version: int, since: int) -> ErrorCode:
    """Clients learned of PRODUCER_FENCED in version `since` of the API."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code == ErrorCode.PRODUCER_FENCED and version < since else code
