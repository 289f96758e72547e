"""Requests that the controller answers: handed to it here, or forwarded to where it is.

Seven APIs are handed over as they are, so `submit` is their handler in `registry.py`; others check something first.
"""

from typing import Any

from tidelog.api.context import PENDING, Context, Pending
from tidelog.effects import CONTROLLER, UNATTENDED, PeerRequest


def submit(request: Any, context: Context) -> Pending:
    """Give the request to the controller. One that was forwarded here and finds none is refused, not sent on: its
    sender asks again, by then with newer knowledge."""
    broker = context.broker
    if not broker.controller.leading and context.listener != broker.inter_broker_listener:
        return broker.forward(context, request)
    context.effects.extend(broker.controller.handle(context.token, request, context.now))
    return PENDING


def send(request: Any, context: Context) -> None:
    """Ask the controller for something and do not wait for the answer."""
    context.effects.append(PeerRequest(CONTROLLER, request, UNATTENDED, 0))
