"""The times that a consumer group works by."""

from typing import NamedTuple

from tidelog.coordinator.group.machine import GroupMachine


class Settings(NamedTuple):
    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def settings(machine: GroupMachine, group_id: str) -> Settings:
    """The group's own options, or the broker's of the same meaning."""
    config = machine.group_config(group_id)
    return Settings(
        config.consumer_session_timeout_ms,
        config.consumer_heartbeat_interval_ms,
        config.consumer_assignment_interval_ms,
    )
