"""Requests that the controller answers: handed to it here, or forwarded to where it is.

Seven APIs are handed over as they are, so `submit` is their handler in `registry.py`; others check something first.
"""

from typing import Any

from tidelog.api.context import PENDING, Context, Pending
from tidelog.effects import CONTROLLER, UNATTENDED, PeerRequest


def submit(request: Any, context: Context) -> Pending:
    """Give the request to the controller. A forwarded request is refused if the controller is not here, never forwarded
    again: its sender retries with newer metadata."""
    broker = context.broker
    if not broker.controller.leading and not context.from_broker:
        return broker.forward(context, request)
    context.effects.extend(broker.controller.handle(context.token, request, context.now))
    return PENDING


def send(request: Any, context: Context) -> None:
    """Send a request to the controller and ignore its answer."""
    context.effects.append(PeerRequest(CONTROLLER, request, UNATTENDED, 0))
