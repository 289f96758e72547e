"""Heartbeat (key 12)."""

from tidelog.api.context import Context, Handed
from tidelog.api.groups.handing import hand_over
from tidelog.wire.messages.groups.heartbeat import HeartbeatRequest


def handle(request: HeartbeatRequest, context: Context) -> Handed:
    return hand_over(request, context)
