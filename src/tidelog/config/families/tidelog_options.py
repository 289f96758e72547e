"""Options that Kafka 4 does not have: Tidelog's own, and Kafka 3's for ZooKeeper."""

from tidelog.config.option import Options, boolean, integer, string


class ZookeeperOptions(Options):
    """Kafka 3's options for ZooKeeper; Kafka 4 has none of them."""

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


class OwnOptions(Options):
    """What Kafka has no option for."""

    metadata_store = string(
        None,
        "The cluster's memory, `sqlite:PATH` or `zookeeper://HOST:PORT/CHROOT`; without it metadata.sqlite in a folder "
        "beside the first log folder.",
    )
    metrics_listener = string(None, "Where metrics are served in Prometheus' format, as host:port; nowhere without it.")
    log_format = string("text", "How log lines are written: text or json.", choices=("text", "json"))
