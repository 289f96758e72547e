"""The broker's identity, its listeners, and the limits of connections, requests and quota windows."""

from tidelog.config.option import (
    CLUSTER_WIDE,
    MAX_INT,
    MAX_LONG,
    PER_BROKER,
    Options,
    boolean,
    integer,
    long,
    string,
    strings,
)

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def connections_by_address(text: str) -> dict[str, int]:
    """`address:count,…` of max.connections.per.ip.overrides; ValueError where it is not that."""
    pairs = [pair.rpartition(":") for pair in text.split(",") if pair.strip()]
    return {host.strip(): int(count) for host, _, count in pairs}


def _counts(text: str) -> str | None:
    try:
        fine = all(host and count >= 0 for host, count in connections_by_address(text).items())
    except ValueError:
        fine = False
    return None if fine else "address:count separated by commas"


class NetworkOptions(Options):
    node_id = integer(-1, "The broker's number in the cluster; broker.id says the same.", at_least=0)
    broker_id = integer(-1, "The broker's number in the cluster; node.id says the same.")
    broker_rack = string(None, "Where the broker stands; replicas are spread over racks, consumers may read in theirs.")
    listeners = strings(
        ["PLAINTEXT://:9092"],
        "Addresses to listen on, as NAME://host:port; port 0 takes a free one.",
        dynamic=PER_BROKER,
    )
    advertised_listeners = strings(None, "Addresses that clients are told to use where they differ from listeners.")
    listener_security_protocol_map = string(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name, as NAME:PROTOCOL.",
        dynamic=PER_BROKER,
    )
    inter_broker_listener_name = string(
        None,
        "The listener that brokers use among themselves; no client should be able to connect to it. By default "
        "REPLICATION, whose port is 1000 above that of the first listener (10092 for 9092).",
    )
    security_inter_broker_protocol = string(
        "PLAINTEXT",
        "The security protocol between brokers where no listener is named for it.",
        choices=PROTOCOLS,
    )
    controller_listener_names = strings([], "Listeners of KRaft's controllers, which are not opened.")
    early_start_listeners = strings(None, "Listeners that open before authorization is ready.", ignored=True)
    connections_max_idle_ms = long(600_000, "Idle time after which a connection is closed.")
    connection_failed_authentication_delay_ms = integer(
        100, "Delay before a connection is closed whose authentication failed.", at_least=0, ignored=True
    )
    max_connections = integer(
        MAX_INT, "Connections that the broker accepts at a time.", at_least=0, dynamic=CLUSTER_WIDE
    )
    max_connections_per_ip = integer(
        MAX_INT, "Connections that one address may hold at a time.", at_least=0, dynamic=CLUSTER_WIDE
    )
    max_connections_per_ip_overrides = string(
        "", "Connections that named addresses may hold, as address:count.", check=_counts, dynamic=CLUSTER_WIDE
    )
    max_connection_creation_rate = integer(
        MAX_INT, "New connections per second that are accepted.", at_least=0, dynamic=CLUSTER_WIDE
    )
    socket_request_max_bytes = integer(104_857_600, "Largest request that is read from a connection.", at_least=1)
    socket_receive_buffer_bytes = integer(102_400, "Receive buffer of the server's sockets; -1 leaves the system's.")
    socket_send_buffer_bytes = integer(102_400, "Send buffer of the server's sockets; -1 leaves the system's.")
    socket_listen_backlog_size = integer(50, "Connections that may wait to be accepted.", at_least=1)
    socket_connection_setup_timeout_ms = long(10_000, "First time-out of a connection to another broker.")
    socket_connection_setup_timeout_max_ms = long(
        30_000, "Longest time-out of a connection to another broker.", ignored=True
    )
    request_timeout_ms = integer(30_000, "Time that the broker waits for another broker's answer.")
    queued_max_requests = integer(500, "Requests that may wait for a request thread.", at_least=1, ignored=True)
    queued_max_request_bytes = long(-1, "Bytes of requests that may wait; -1 sets no limit.", ignored=True)
    max_request_partition_size_limit = integer(
        2000, "Partitions that one DescribeTopicPartitions answer may hold.", at_least=1
    )
    num_network_threads = integer(
        3, "Network threads; Tidelog runs one event loop per broker.", at_least=1, dynamic=CLUSTER_WIDE, ignored=True
    )
    num_io_threads = integer(
        8, "Request threads; Tidelog runs one event loop per broker.", at_least=1, dynamic=CLUSTER_WIDE, ignored=True
    )
    background_threads = integer(
        10, "Threads for background work; Tidelog needs none.", at_least=1, dynamic=CLUSTER_WIDE, ignored=True
    )
    server_max_startup_time_ms = long(
        MAX_LONG, "Longest time that a start may take.", at_least=0, internal=True, ignored=True
    )
    unstable_api_versions_enable = boolean(
        False, "Serves API versions that are still in development.", internal=True, ignored=True
    )
    unstable_feature_versions_enable = boolean(
        False, "Allows feature versions that are still in development.", internal=True, ignored=True
    )
    telemetry_max_bytes = integer(1_048_576, "Largest metrics push of a client.", at_least=1, ignored=True)


class QuotaOptions(Options):
    quota_window_num = integer(11, "Windows over which the rates of clients are measured.", at_least=1)
    quota_window_size_seconds = integer(1, "Length of such a window.", at_least=1)
    controller_quota_window_num = integer(
        11, "Windows whose mutations a client of the controller may save up.", at_least=1
    )
    controller_quota_window_size_seconds = integer(1, "Length of such a window.", at_least=1)
