"""What a machine does first, and what it does of its own accord: the rules that are given to it."""

from collections.abc import Iterable
from functools import partial

from tidelog.coordinator.contract import Run
from tidelog.coordinator.group.consumer import sessions
from tidelog.coordinator.group.machine import GroupMachine, Rules
from tidelog.coordinator.group.membership import leave, rebalance
from tidelog.coordinator.group.offsets import expiry


def begin(machine: GroupMachine) -> Iterable[Run]:
    """Members are given a whole session to be heard of. A group that became too large begins a rebalance, and so does
    one whose members do not have everything: the coordinator before was about to begin it."""
    expiry.schedule(machine)
    for consumer_group in machine.consumers.newest.values():
        sessions.watch_loaded(machine, consumer_group)
    for group in machine.groups.values():
        for member in group.members.values():
            machine.watch(group, member.member_id, member.session_timeout_ms)
        if len(group.members) > machine.config.group_max_size:
            yield partial(rebalance.prepare, machine, group, "the loaded group is over capacity")
        elif group.has_no_leader_on_record:
            yield partial(rebalance.prepare, machine, group, "the loaded group became a classic one")


RULES = Rules(begin=begin, expire=leave.expire)
