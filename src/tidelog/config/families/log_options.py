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
    log_dir = strings(["/tmp/kafka-logs"], "Log directories if log.dirs is not set.")  # noqa: S108 Kafka's default
    log_dirs = strings(None, "Log directories.")
    cordoned_log_dirs = strings([], "Log directories that get no new partitions.", dynamic=PER_BROKER, ignored=True)
    log_dir_failure_timeout_ms = long(
        30_000, "How long the broker tries to report a failed log directory before it stops.", at_least=1
    )
    num_partitions = integer(1, "Number of partitions of topics created without one.", at_least=1)
    message_max_bytes = integer(
        1_048_588, "Maximum size of a record batch, in bytes.", at_least=0, dynamic=CLUSTER_WIDE
    )
    compression_type = string(
        "producer",
        "Compression of batches on disk; `producer` keeps the producer's.",
        choices=COMPRESSION_TYPES,
        dynamic=CLUSTER_WIDE,
    )
    compression_gzip_level = integer(
        -1,
        "Compression level of gzip, 1 to 9; -1 is the library's default.",
        check=gzip_level,
        dynamic=CLUSTER_WIDE,
    )
    compression_lz4_level = integer(9, "Compression level of lz4.", at_least=1, at_most=17, dynamic=CLUSTER_WIDE)
    compression_zstd_level = integer(
        3, "Compression level of zstd.", at_least=-131072, at_most=22, dynamic=CLUSTER_WIDE
    )

    log_segment_bytes = integer(
        1_073_741_824, "Size at which a segment is closed.", at_least=1_048_576, dynamic=CLUSTER_WIDE
    )
    log_roll_ms = long(None, "Age at which a segment is closed (default: log.roll.hours).", dynamic=CLUSTER_WIDE)
    log_roll_hours = integer(168, "Age in hours at which a segment is closed.", at_least=1)
    log_roll_jitter_ms = long(
        None, "Maximum random time subtracted from log.roll.ms (default: log.roll.jitter.hours).", dynamic=CLUSTER_WIDE
    )
    log_roll_jitter_hours = integer(0, "Maximum random time in hours subtracted from log.roll.hours.", at_least=0)
    log_index_size_max_bytes = integer(10_485_760, "Maximum size of an offset index.", at_least=4, dynamic=CLUSTER_WIDE)
    log_index_interval_bytes = integer(
        4096, "Bytes of log between entries of the offset index.", at_least=0, dynamic=CLUSTER_WIDE
    )
    log_preallocate = boolean(
        False, "Whether a new segment's file is preallocated.", dynamic=CLUSTER_WIDE, ignored=True
    )
    log_segment_delete_delay_ms = long(
        60_000,
        "Delay before deleted files, which are renamed first, are removed.",
        at_least=0,
        dynamic=CLUSTER_WIDE,
        ignored=True,
    )

    log_retention_ms = long(
        None, "Age above which segments are deleted (default: log.retention.minutes).", dynamic=CLUSTER_WIDE
    )
    log_retention_minutes = integer(
        None, "Age in minutes above which segments are deleted (default: log.retention.hours)."
    )
    log_retention_hours = integer(168, "Age in hours above which segments are deleted.")
    log_retention_bytes = long(
        -1, "Size of a partition above which its oldest segments are deleted.", dynamic=CLUSTER_WIDE
    )
    log_retention_check_interval_ms = long(300_000, "Interval between checks for segments to delete.", at_least=1)
    log_initial_task_delay_ms = long(
        30_000, "Delay from startup to the first background work on logs.", at_least=0, internal=True, ignored=True
    )
    log_cleanup_policy = strings(
        ["delete"], "What to do with old data: delete or compact.", choices=("compact", "delete"), dynamic=CLUSTER_WIDE
    )

    log_flush_interval_messages = long(
        MAX_LONG, "Number of records after which a log is flushed to disk.", at_least=1, dynamic=CLUSTER_WIDE
    )
    log_flush_interval_ms = long(
        None, "Time after which a log is flushed (default: log.flush.scheduler.interval.ms).", dynamic=CLUSTER_WIDE
    )
    log_flush_scheduler_interval_ms = long(MAX_LONG, "Interval between checks for logs to flush.")
    log_flush_offset_checkpoint_interval_ms = integer(
        60_000, "Interval between writes of the recovery point checkpoint.", at_least=0
    )
    log_flush_start_offset_checkpoint_interval_ms = integer(
        60_000, "Interval between writes of the log start offset checkpoint.", at_least=0
    )
    num_recovery_threads_per_data_dir = integer(
        2, "Threads that recover logs at startup.", at_least=1, dynamic=CLUSTER_WIDE, ignored=True
    )

    log_message_timestamp_type = string(
        "CreateTime",
        "Timestamps of records: the producer's (CreateTime) or the broker's (LogAppendTime).",
        choices=("CreateTime", "LogAppendTime"),
        dynamic=CLUSTER_WIDE,
    )
    log_message_timestamp_before_max_ms = long(
        MAX_LONG, "How far a timestamp may be behind the broker's clock.", at_least=0, dynamic=CLUSTER_WIDE
    )
    log_message_timestamp_after_max_ms = long(
        3_600_000, "How far a timestamp may be ahead of the broker's clock.", at_least=0, dynamic=CLUSTER_WIDE
    )

    log_cleaner_enable = boolean(True, "Whether compaction is enabled.")
    log_cleaner_threads = integer(
        1,
        "Compaction threads; Tidelog compacts in slices on its event loop.",
        at_least=0,
        dynamic=CLUSTER_WIDE,
        ignored=True,
    )
    log_cleaner_io_max_bytes_per_second = double(
        1.7976931348623157e308,
        "Maximum bytes per second that compaction reads and writes.",
        dynamic=CLUSTER_WIDE,
    )
    log_cleaner_dedupe_buffer_size = long(
        134_217_728, "Memory for the map of key offsets during compaction.", dynamic=CLUSTER_WIDE
    )
    log_cleaner_io_buffer_size = integer(
        524_288, "Size of the I/O buffers of compaction.", at_least=0, dynamic=CLUSTER_WIDE, ignored=True
    )
    log_cleaner_io_buffer_load_factor = double(
        0.9, "Maximum load factor of the key map.", dynamic=CLUSTER_WIDE, ignored=True
    )
    log_cleaner_backoff_ms = long(
        15_000, "How long compaction sleeps when there is nothing to do.", at_least=0, dynamic=CLUSTER_WIDE
    )
    log_cleaner_min_cleanable_ratio = double(
        0.5,
        "Share of the log that must be uncompacted before compaction starts.",
        at_least=0,
        at_most=1,
        dynamic=CLUSTER_WIDE,
    )
    log_cleaner_delete_retention_ms = long(
        86_400_000, "How long tombstones are retained.", at_least=0, dynamic=CLUSTER_WIDE
    )
    log_cleaner_min_compaction_lag_ms = long(
        0, "Minimum time that a record stays uncompacted.", at_least=0, dynamic=CLUSTER_WIDE
    )
    log_cleaner_max_compaction_lag_ms = long(
        MAX_LONG, "Maximum time that a record stays uncompacted.", at_least=1, dynamic=CLUSTER_WIDE
    )
    log_local_retention_ms = long(
        -2, "Time retained on local disk with remote storage.", at_least=-2, dynamic=CLUSTER_WIDE, ignored=True
    )
    log_local_retention_bytes = long(
        -2, "Size retained on local disk with remote storage.", at_least=-2, dynamic=CLUSTER_WIDE, ignored=True
    )
