"""The kinds of deadlines that members of consumer groups have."""

from enum import Enum

from tidelog.coordinator.group.machine import GroupMachine

Key = tuple[str, str, str]


class Deadline(Enum):
    """Each with why who misses it is fenced."""

    SESSION = "consumer-session"
    REVOKE = "consumer-revoke"
    JOIN = "consumer-join"
    SYNC = "consumer-sync"

    @property
    def reason(self) -> str:
        return _REASONS[self]


_REASONS = {
    Deadline.SESSION: "its session is over",
    Deadline.REVOKE: "it did not give up its partitions in time",
    Deadline.JOIN: "it did not join again in time",
    Deadline.SYNC: "it did not sync in time",
}


def key(deadline: Deadline, group_id: str, member_id: str) -> Key:
    return (deadline.value, group_id, member_id)


def cancel(machine: GroupMachine, deadline: Deadline, group_id: str, member_id: str) -> None:
    machine.shard.cancel_timer(key(deadline, group_id, member_id))


def cancel_all(machine: GroupMachine, group_id: str, member_id: str) -> None:
    for deadline in Deadline:
        cancel(machine, deadline, group_id, member_id)
