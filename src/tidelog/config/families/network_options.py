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
from tidelog.model import canonical_host

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def connections_by_address(text: str) -> dict[str, int]:
    """`address:count,…` of max.connections.per.ip.overrides; ValueError if it is malformed."""
    pairs = [pair.rpartition(":") for pair in text.split(",") if pair.strip()]
    return {canonical_host(host.strip()): int(count) for host, _, count in pairs}


def _counts(text: str) -> str | None:
    try:
        fine = all(host and count >= 0 for host, count in connections_by_address(text).items())
    except ValueError:
        fine = False
    return None if fine else "address:count separated by commas"


class NetworkOptions(Options):
    node_id = integer(-1, "The broker's ID; same as broker.id.", at_least=0)
    broker_id = integer(-1, "The broker's ID; same as node.id.")
    broker_rack = string(
        None, "The broker's rack; replicas are spread over racks, and consumers can read within theirs."
    )
    listeners = strings(
        ["PLAINTEXT://:9092"],
        "Addresses to listen on, as NAME://host:port; port 0 means a free port.",
        dynamic=PER_BROKER,
    )
    advertised_listeners = strings(None, "Addresses that clients use, if they differ from listeners.")
    listener_security_protocol_map = string(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name, as NAME:PROTOCOL.",
        dynamic=PER_BROKER,
    )
    inter_broker_listener_name = string(
        None,
        "The listener for requests between brokers; clients must not be able to connect to it. By default "
        "REPLICATION, whose port is 1000 above that of the first listener (10092 for 9092).",
    )
    security_inter_broker_protocol = string(
        "PLAINTEXT",
        "The security protocol between brokers if inter.broker.listener.name is not set.",
        choices=PROTOCOLS,
    )
    controller_listener_names = strings([], "Listeners of controllers; opened with a metadata quorum only.")
    early_start_listeners = strings(None, "Listeners that open before authorization is ready.", ignored=True)
    connections_max_idle_ms = long(600_000, "Idle time after which a connection is closed.")
    connection_failed_authentication_delay_ms = integer(
        100, "Delay before a connection that failed authentication is closed.", at_least=0
    )
    max_connections = integer(16_000, "Maximum number of connections.", at_least=0, dynamic=CLUSTER_WIDE)
    max_connections_per_ip = integer(
        12_000, "Maximum number of connections from one address.", at_least=0, dynamic=CLUSTER_WIDE
    )
    max_connections_per_ip_overrides = string(
        "", "Maximum number of connections from named addresses, as address:count.", check=_counts, dynamic=CLUSTER_WIDE
    )
    max_connection_creation_rate = integer(
        MAX_INT, "Maximum number of new connections per second.", at_least=0, dynamic=CLUSTER_WIDE
    )
    socket_request_max_bytes = integer(104_857_600, "Maximum size of a request.", at_least=1)
    socket_receive_buffer_bytes = integer(
        102_400, "Receive buffer of the server's sockets; -1 uses the system's default."
    )
    socket_send_buffer_bytes = integer(102_400, "Send buffer of the server's sockets; -1 uses the system's default.")
    socket_listen_backlog_size = integer(50, "Maximum number of connections waiting to be accepted.", at_least=1)
    socket_connection_setup_timeout_ms = long(10_000, "Initial timeout for connecting to another broker.")
    socket_connection_setup_timeout_max_ms = long(
        30_000, "Maximum timeout for connecting to another broker.", ignored=True
    )
    request_timeout_ms = integer(30_000, "How long the broker waits for another broker's response.")
    queued_max_requests = integer(500, "Maximum number of queued requests.", at_least=1, ignored=True)
    queued_max_request_bytes = long(
        134_217_728,
        "Memory for requests that are arriving, in all connections together; -1 means no limit. At least "
        "socket.request.max.bytes.",
    )
    max_request_partition_size_limit = integer(
        2000, "Maximum number of partitions in a DescribeTopicPartitions response.", at_least=1
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
    server_max_startup_time_ms = long(MAX_LONG, "Maximum time for startup.", at_least=0, internal=True, ignored=True)
    unstable_api_versions_enable = boolean(
        False, "Whether API versions in development are supported.", internal=True, ignored=True
    )
    unstable_feature_versions_enable = boolean(
        False, "Whether feature versions in development are supported.", internal=True, ignored=True
    )
    telemetry_max_bytes = integer(1_048_576, "Maximum size of a client's metrics push.", at_least=1, ignored=True)


class QuotaOptions(Options):
    quota_window_num = integer(11, "Number of windows over which the rates of clients are measured.", at_least=1)
    quota_window_size_seconds = integer(1, "Length of such a window.", at_least=1)
    controller_quota_window_num = integer(
        11, "Number of windows for which a client's unused controller mutations accumulate.", at_least=1
    )
    controller_quota_window_size_seconds = integer(1, "Length of such a window.", at_least=1)
