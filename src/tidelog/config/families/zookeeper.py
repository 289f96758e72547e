"""The options with which Kafka 3 reached ZooKeeper; Kafka 4 has none of them any more."""

from tidelog.config.declare import boolean, integer, string
from tidelog.config.option import Options


class ZookeeperOptions(Options):
    zookeeper_connect = string(
        None, "The cluster's memory in ZooKeeper, as `host:port,host:port/chroot`; in place of metadata.store."
    )
    zookeeper_session_timeout_ms = integer(
        18_000,
        "Time after which a broker that ZooKeeper hears nothing of counts as dead; its servers set the bounds.",
        at_least=1,
    )
    zookeeper_connection_timeout_ms = integer(
        None, "Longest wait for the first connection to ZooKeeper; where not set, the session's time-out.", at_least=1
    )
    zookeeper_max_in_flight_requests = integer(
        10, "Requests to ZooKeeper under way; Tidelog needs no bound.", at_least=1, ignored=True
    )
    zookeeper_set_acl = boolean(
        False, "Restricts who may change nodes in ZooKeeper; Tidelog leaves them open.", ignored=True
    )
