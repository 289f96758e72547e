"""The broker that runs on a simulated machine: its own options over those of the cluster."""

from collections.abc import Mapping

from tidelog.config.broker import BrokerConfig
from tidelog.node.node import Node
from tidelog.partition.truncation import Generation
from tidelog.sim.host import Host
from tidelog.sim.world import BROKER_PORT, CLIENT_LISTENER, CLIENT_PORT


def node_on(host: Host, properties: Mapping[str, str], generation: Generation) -> Node:
    own = {
        "node.id": str(host.broker_id),
        "log.dirs": ",".join(host.disk.mounted),
        "listeners": f"{CLIENT_LISTENER}://{host.name}:{CLIENT_PORT},REPLICATION://{host.name}:{BROKER_PORT}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT",
        "inter.broker.listener.name": "REPLICATION",
        "broker.session.timeout.ms": str(host.world.faults.session_term // 1000),
    }
    if host.rack:
        own["broker.rack"] = host.rack
    config = BrokerConfig({**properties, **own})
    return Node(
        config,
        host.disk,
        host.endpoints,
        entropy=host.random.randbytes,
        generation=generation,
        directories={folder: host.disk.directory_id(folder) for folder in config.folders},
    )
