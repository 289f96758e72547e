"""Options of features that Tidelog implements differently or not at all; accepted, so that Kafka's own files can be
used.

None has an effect: some options of KRaft's log, remote storage, share and streams groups,
purgatories and Java's metrics.
"""

from typing import Any

from tidelog.config.option import (
    CLUSTER_WIDE,
    MAX_LONG,
    Option,
    Options,
    boolean,
    class_name,
    double,
    integer,
    long,
    short,
    string,
    strings,
)


def positive(default: int, doc: str, **rules: Any) -> Option[int]:
    return integer(default, doc, at_least=1, **rules)


class RaftOptions(Options, ignored=True):
    controller_quorum_append_linger_ms = integer(25, "Linger time of KRaft's leader.", at_least=0)
    controller_performance_always_log_threshold_ms = long(
        2000, "Duration above which events are logged as slow.", at_least=0, internal=True
    )
    controller_performance_sample_period_ms = long(
        60_000, "Interval between log lines about performance.", at_least=100, internal=True
    )
    metadata_log_segment_ms = long(604_800_000, "Segment age of the metadata log.")
    metadata_max_idle_interval_ms = integer(500, "Interval between no-op records.", at_least=0)
    internal_metadata_delete_delay_millis = long(60_000, "Delay before old metadata files are deleted.", internal=True)
    internal_metadata_log_segment_bytes = integer(None, "Segment size of the metadata log in tests.", internal=True)
    internal_metadata_max_batch_size_in_bytes = integer(8_388_608, "Batch size of the metadata log.", internal=True)


class RemoteOptions(Options, ignored=True):
    remote_fetch_max_wait_ms = positive(500, "Maximum wait for remote data.", dynamic=CLUSTER_WIDE)
    remote_list_offsets_request_timeout_ms = long(
        30_000, "Maximum wait for remote offsets.", at_least=1, dynamic=CLUSTER_WIDE
    )
    remote_log_index_file_cache_total_size_bytes = long(
        1_073_741_824, "Local disk space for remote indexes.", at_least=1, dynamic=CLUSTER_WIDE
    )
    remote_log_index_file_cache_ttl_ms = long(900_000, "Lifetime of a cached remote index.", at_least=-1, internal=True)
    remote_log_manager_copier_thread_pool_size = positive(10, "Threads that copy segments.", dynamic=CLUSTER_WIDE)
    remote_log_manager_copy_max_bytes_per_second = long(
        MAX_LONG, "Maximum bytes per second to copy.", at_least=1, dynamic=CLUSTER_WIDE
    )
    remote_log_manager_copy_quota_window_num = positive(11, "Number of windows of the copy quota.")
    remote_log_manager_copy_quota_window_size_seconds = positive(1, "Length of a window of the copy quota.")
    remote_log_manager_expiration_thread_pool_size = positive(
        10, "Threads that expire remote segments.", dynamic=CLUSTER_WIDE
    )
    remote_log_manager_fetch_max_bytes_per_second = long(
        MAX_LONG, "Maximum bytes per second to fetch.", at_least=1, dynamic=CLUSTER_WIDE
    )
    remote_log_manager_fetch_quota_window_num = positive(11, "Number of windows of the fetch quota.")
    remote_log_manager_fetch_quota_window_size_seconds = positive(1, "Length of a window of the fetch quota.")
    remote_log_manager_follower_thread_pool_size = positive(2, "Threads for followers.", dynamic=CLUSTER_WIDE)
    remote_log_manager_task_interval_ms = long(30_000, "Interval between remote tasks.", at_least=1)
    remote_log_manager_task_retry_backoff_max_ms = long(30_000, "Maximum backoff of tasks.", at_least=1, internal=True)
    remote_log_manager_task_retry_backoff_ms = long(500, "Initial backoff of tasks.", at_least=1, internal=True)
    remote_log_manager_task_retry_jitter = double(
        0.2, "Random share of the backoff.", at_least=0, at_most=0.5, internal=True
    )
    remote_log_manager_thread_pool_size = positive(2, "Threads of remote storage.")
    remote_log_metadata_custom_metadata_max_bytes = integer(
        128, "Maximum size of a segment's custom metadata.", at_least=0
    )
    remote_log_metadata_manager_class_name = string(
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        "Java class that manages remote metadata.",
    )
    remote_log_metadata_manager_class_path = string(None, "Class path of that class.")
    remote_log_metadata_manager_impl_prefix = string("rlmm.config.", "Prefix of that class's options.")
    remote_log_metadata_manager_listener_name = string(None, "Listener that the class connects to.")
    remote_log_reader_max_pending_tasks = positive(100, "Maximum number of queued remote reads.")
    remote_log_reader_threads = positive(10, "Threads that read remote data.", dynamic=CLUSTER_WIDE)
    remote_log_storage_manager_class_name = string(None, "Java class that stores segments.")
    remote_log_storage_manager_class_path = string(None, "Class path of that class.")
    remote_log_storage_manager_impl_prefix = string("rsm.config.", "Prefix of that class's options.")
    remote_log_storage_system_enable = boolean(False, "Whether remote storage is enabled.")
    follower_fetch_last_tiered_offset_enable = boolean(
        False, "Whether a new follower starts at the end of remote data.", dynamic=CLUSTER_WIDE
    )


class ShareOptions(Options, ignored=True):
    group_share_assignment_interval_ms = integer(
        1000, "Interval between assignments of share groups.", at_least=0, dynamic=CLUSTER_WIDE
    )
    group_share_min_assignment_interval_ms = integer(0, "Minimum assignment interval.", at_least=0)
    group_share_max_assignment_interval_ms = integer(15_000, "Maximum assignment interval.", at_least=0)
    group_share_assignors = strings(["simple"], "Assignors of share groups.")
    group_share_delivery_count_limit = integer(5, "Maximum deliveries of one record.", at_least=2, at_most=10)
    group_share_min_delivery_count_limit = integer(2, "Minimum of the delivery limit.", at_least=2, at_most=5)
    group_share_max_delivery_count_limit = integer(10, "Maximum of the delivery limit.", at_least=5, at_most=25)
    group_share_heartbeat_interval_ms = positive(5000, "Heartbeat interval of share groups.")
    group_share_min_heartbeat_interval_ms = positive(5000, "Minimum heartbeat interval.")
    group_share_max_heartbeat_interval_ms = positive(15_000, "Maximum heartbeat interval.")
    group_share_session_timeout_ms = positive(45_000, "Session timeout of share groups.")
    group_share_min_session_timeout_ms = positive(45_000, "Minimum session timeout.")
    group_share_max_session_timeout_ms = positive(60_000, "Maximum session timeout.")
    group_share_initialize_retry_interval_ms = positive(
        30_000, "Backoff before the state is initialized again.", internal=True
    )
    group_share_max_share_sessions = positive(2000, "Maximum number of share sessions.")
    group_share_max_size = integer(200, "Maximum number of members of a share group.", at_least=1, at_most=1000)
    group_share_record_lock_duration_ms = integer(
        30_000, "How long a delivered record is locked.", at_least=1000, at_most=3_600_000
    )
    group_share_min_record_lock_duration_ms = integer(15_000, "Minimum lock duration.", at_least=1000, at_most=30_000)
    group_share_max_record_lock_duration_ms = integer(
        60_000, "Maximum lock duration.", at_least=30_000, at_most=3_600_000
    )
    group_share_partition_max_record_locks = integer(
        2000, "Maximum records locked per partition.", at_least=100, at_most=10_000
    )
    group_share_min_partition_max_record_locks = integer(100, "Minimum of the lock limit.", at_least=100, at_most=2000)
    group_share_max_partition_max_record_locks = integer(
        4000, "Maximum of the lock limit.", at_least=2000, at_most=10_000
    )
    group_share_persister_class_name = string(
        "org.apache.kafka.server.share.persister.DefaultStatePersister",
        "Java class that stores share group state.",
        internal=True,
    )
    share_coordinator_append_linger_ms = integer(-1, "Linger time of the share coordinator.", at_least=-1)
    share_coordinator_cached_buffer_max_bytes = integer(
        1_048_588, "Maximum buffer size of the share coordinator.", at_least=524_288, dynamic=CLUSTER_WIDE
    )
    share_coordinator_cold_partition_snapshot_interval_ms = positive(
        300_000, "Interval between snapshots.", internal=True
    )
    share_coordinator_load_buffer_size = positive(5_242_880, "Bytes per read while the state is loaded.")
    share_coordinator_snapshot_update_records_per_snapshot = integer(
        500, "Updates between snapshots.", at_least=0, at_most=500
    )
    share_coordinator_state_topic_compression_codec = integer(0, "Compression of the state topic.")
    share_coordinator_state_topic_min_isr = short(2, "In-sync replicas of the state topic.", at_least=1)
    share_coordinator_state_topic_num_partitions = positive(50, "Partitions of the state topic.")
    share_coordinator_state_topic_prune_interval_ms = positive(300_000, "Interval between prunings.", internal=True)
    share_coordinator_state_topic_replication_factor = short(3, "Replicas of the state topic.", at_least=1)
    share_coordinator_state_topic_segment_bytes = positive(104_857_600, "Segment size of the state topic.")
    share_coordinator_threads = positive(1, "Threads of the share coordinator.")
    share_coordinator_write_timeout_ms = positive(5000, "Timeout of the share coordinator's writes.")
    share_fetch_purgatory_purge_interval_requests = integer(1000, "Requests between purges.")


class StreamsOptions(Options, ignored=True):
    group_streams_assignment_interval_ms = integer(
        1000, "Interval between assignments of streams groups.", at_least=0, dynamic=CLUSTER_WIDE
    )
    group_streams_min_assignment_interval_ms = integer(0, "Minimum assignment interval.", at_least=0)
    group_streams_max_assignment_interval_ms = integer(15_000, "Maximum assignment interval.", at_least=0)
    group_streams_heartbeat_interval_ms = positive(5000, "Heartbeat interval of streams groups.")
    group_streams_min_heartbeat_interval_ms = positive(5000, "Minimum heartbeat interval.")
    group_streams_max_heartbeat_interval_ms = positive(15_000, "Maximum heartbeat interval.")
    group_streams_session_timeout_ms = positive(45_000, "Session timeout of streams groups.")
    group_streams_min_session_timeout_ms = positive(45_000, "Minimum session timeout.")
    group_streams_max_session_timeout_ms = positive(60_000, "Maximum session timeout.")
    group_streams_initial_rebalance_delay_ms = integer(3000, "How long to wait for more members.", at_least=0)
    group_streams_max_size = positive((1 << 31) - 1, "Maximum number of members of a streams group.")
    group_streams_num_standby_replicas = integer(0, "Number of standby tasks.", at_least=0)
    group_streams_max_standby_replicas = integer(2, "Maximum number of standby tasks.", at_least=0)


class JavaOptions(Options, ignored=True):
    """Windows of other quotas, purgatories, metrics and plug-ins."""

    replication_quota_window_num = positive(11, "Number of windows of replication quotas.")
    replication_quota_window_size_seconds = positive(1, "Length of a window of replication quotas.")
    alter_log_dirs_replication_quota_window_num = positive(11, "Number of windows of the quota of replica moves.")
    alter_log_dirs_replication_quota_window_size_seconds = positive(
        1, "Length of a window of the quota of replica moves."
    )
    client_quota_callback_class = class_name(None, "Java class that sets quotas.")
    fetch_purgatory_purge_interval_requests = integer(1000, "Requests between purges of the fetch purgatory.")
    producer_purgatory_purge_interval_requests = integer(1000, "Requests between purges of the produce purgatory.")
    delete_records_purgatory_purge_interval_requests = integer(
        1, "Requests between purges of the DeleteRecords purgatory."
    )
    kafka_metrics_polling_interval_secs = positive(10, "Interval between collections of Java's metrics.")
    kafka_metrics_reporters = strings([], "Java classes that report metrics.")
    metric_reporters = strings(
        ["org.apache.kafka.common.metrics.JmxReporter"], "Java classes that report metrics.", dynamic=CLUSTER_WIDE
    )
    metrics_num_samples = positive(2, "Number of samples of a metric.")
    metrics_recording_level = string("INFO", "Level of recorded metrics.")
    metrics_sample_window_ms = long(30_000, "Length of a metric's sample window.", at_least=1)
    config_providers = strings([], "Java classes that provide configuration values.", dynamic=CLUSTER_WIDE)
