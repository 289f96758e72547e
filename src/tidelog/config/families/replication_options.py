"""How replicas follow, when they count as in sync, who leads, and how topics come and go."""

from tidelog.config.option import CLUSTER_WIDE, Options, boolean, class_name, integer, long, string


class ReplicationOptions(Options):
    default_replication_factor = integer(1, "Replicas of a topic that is created without a number.")
    min_insync_replicas = integer(
        1, "In-sync replicas that a produce with acks=all needs.", at_least=1, dynamic=CLUSTER_WIDE
    )
    replica_lag_time_max_ms = long(30_000, "Time without having caught up after which a replica is out of sync.")
    replica_fetch_max_bytes = integer(1_048_576, "Bytes that a follower asks for per partition.", at_least=0)
    replica_fetch_response_max_bytes = integer(10_485_760, "Bytes that a follower asks for in one answer.", at_least=0)
    replica_fetch_min_bytes = integer(1, "Bytes for which a follower's fetch waits.")
    replica_fetch_wait_max_ms = integer(500, "Longest wait of a follower's fetch.")
    replica_fetch_backoff_ms = integer(1000, "Pause of a follower after a failed fetch.", at_least=0)
    replica_socket_timeout_ms = integer(30_000, "Time that a follower waits for its leader's answer.", ignored=True)
    replica_socket_receive_buffer_bytes = integer(65_536, "Receive buffer of a follower's connection.", ignored=True)
    replica_high_watermark_checkpoint_interval_ms = long(5000, "Time between two writes of the high watermarks.")
    replica_selector_class = string(
        None, "How a consumer's closest replica is chosen; Kafka's RackAwareReplicaSelector is the one known."
    )
    num_replica_fetchers = integer(
        1,
        "Fetching threads per leader; Tidelog fetches each leader once.",
        at_least=1,
        dynamic=CLUSTER_WIDE,
        ignored=True,
    )
    num_replica_alter_log_dirs_threads = integer(None, "Threads that move replicas between folders.", ignored=True)
    follower_replication_throttled_rate = long(
        (1 << 63) - 1,
        "Bytes per second of throttled fetching.",
        at_least=0,
        dynamic=CLUSTER_WIDE,
        internal=True,
    )
    leader_replication_throttled_rate = long(
        (1 << 63) - 1,
        "Bytes per second of throttled serving.",
        at_least=0,
        dynamic=CLUSTER_WIDE,
        internal=True,
    )
    replica_alter_log_dirs_io_max_bytes_per_second = long(
        (1 << 63) - 1,
        "Bytes per second of moves between folders.",
        at_least=0,
        dynamic=CLUSTER_WIDE,
        internal=True,
    )

    fetch_max_bytes = integer(57_671_680, "Most bytes in one answer to a fetch.", at_least=1024)
    max_incremental_fetch_session_cache_slots = integer(1000, "Fetch sessions kept at a time.", at_least=0)
    producer_id_expiration_ms = integer(
        86_400_000,
        "Time after which a silent producer's sequences are forgotten.",
        at_least=1,
        dynamic=CLUSTER_WIDE,
    )
    producer_id_expiration_check_interval_ms = integer(
        600_000, "Time between two looks for silent producers.", at_least=1, internal=True
    )

    unclean_leader_election_enable = boolean(
        False, "Lets a replica that is not in sync lead when none else can.", dynamic=CLUSTER_WIDE
    )
    unclean_leader_election_interval_ms = long(
        300_000, "Time between two looks for partitions to elect uncleanly.", at_least=1, internal=True, ignored=True
    )
    auto_leader_rebalance_enable = boolean(True, "Gives leadership back to preferred replicas from time to time.")
    leader_imbalance_check_interval_seconds = long(300, "Time between two looks at leadership's balance.", at_least=1)
    leader_imbalance_per_broker_percentage = integer(
        10, "Percentage of a broker's preferred leaderships held by others from which they are given back."
    )
    controlled_shutdown_enable = boolean(True, "Moves leaders away before the broker stops.", ignored=True)
    controller_socket_timeout_ms = integer(
        30_000, "Time that the controller waits for a broker's answer.", ignored=True
    )

    auto_create_topics_enable = boolean(True, "Creates a topic that a client asks for and that does not exist.")
    delete_topic_enable = boolean(True, "Allows topics to be deleted.")
    create_topic_policy_class_name = class_name(None, "A Java policy for new topics.", ignored=True)
    alter_config_policy_class_name = class_name(None, "A Java policy for changed configurations.", ignored=True)

    broker_session_timeout_ms = integer(
        9000, "Time after which a broker that does not renew its session counts as dead."
    )
    broker_heartbeat_interval_ms = integer(
        2000, "Time between two renewals; Tidelog derives its own from the session's time-out.", ignored=True
    )
    initial_broker_registration_timeout_ms = integer(
        60_000, "Time to register at the start before giving up.", ignored=True
    )
