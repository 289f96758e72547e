"""Which members the group of a seed has: of the classic protocol; in seeds with `consumer-protocol` all or some of the
consumer protocol (KIP-848); in seeds with `static-members` with instance ids, and as processes that come back
(KIP-345).
"""

from collections.abc import Collection, Mapping
from random import Random

from tidelog.client.options import ConsumerOptions
from tidelog.sim.clients.group import Group, StaticGroup
from tidelog.sim.cluster import Cluster
from tidelog.sim.parts.drawing import dice_of

SHARES = (1.0, 1.0, 0.5)
"""How many of the members speak the consumer protocol."""

PROPERTIES: Mapping[str, str] = {
    "group.consumer.session.timeout.ms": "5000",
    "group.consumer.heartbeat.interval.ms": "1000",
}
"""What members of the consumer protocol are told, as the others say it themselves."""


def group_of(
    cluster: Cluster, topics: tuple[str, ...], options: ConsumerOptions, without: Collection[str] = ()
) -> Group:
    seed = cluster.world.seed
    protocols, statics = dice_of(seed, "consumer-protocol", without), dice_of(seed, "static-members", without)
    share = protocols.choice(SHARES) if protocols is not None else 0.0
    kind = Group if statics is None else StaticGroup
    if statics is not None:
        topics = topics[:1]  # a static leader that was away does not know which topics came and went, as in Kafka
    return kind(
        cluster.world,
        cluster.suite.ghosts,
        cluster.seen_records,
        cluster.commits,
        topics,
        options,
        dice=statics or protocols,
        share=share,
    )


def draw_properties(seed: int, without: Collection[str]) -> Mapping[str, str]:
    """The brokers' options of a seed that may have members of the consumer protocol."""
    parts: tuple[Random | None, ...] = tuple(dice_of(seed, part, without) for part in ("consumer-protocol", "copiers"))
    return PROPERTIES if any(part is not None for part in parts) else {}
