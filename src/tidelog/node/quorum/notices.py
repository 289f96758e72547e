"""What a member of the metadata quorum reports to its node, in order; the node takes it at the end of its turn.

As the `Ready` of etcd's raft: nothing is called back from within an input.
"""

from typing import NamedTuple

from tidelog.ports import StoreResult


class SessionStarted(NamedTuple):
    session: int


class SessionLost(NamedTuple):
    pass


class LeaderLost(NamedTuple):
    """No leader was heard of for a whole session timeout."""


class Changed(NamedTuple):
    """A watched path of the tree."""

    path: str


class Result(NamedTuple):
    """Of the operations that the node submitted with this token."""

    token: int
    result: StoreResult


class LeadershipChanged(NamedTuple):
    """This node leads the quorum in this epoch (NO_EPOCH: not any more), and so must be the controller."""

    epoch: int


Notice = SessionStarted | SessionLost | LeaderLost | Changed | Result | LeadershipChanged
