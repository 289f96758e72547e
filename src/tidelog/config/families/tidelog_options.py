"""Options that Kafka 4 does not have: Tidelog's own, and Kafka 3's for ZooKeeper."""

from tidelog.config.option import Options, boolean, integer, string


class ZookeeperOptions(Options):
    """Kafka 3's options for ZooKeeper; Kafka 4 has none of them."""

    zookeeper_connect = string(
        None, "The metadata store in ZooKeeper, as `host:port,host:port/chroot`; an alternative to metadata.store."
    )
    zookeeper_session_timeout_ms = integer(
        18_000,
        "Time without contact after which ZooKeeper considers a broker dead; its servers set the bounds.",
        at_least=1,
    )
    zookeeper_connection_timeout_ms = integer(
        None, "Timeout for the first connection to ZooKeeper (default: the session timeout).", at_least=1
    )
    zookeeper_max_in_flight_requests = integer(
        10, "Maximum number of requests in flight to ZooKeeper; Tidelog has no limit.", at_least=1, ignored=True
    )
    zookeeper_set_acl = boolean(
        False, "Whether to restrict access to nodes in ZooKeeper; Tidelog does not.", ignored=True
    )


class OwnOptions(Options):
    """What Kafka has no option for."""

    metadata_store = string(
        None,
        "The metadata store, `sqlite:PATH` or `zookeeper://HOST:PORT/CHROOT`; by default metadata.sqlite in a "
        "directory next to the first log directory.",
    )
    metrics_listener = string(None, "Address that serves metrics in Prometheus' format, as host:port; none by default.")
    log_format = string("text", "Format of log lines: text or json.", choices=("text", "json"))
