"""Where logs are stored, when segments roll, sync and expire; most are the fallback of a topic's option."""

from tidelog.config.option import (
    CLUSTER_WIDE,
    MAX_LONG,
    PER_BROKER,
    Options,
    boolean,
    double,
    integer,
    long,
    string,
    strings,
)

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


def gzip_level(level: int) -> str | None:
    return None if level == -1 or 1 <= level <= 9 else "between 1 and 9, or -1"


class LogOptions(Options):
    log_dir = strings(["/tmp/kafka-logs"], "Folders for logs where log.dirs is not given.")  # noqa: S108 Kafka's default
    log_dirs = strings(None, "Folders for logs.")
    cordoned_log_dirs = strings([], "Folders that get no new partitions.", dynamic=PER_BROKER, ignored=True)
    log_dir_failure_timeout_ms = long(
        30_000, "Time to report a failed folder to the controller before the broker stops.", at_least=1
    )
    num_partitions = integer(1, "Partitions of a topic that is created without a number.", at_least=1)
    message_max_bytes = integer(
        1_048_588, "Largest record batch that is accepted, in bytes.", at_least=0, dynamic=CLUSTER_WIDE
    )
    compression_type = string(
        "producer",
        "How batches are compressed on disk; `producer` keeps what the producer chose.",
        choices=COMPRESSION_TYPES,
        dynamic=CLUSTER_WIDE,
    )
    compression_gzip_level = integer(
        -1,
        "Level, 1 to 9, where the broker compresses with gzip; -1 is the library's own.",
        check=gzip_level,
        dynamic=CLUSTER_WIDE,
    )
    compression_lz4_level = integer(
        9, "Level where the broker compresses with lz4.", at_least=1, at_most=17, dynamic=CLUSTER_WIDE
    )
    compression_zstd_level = integer(
        3, "Level where the broker compresses with zstd.", at_least=-131072, at_most=22, dynamic=CLUSTER_WIDE
    )

    log_segment_bytes = integer(
        1_073_741_824, "Size at which a segment is closed.", at_least=1_048_576, dynamic=CLUSTER_WIDE
    )
    log_roll_ms = long(None, "Age at which a segment is closed; log.roll.hours where not given.", dynamic=CLUSTER_WIDE)
    log_roll_hours = integer(168, "Age in hours at which a segment is closed.", at_least=1)
    log_roll_jitter_ms = long(
        None, "Random time taken off log.roll.ms; log.roll.jitter.hours where not given.", dynamic=CLUSTER_WIDE
    )
    log_roll_jitter_hours = integer(0, "Random time in hours taken off the roll time.", at_least=0)
    log_index_size_max_bytes = integer(10_485_760, "Largest size of an offset index.", at_least=4, dynamic=CLUSTER_WIDE)
    log_index_interval_bytes = integer(
        4096, "Bytes of log between two entries of the offset index.", at_least=0, dynamic=CLUSTER_WIDE
    )
    log_preallocate = boolean(
        False, "Whether a new segment's file gets its full size at once.", dynamic=CLUSTER_WIDE, ignored=True
    )
    log_segment_delete_delay_ms = long(
        60_000, "How long deleted files stay on disk, renamed.", at_least=0, dynamic=CLUSTER_WIDE, ignored=True
    )

    log_retention_ms = long(
        None, "Age above which segments are deleted; log.retention.minutes where not given.", dynamic=CLUSTER_WIDE
    )
    log_retention_minutes = integer(None, "Age in minutes; log.retention.hours where not given.")
    log_retention_hours = integer(168, "Age in hours above which segments are deleted.")
    log_retention_bytes = long(
        -1, "Size of a partition above which its oldest segments are deleted.", dynamic=CLUSTER_WIDE
    )
    log_retention_check_interval_ms = long(300_000, "Time between two looks for segments to delete.", at_least=1)
    log_initial_task_delay_ms = long(
        30_000, "Time from the start to the first background work on logs.", at_least=0, internal=True, ignored=True
    )
    log_cleanup_policy = strings(
        ["delete"], "What becomes of old data.", choices=("compact", "delete"), dynamic=CLUSTER_WIDE
    )

    log_flush_interval_messages = long(
        MAX_LONG, "Records after which a log is synced to disk.", at_least=1, dynamic=CLUSTER_WIDE
    )
    log_flush_interval_ms = long(
        None, "Time after which a log is synced; the scheduler's interval where not given.", dynamic=CLUSTER_WIDE
    )
    log_flush_scheduler_interval_ms = long(MAX_LONG, "Time between two looks for logs to sync.")
    log_flush_offset_checkpoint_interval_ms = integer(
        60_000, "Time between two writes of the recovery points.", at_least=0
    )
    log_flush_start_offset_checkpoint_interval_ms = integer(
        60_000, "Time between two writes of the log start offsets.", at_least=0
    )
    num_recovery_threads_per_data_dir = integer(
        2, "Threads that recover logs at the start.", at_least=1, dynamic=CLUSTER_WIDE, ignored=True
    )

    log_message_timestamp_type = string(
        "CreateTime",
        "Whose clock stamps records, the producer's or the broker's.",
        choices=("CreateTime", "LogAppendTime"),
        dynamic=CLUSTER_WIDE,
    )
    log_message_timestamp_before_max_ms = long(
        MAX_LONG, "How far a timestamp may lie behind the broker's clock.", at_least=0, dynamic=CLUSTER_WIDE
    )
    log_message_timestamp_after_max_ms = long(
        3_600_000, "How far a timestamp may lie ahead of the broker's clock.", at_least=0, dynamic=CLUSTER_WIDE
    )

    log_cleaner_enable = boolean(True, "Runs compaction.")
    log_cleaner_threads = integer(
        1, "Compaction threads; Tidelog compacts in slices on its loop.", at_least=0, dynamic=CLUSTER_WIDE, ignored=True
    )
    log_cleaner_io_max_bytes_per_second = double(
        1.7976931348623157e308,
        "Bytes per second that compaction may read and write.",
        dynamic=CLUSTER_WIDE,
    )
    log_cleaner_dedupe_buffer_size = long(
        134_217_728, "Memory for the offsets of keys during compaction.", dynamic=CLUSTER_WIDE
    )
    log_cleaner_io_buffer_size = integer(
        524_288, "Buffer for reading and writing during compaction.", at_least=0, dynamic=CLUSTER_WIDE, ignored=True
    )
    log_cleaner_io_buffer_load_factor = double(
        0.9, "How full the map of keys may get.", dynamic=CLUSTER_WIDE, ignored=True
    )
    log_cleaner_backoff_ms = long(
        15_000, "Pause of compaction when nothing is to be done.", at_least=0, dynamic=CLUSTER_WIDE
    )
    log_cleaner_min_cleanable_ratio = double(
        0.5,
        "Share of uncompacted log at which compaction begins.",
        at_least=0,
        at_most=1,
        dynamic=CLUSTER_WIDE,
    )
    log_cleaner_delete_retention_ms = long(
        86_400_000, "How long markers of deleted keys are kept.", at_least=0, dynamic=CLUSTER_WIDE
    )
    log_cleaner_min_compaction_lag_ms = long(
        0, "Shortest time that a record stays uncompacted.", at_least=0, dynamic=CLUSTER_WIDE
    )
    log_cleaner_max_compaction_lag_ms = long(
        MAX_LONG, "Longest time that a record stays uncompacted.", at_least=1, dynamic=CLUSTER_WIDE
    )
    log_local_retention_ms = long(
        -2, "Time kept on local disk beside remote storage.", at_least=-2, dynamic=CLUSTER_WIDE, ignored=True
    )
    log_local_retention_bytes = long(
        -2, "Size kept on local disk beside remote storage.", at_least=-2, dynamic=CLUSTER_WIDE, ignored=True
    )
