"""Features of the cluster: what brokers support, and the levels that are finalized (KIP-584).

Most have one level, which follows from the version of Tidelog. Eligible leader replicas can be turned on and off: their
level is in the tree (`/feature`), and 1 in new clusters. Then `min.insync.replicas` is known to the controller, because
only topics and the cluster have values: a broker's own file does not count any more.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.config.feature_levels import ELR_VERSION, FEATURES, FIRST_LEVEL, LATEST, METADATA_VERSION
from tidelog.controller import tree
from tidelog.ports import Change, Create

MIN_INSYNC_REPLICAS = "min.insync.replicas"


class Feature(NamedTuple):
    """Levels as Kafka 4.3.1 numbers them; a feature of minimum 0 is not reported before version 4 (KAFKA-17011)."""

    name: str
    low: int
    high: int


def _from_zero(name: str) -> Feature:
    return Feature(name, 0, FEATURES[name].highest)


ELR = _from_zero(ELR_VERSION)
FIXED = (
    _from_zero("group.version"),
    Feature(METADATA_VERSION, FIRST_LEVEL, LATEST),
    _from_zero("transaction.version"),
)
"""Their highest level is finalized."""


def finalized(levels: Mapping[str, int]) -> dict[str, int]:
    """The level of every feature that is not off, given those in the tree."""
    return {name: level for name, level in levels.items() if level > 0} | {each.name: each.high for each in FIXED}


def founding(config: BrokerConfig) -> list[Change]:
    """What a new cluster begins with."""
    least = {MIN_INSYNC_REPLICAS: str(config.min_insync_replicas)}
    return [
        Create(tree.FEATURE, tree.format_features({ELR.name: ELR.high})),
        Create(tree.broker_config_path(""), tree.format_config(least)),
    ]
