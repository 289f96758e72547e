"""Replication, leader election, topic creation and deletion, and the controller."""

from tidelog.config.option import CLUSTER_WIDE, Options, boolean, class_name, integer, long, string


class ReplicationOptions(Options):
    default_replication_factor = integer(1, "Replication factor of topics created without one.")
    min_insync_replicas = integer(
        1, "In-sync replicas required for a produce with acks=all.", at_least=1, dynamic=CLUSTER_WIDE
    )
    replica_lag_time_max_ms = long(30_000, "Time without catching up after which a replica is out of sync.")
    replica_fetch_max_bytes = integer(1_048_576, "Bytes that a follower requests per partition.", at_least=0)
    replica_fetch_response_max_bytes = integer(10_485_760, "Bytes that a follower requests per fetch.", at_least=0)
    replica_fetch_min_bytes = integer(1, "Minimum bytes that a follower's fetch waits for.")
    replica_fetch_wait_max_ms = integer(500, "Maximum wait of a follower's fetch.")
    replica_fetch_backoff_ms = integer(1000, "Backoff of a follower after a failed fetch.", at_least=0)
    replica_socket_timeout_ms = integer(30_000, "How long a follower waits for its leader's response.", ignored=True)
    replica_socket_receive_buffer_bytes = integer(65_536, "Receive buffer of a follower's connection.", ignored=True)
    replica_high_watermark_checkpoint_interval_ms = long(
        5000, "Interval between writes of the high watermark checkpoint."
    )
    replica_selector_class = string(
        None, "How a consumer's closest replica is selected; only Kafka's RackAwareReplicaSelector is supported."
    )
    num_replica_fetchers = integer(
        1,
        "Fetcher threads per leader; Tidelog has one fetcher per leader.",
        at_least=1,
        dynamic=CLUSTER_WIDE,
        ignored=True,
    )
    num_replica_alter_log_dirs_threads = integer(
        None, "Threads that move replicas between log directories.", ignored=True
    )
    follower_replication_throttled_rate = long(
        (1 << 63) - 1,
        "Maximum bytes per second that throttled followers fetch.",
        at_least=0,
        dynamic=CLUSTER_WIDE,
        internal=True,
    )
    leader_replication_throttled_rate = long(
        (1 << 63) - 1,
        "Maximum bytes per second that throttled leaders send.",
        at_least=0,
        dynamic=CLUSTER_WIDE,
        internal=True,
    )
    replica_alter_log_dirs_io_max_bytes_per_second = long(
        (1 << 63) - 1,
        "Maximum bytes per second of moves between log directories.",
        at_least=0,
        dynamic=CLUSTER_WIDE,
        internal=True,
    )

    fetch_max_bytes = integer(57_671_680, "Maximum bytes in a fetch response.", at_least=1024)
    max_incremental_fetch_session_cache_slots = integer(1000, "Maximum number of fetch sessions.", at_least=0)
    producer_id_expiration_ms = integer(
        86_400_000,
        "Time after which an inactive producer's state expires.",
        at_least=1,
        dynamic=CLUSTER_WIDE,
    )
    producer_id_expiration_check_interval_ms = integer(
        600_000, "Interval between checks for inactive producers.", at_least=1, internal=True
    )

    unclean_leader_election_enable = boolean(
        False, "Whether a replica that is not in sync can be elected as a last resort.", dynamic=CLUSTER_WIDE
    )
    unclean_leader_election_interval_ms = long(
        300_000,
        "Interval between checks for partitions that need an unclean election.",
        at_least=1,
        internal=True,
        ignored=True,
    )
    auto_leader_rebalance_enable = boolean(True, "Whether leadership is moved back to preferred replicas periodically.")
    leader_imbalance_check_interval_seconds = long(300, "Interval between checks of the leaders' balance.", at_least=1)
    leader_imbalance_per_broker_percentage = integer(
        10, "Percentage of a broker's preferred leaderships on other brokers above which they are moved back."
    )
    controlled_shutdown_enable = boolean(True, "Whether leaders are moved away before the broker stops.", ignored=True)
    controller_socket_timeout_ms = integer(
        30_000, "How long the controller waits for a broker's response.", ignored=True
    )

    auto_create_topics_enable = boolean(True, "Whether a metadata request for an unknown topic creates it.")
    delete_topic_enable = boolean(True, "Whether topics can be deleted.")
    create_topic_policy_class_name = class_name(None, "Java policy for new topics.", ignored=True)
    alter_config_policy_class_name = class_name(None, "Java policy for changed configurations.", ignored=True)

    broker_session_timeout_ms = integer(9000, "Time without a session renewal after which a broker is considered dead.")
    broker_heartbeat_interval_ms = integer(
        2000, "Interval between heartbeats; Tidelog derives its own from the session timeout.", ignored=True
    )
    initial_broker_registration_timeout_ms = integer(60_000, "Timeout for registering at startup.", ignored=True)
