"""The states of a classic group, and which may follow which.

    Empty ──join──▶ PreparingRebalance ──all joined──▶ CompletingRebalance ──leader's assignment committed──▶ Stable
      ▲                  │      ▲                             │                                                  │
      └──nobody left─────┘      └─────────a member joins, leaves or fails────────────────────────────────────────┘

Dead is what a group is after its removal or after its coordinator moved; nothing follows.
"""

from enum import Enum


class GroupState(Enum):
    """Values are what clients are shown."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


FOLLOWS = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE},
    GroupState.PREPARING_REBALANCE: {GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE},
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.COMPLETING_REBALANCE},
    GroupState.DEAD: set(GroupState) - {GroupState.DEAD},
}
"""State → the states that it may follow."""

REBALANCING = frozenset({GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE})
WITH_MEMBERS = REBALANCING | {GroupState.STABLE}
