"""The coordinator of groups (KIP-62, 134, 211, 345, 394, 429, 814, 848).

A broker holds one `coordinator.GroupCoordinator`. Each partition of `__consumer_offsets` that it leads has a
`machine.GroupMachine` with the groups of that partition. The rules for requests are in `classic` (join, sync,
heartbeat, leave), in `consumer` (the consumer protocol), or here (commit, fetch, delete, describe).
"""

from tidelog.coordinator.group.coordinator import Caller, GroupCoordinator

__all__ = ["Caller", "GroupCoordinator"]
