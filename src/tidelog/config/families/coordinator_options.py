"""The group coordinator's and the transaction coordinator's options."""

from tidelog.config.option import CLUSTER_WIDE, MAX_INT, Options, boolean, integer, long, short, string, strings

POLICIES = ("disabled", "downgrade", "upgrade", "bidirectional")


def _policy(value: str) -> str | None:
    return None if value.lower() in POLICIES else "one of " + ", ".join(POLICIES)


class GroupOptions(Options):
    group_min_session_timeout_ms = integer(6000, "Minimum session timeout that a member can request.")
    group_max_session_timeout_ms = integer(1_800_000, "Maximum session timeout that a member can request.")
    group_initial_rebalance_delay_ms = integer(3000, "How long a new group waits for more members.")
    group_max_size = integer(MAX_INT, "Maximum number of members of a classic group.", at_least=1)
    group_coordinator_rebalance_protocols = strings(
        ["classic", "consumer", "streams"],
        "Supported group protocols.",
        choices=("consumer", "classic", "share", "streams"),
    )
    group_coordinator_threads = integer(4, "Coordinator threads; Tidelog needs none.", at_least=1, ignored=True)
    group_coordinator_background_threads = integer(
        2, "Coordinator threads for slow work; Tidelog needs none.", at_least=1, ignored=True
    )
    group_coordinator_append_linger_ms = integer(
        -1, "Linger time of the coordinator; -1 is adaptive.", at_least=-1, ignored=True
    )
    group_coordinator_cached_buffer_max_bytes = integer(
        1_048_588,
        "Maximum size of the coordinator's cached buffers.",
        at_least=524_288,
        dynamic=CLUSTER_WIDE,
        ignored=True,
    )

    offset_metadata_max_bytes = integer(4096, "Maximum size of the metadata of a committed offset.")
    offsets_commit_timeout_ms = integer(5000, "Timeout for replicating an offset commit.", at_least=1)
    offsets_load_buffer_size = integer(
        5_242_880, "Bytes per read while a coordinator loads offsets.", at_least=1, ignored=True
    )
    offsets_retention_minutes = integer(10_080, "How long an empty group's offsets are retained.", at_least=1)
    offsets_retention_check_interval_ms = long(600_000, "Interval between checks for expired offsets.", at_least=1)
    offsets_topic_num_partitions = integer(50, "Partitions of the offsets topic.", at_least=1)
    offsets_topic_replication_factor = short(3, "Replicas of the offsets topic.", at_least=1)
    offsets_topic_segment_bytes = integer(104_857_600, "Segment size of the offsets topic.", at_least=1)
    offsets_topic_compression_codec = integer(0, "Compression of the offsets topic, by its number in record batches.")

    group_consumer_session_timeout_ms = integer(45_000, "Session timeout of consumer groups.", at_least=1)
    group_consumer_min_session_timeout_ms = integer(
        45_000, "Minimum session timeout of consumer groups.", at_least=1, ignored=True
    )
    group_consumer_max_session_timeout_ms = integer(
        60_000, "Maximum session timeout of consumer groups.", at_least=1, ignored=True
    )
    group_consumer_heartbeat_interval_ms = integer(5000, "Heartbeat interval of consumer groups.", at_least=1)
    group_consumer_min_heartbeat_interval_ms = integer(
        5000, "Minimum heartbeat interval of consumer groups.", at_least=1, ignored=True
    )
    group_consumer_max_heartbeat_interval_ms = integer(
        15_000, "Maximum heartbeat interval of consumer groups.", at_least=1, ignored=True
    )
    group_consumer_assignment_interval_ms = integer(
        1000, "Minimum time between assignments of a consumer group.", at_least=0, dynamic=CLUSTER_WIDE
    )
    group_consumer_min_assignment_interval_ms = integer(0, "Minimum assignment interval.", at_least=0, ignored=True)
    group_consumer_max_assignment_interval_ms = integer(
        15_000, "Maximum assignment interval.", at_least=0, ignored=True
    )
    group_consumer_max_size = integer(MAX_INT, "Maximum number of members of a consumer group.", at_least=1)
    group_consumer_assignors = strings(["uniform", "range"], "Assignors of consumer groups; the first is the default.")
    group_consumer_migration_policy = string(
        "bidirectional",
        "Whether groups can change between the classic and the consumer protocol.",
        check=_policy,
    )
    group_consumer_regex_refresh_interval_ms = integer(
        600_000, "Interval between checks for topics that match a pattern.", at_least=10_000, internal=True
    )


class TransactionOptions(Options):
    transaction_max_timeout_ms = integer(
        900_000, "Maximum transaction timeout that a producer can request.", at_least=1
    )
    transactional_id_expiration_ms = integer(
        604_800_000, "Time after which an unused transactional ID expires.", at_least=1
    )
    transaction_state_log_num_partitions = integer(50, "Partitions of the transaction topic.", at_least=1)
    transaction_state_log_replication_factor = short(3, "Replicas of the transaction topic.", at_least=1)
    transaction_state_log_min_isr = integer(2, "In-sync replicas required for the transaction topic.", at_least=1)
    transaction_state_log_segment_bytes = integer(104_857_600, "Segment size of the transaction topic.", at_least=1)
    transaction_state_log_load_buffer_size = integer(
        5_242_880, "Bytes per read while a coordinator loads transactions.", at_least=1, ignored=True
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        10_000, "Interval between checks for timed out transactions.", at_least=1
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        3_600_000, "Interval between checks for expired transactional IDs.", at_least=1
    )
    transaction_partition_verification_enable = boolean(
        True,
        "Whether to verify with the coordinator that a transaction is open before its records are appended.",
        dynamic=CLUSTER_WIDE,
    )
    transaction_two_phase_commit_enable = boolean(False, "Whether two-phase commit is enabled.", ignored=True)
    add_partitions_to_txn_retry_backoff_ms = integer(
        20, "Initial backoff before verification is retried.", at_least=1, ignored=True
    )
    add_partitions_to_txn_retry_backoff_max_ms = integer(
        100, "Maximum backoff before verification is retried.", at_least=0, ignored=True
    )
