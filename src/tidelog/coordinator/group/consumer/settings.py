"""The times that a consumer group works by."""

from typing import NamedTuple

from tidelog.coordinator.group.machine import GroupMachine


class Settings(NamedTuple):
    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def settings(machine: GroupMachine, group_id: str) -> Settings:
    del group_id
    config = machine.config
    return Settings(
        config.group_consumer_session_timeout_ms,
        config.group_consumer_heartbeat_interval_ms,
        config.group_consumer_assignment_interval_ms,
    )
