"""The server's assignors: `uniform`, which balances and keeps what can be kept, and `range`, which gives each member
the same numbers of every topic. Given the same, each gives the same."""

from tidelog.coordinator.group.consumer.assignors.range import assign_range
from tidelog.coordinator.group.consumer.assignors.spec import Assignor
from tidelog.coordinator.group.consumer.assignors.uniform import assign_uniform

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
