"""Features of the cluster: what brokers support, and the levels that are finalized (KIP-584).

Most have one level, which follows from the version of Tidelog. The levels of the others are in the tree (`/feature`),
and 1 in new clusters:

- `tidelog.metadata`: what may be in the tree and in requests between brokers. A change that an earlier version would
  not understand, or would lose when it writes, needs a new level. 0 is the version before there were features, 1 adds
  eligible leader replicas. Brokers of both versions work together until the level is finalized; from then on those that
  do not support it are refused. It is never lowered: the tree may have what they would lose.
- Eligible leader replicas, which can be turned on and off. `min.insync.replicas` is known to the controller then,
  because only topics and the cluster have values: a broker's own file does not count any more.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple, Protocol

from tidelog.config.broker import BrokerConfig
from tidelog.config.feature_levels import (
    ELR_VERSION,
    FEATURES,
    FIRST_LEVEL,
    KRAFT_VERSION,
    LATEST,
    METADATA_VERSION,
    TREE_VERSION,
)
from tidelog.controller import tree
from tidelog.model import Time
from tidelog.ports import Change, Create, Node

MIN_INSYNC_REPLICAS = "min.insync.replicas"


class Feature(NamedTuple):
    """Levels as Kafka 4.3.1 numbers them; a feature of minimum 0 is not reported before version 4 (KAFKA-17011)."""

    name: str
    low: int
    high: int


def _from_zero(name: str) -> Feature:
    return Feature(name, 0, FEATURES[name].highest)


ELR = _from_zero(ELR_VERSION)
TREE = Feature(TREE_VERSION, 0, 1)
IN_TREE = (ELR, TREE)
"""Their levels are in the tree."""
SUPPORTED: Mapping[str, tuple[int, int]] = {each.name: (each.low, each.high) for each in IN_TREE}
"""What a broker of this version registers with."""
NEEDS = {ELR.name: {TREE.name: 1}}
"""Levels of other features that a level above 0 needs."""
KRAFT = _from_zero(KRAFT_VERSION)
"""Its level is in the log of a metadata quorum, and only there."""
FIXED = (
    _from_zero("group.version"),
    Feature(METADATA_VERSION, FIRST_LEVEL, LATEST),
    _from_zero("transaction.version"),
)
"""Their highest level is finalized."""


class Kraft(Protocol):
    """The metadata quorum, whose log has the level of `kraft.version`."""

    @property
    def kraft_version(self) -> int: ...

    def upgrade_kraft_version(self, now: Time, *, validate_only: bool) -> None:
        """To 1, at once, and undone if this node's leadership ends before that is committed. ApiError if it is not
        possible."""


def finalized(levels: Mapping[str, int]) -> dict[str, int]:
    """The level of every feature that is not off, given those in the tree."""
    return {name: level for name, level in levels.items() if level > 0} | {each.name: each.high for each in FIXED}


def tree_version(node: object) -> int:
    """The finalized level of `tidelog.metadata`, given what was read of the node of features; 0 if there is none."""
    if isinstance(node, Node):
        with suppress(*tree.UNREADABLE):  # content that is written by hand is ignored
            return tree.parse_features(node.data).get(TREE.name, 0)
    return 0


def refusal(supported: Mapping[str, tuple[int, int]], levels: Mapping[str, int]) -> str | None:
    """Why a broker that supports these levels cannot be in a cluster with these finalized ones; None if it can."""
    for name, level in levels.items():
        low, high = supported.get(name, (0, 0))
        if level and not low <= level <= high:
            has = f"levels {low} to {high}" if high else "none"
            return f"the cluster has {name} {level}, and the broker's version supports {has}; start a newer version"
    return None


def founding(config: BrokerConfig) -> list[Change]:
    """What a new cluster begins with."""
    min_in_sync = {MIN_INSYNC_REPLICAS: str(config.min_insync_replicas)}
    return [
        Create(tree.FEATURE, tree.format_features({each.name: each.high for each in IN_TREE})),
        Create(tree.broker_config_path(""), tree.format_config(min_in_sync)),
    ]
