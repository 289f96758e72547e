"""Brokers in two racks, and a reader in one of them who may be sent to a follower (KIP-392). It is held to what all
readers are: it gets what is committed, once and in order."""

from collections.abc import Sequence
from random import Random

from tidelog.client.options import ConsumerOptions
from tidelog.model import TopicPartition
from tidelog.sim.cluster import Cluster

RACKS = ("east", "west")
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def draw_properties(_: Random) -> dict[str, str]:
    return {"replica.selector.class": SELECTOR}


def place(cluster: Cluster) -> None:
    """Before any broker starts."""
    for host in cluster.world.hosts:
        host.rack = RACKS[host.broker_id % len(RACKS)]


def consume(cluster: Cluster, names: Sequence[TopicPartition], dice: Random) -> None:
    options = ConsumerOptions(
        client_id="near",
        auto_offset_reset="none",
        request_timeout_ms=5_000,
        metadata_max_age_ms=dice.choice((2_000, 300_000)),
        client_rack=dice.choice(RACKS),
    )
    cluster.consume(*names, options=options)
