"""Heartbeat (key 12)."""

from typing import Any

from tidelog.api.context import Context
from tidelog.api.groups.to_group_coordinator import ask
from tidelog.wire.messages.groups.heartbeat import HeartbeatRequest


def handle(request: HeartbeatRequest, context: Context) -> Any:
    return ask(request, context)
