"""One member of a consumer group: its subscription and its present assignment."""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from tidelog.coordinator.group.classic.group import MemberProtocol
from tidelog.coordinator.group.consumer.topics import AssignmentEpochs

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2
"""Member epochs that are requests: to join, to leave, and for a static member to leave temporarily."""
NO_TIMEOUT = -1
NO_ASSIGNMENT: AssignmentEpochs = {}


class MemberState(IntEnum):
    """Numbers as in Kafka's records.

    STABLE ──a new target takes partitions away──▶ UNREVOKED_PARTITIONS ──the member owns them no more──┐
      ▲  │                                                                                              │
      │  └──a new target gives partitions that others still have──▶ UNRELEASED_PARTITIONS ◀─────────────┤
      └─────────────────────────all partitions of the target are free───────────┴───────────────────────┘
    """

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class ClassicMetadata(NamedTuple):
    """What a member of the classic protocol sent when it joined."""

    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]


class Subscription(NamedTuple):
    """What a member sent about itself. `classic` is None for members of the consumer protocol."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    pattern: str = ""
    rebalance_timeout_ms: int = NO_TIMEOUT
    assignor: str | None = None
    classic: ClassicMetadata | None = None


class CurrentAssignment(NamedTuple):
    """The state of reconciliation: the member may own `assigned`; it must give up `revoking` before its epoch can
    rise."""

    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: AssignmentEpochs = NO_ASSIGNMENT
    revoking: AssignmentEpochs = NO_ASSIGNMENT

    def moved(
        self, epoch: int, state: MemberState, assigned: AssignmentEpochs, revoking: AssignmentEpochs
    ) -> "CurrentAssignment":
        previous = self.previous_epoch if epoch == self.epoch else self.epoch
        return CurrentAssignment(epoch, previous, state, assigned, revoking)

    def is_reconciled(self, target_epoch: int) -> bool:
        return self.state == MemberState.STABLE and self.epoch == target_epoch


class ConsumerMember(NamedTuple):
    member_id: str
    subscription: Subscription = Subscription()
    current: CurrentAssignment = CurrentAssignment()

    @property
    def is_classic(self) -> bool:
        return self.subscription.classic is not None


Members = Mapping[str, ConsumerMember]
