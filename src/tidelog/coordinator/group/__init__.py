"""The coordinator of classic consumer groups (KIP-62, 134, 211, 345, 394, 429, 814).

`coordinator.GroupCoordinator` is what a broker holds. Each partition of `__consumer_offsets` that it leads has a
`machine.GroupMachine` with the groups of that partition. What a request does to a group stands in the module named
after it: in `membership` (join, sync, heartbeat, leave), in `offsets` (commit, fetch), or here (deletion, describe).
`state` is the table of a group's states.
"""

from tidelog.coordinator.group.coordinator import GroupCoordinator
from tidelog.coordinator.group.requests import Caller

__all__ = ["Caller", "GroupCoordinator"]
