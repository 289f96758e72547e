"""The shape of a seed's cluster: replication factors, log directories of brokers, and racks.

- Factors: topics have one, two or five replicas instead of three, the clients' own and the internal ones. With one
  replica no kill may lose anything, and its broker may not lose power. A `min.insync.replicas` above the number of
  replicas counts as that number.
- Log directories: brokers have two or three; `nemesis/disks.py` has their faults.
- Racks: brokers are in two racks, and a reader in one of them may be sent to a follower (KIP-392). As every reader, it
  gets what is committed, once and in order.
"""

from collections.abc import Sequence
from random import Random

from tidelog.client.options import ConsumerOptions
from tidelog.model import TopicPartition
from tidelog.sim.cluster import Cluster

FACTORS = (1, 2, 2, 5)
INTERNAL_FACTORS = (1, 2, 3, 3, 5)
MOST_REPLICAS = 5
LOG_DIRECTORIES = ("/data/one", "/data/two", "/data/three")
COPY_RATES = ("9223372036854775807", "20000", "5000")
"""Bytes per second for copying a replica to another log directory (`moves.py`)."""

RACKS = ("east", "west")
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def draw_factors(dice: Random, brokers: int | None) -> tuple[int, int]:
    """Draw the factors of the clients' topics and of the internal ones; at most `brokers` if given."""
    most = brokers or MOST_REPLICAS
    return min(dice.choice(FACTORS), most), min(dice.choice(INTERNAL_FACTORS), most)


def factor_properties(internal: int) -> dict[str, str]:
    names = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
    return dict.fromkeys(names, str(internal))


def draw_log_directories(dice: Random) -> dict[str, str]:
    return {
        "log.dirs": ",".join(LOG_DIRECTORIES[: dice.choice((2, 2, 3))]),
        "replica.alter.log.dirs.io.max.bytes.per.second": dice.choice(COPY_RATES),
    }


def draw_rack_properties(_: Random) -> dict[str, str]:
    return {"replica.selector.class": SELECTOR}


def assign_racks(cluster: Cluster) -> None:
    """Assign racks, before any broker starts."""
    for host in cluster.world.hosts:
        host.rack = RACKS[host.broker_id % len(RACKS)]


def consume_from_rack(cluster: Cluster, names: Sequence[TopicPartition], dice: Random) -> None:
    options = ConsumerOptions(
        client_id="near",
        auto_offset_reset="none",
        request_timeout_ms=5_000,
        metadata_max_age_ms=dice.choice((2_000, 300_000)),
        client_rack=dice.choice(RACKS),
    )
    cluster.consume(*names, options=options)
