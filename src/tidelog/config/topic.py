"""The options of a topic, with a fallback to the broker's.

Names, types, defaults and bounds are Kafka 4.3.1's.
"""

import re
from collections.abc import Mapping

from tidelog.config.broker import BrokerConfig, InheritingOptions
from tidelog.config.families.log_options import COMPRESSION_TYPES, gzip_level
from tidelog.config.option import MAX_LONG, Synonym, boolean, double, integer, long, string, strings
from tidelog.errors import InvalidOption

_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000


def _throttled(replicas: list[str]) -> str | None:
    if replicas in ([], ["*"], ["none"]) or all(re.fullmatch("[0-9]+:[0-9]+", each) for each in replicas):
        return None
    return "'*', 'none' or pairs partition:broker separated by commas"


def _no_remote(enable: bool) -> str | None:
    return "false, because remote storage is not supported" if enable else None


def _of(*names: str) -> tuple[Synonym, ...]:
    return tuple(Synonym(name) for name in names)


class TopicConfig(InheritingOptions):
    """`TopicConfig(overrides, broker).retention_ms` and so on; a changed configuration is a new instance."""

    cleanup_policy = strings(
        ["delete"],
        "What to do with old data: `delete` deletes old segments, `compact` retains the last record of each key.",
        choices=("compact", "delete"),
        synonyms=_of("log.cleanup.policy"),
    )
    compression_gzip_level = integer(
        -1,
        "Compression level of gzip, 1 to 9; -1 is the library's default.",
        check=gzip_level,
        synonyms=_of("compression.gzip.level"),
    )
    compression_lz4_level = integer(
        9,
        "Compression level of lz4.",
        at_least=1,
        at_most=17,
        synonyms=_of("compression.lz4.level"),
    )
    compression_type = string(
        "producer",
        "Compression of batches on disk; `producer` keeps the producer's.",
        choices=COMPRESSION_TYPES,
        synonyms=_of("compression.type"),
    )
    compression_zstd_level = integer(
        3,
        "Compression level of zstd.",
        at_least=-131072,
        at_most=22,
        synonyms=_of("compression.zstd.level"),
    )
    delete_retention_ms = long(
        86_400_000,
        "How long a compacted topic retains tombstones.",
        at_least=0,
        synonyms=_of("log.cleaner.delete.retention.ms"),
    )
    file_delete_delay_ms = long(
        60_000,
        "Delay before a deleted segment's files, which are renamed first, are removed.",
        at_least=0,
        synonyms=_of("log.segment.delete.delay.ms"),
        ignored=True,
    )
    flush_messages = long(
        MAX_LONG,
        "Number of records after which the log is flushed to disk; the default relies on replication.",
        at_least=1,
        synonyms=_of("log.flush.interval.messages"),
    )
    flush_ms = long(
        MAX_LONG,
        "Time after which appended records are flushed to disk.",
        at_least=0,
        synonyms=_of("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    follower_replication_throttled_replicas = strings(
        [],
        "Throttled follower replicas, as partition:broker.",
        check=_throttled,
    )
    index_interval_bytes = integer(
        4096,
        "Bytes of log between entries of the offset index.",
        at_least=0,
        synonyms=_of("log.index.interval.bytes"),
    )
    internal_segment_bytes = integer(None, "Replaces segment.bytes in tests, below its lower bound.", internal=True)
    leader_replication_throttled_replicas = strings(
        [],
        "Throttled leader replicas, as partition:broker.",
        check=_throttled,
    )
    local_retention_bytes = long(
        -2,
        "Size retained on local disk if older segments are in remote storage.",
        at_least=-2,
        synonyms=_of("log.local.retention.bytes"),
        ignored=True,
    )
    local_retention_ms = long(
        -2,
        "Time retained on local disk if older segments are in remote storage.",
        at_least=-2,
        synonyms=_of("log.local.retention.ms"),
        ignored=True,
    )
    max_compaction_lag_ms = long(
        MAX_LONG,
        "Maximum time that a record stays uncompacted.",
        at_least=1,
        synonyms=_of("log.cleaner.max.compaction.lag.ms"),
    )
    max_message_bytes = integer(
        1_048_588,
        "Maximum size of a record batch, in bytes after compression.",
        at_least=0,
        synonyms=_of("message.max.bytes"),
    )
    message_timestamp_after_max_ms = long(
        3_600_000,
        "How far a record's timestamp may be ahead of the broker's clock.",
        at_least=0,
        synonyms=_of("log.message.timestamp.after.max.ms"),
    )
    message_timestamp_before_max_ms = long(
        MAX_LONG,
        "How far a record's timestamp may be behind the broker's clock.",
        at_least=0,
        synonyms=_of("log.message.timestamp.before.max.ms"),
    )
    message_timestamp_type = string(
        "CreateTime",
        "Timestamps of records: the producer's (CreateTime) or the broker's (LogAppendTime).",
        choices=("CreateTime", "LogAppendTime"),
        synonyms=_of("log.message.timestamp.type"),
    )
    min_cleanable_dirty_ratio = double(
        0.5,
        "Share of the log that must be uncompacted before compaction starts.",
        at_least=0,
        at_most=1,
        synonyms=_of("log.cleaner.min.cleanable.ratio"),
    )
    min_compaction_lag_ms = long(
        0,
        "Minimum time that a record stays uncompacted.",
        at_least=0,
        synonyms=_of("log.cleaner.min.compaction.lag.ms"),
    )
    min_insync_replicas = integer(
        1,
        "In-sync replicas required for a produce with acks=all; with fewer, the high watermark does not advance.",
        at_least=1,
        synonyms=_of("min.insync.replicas"),
    )
    preallocate = boolean(
        False, "Whether a new segment's file is preallocated.", synonyms=_of("log.preallocate"), ignored=True
    )
    remote_log_copy_disable = boolean(False, "Whether copying segments to remote storage is disabled.", ignored=True)
    remote_log_delete_on_disable = boolean(
        False, "Whether remote segments are deleted when remote storage is disabled for the topic.", ignored=True
    )
    remote_storage_enable = boolean(
        False,
        "Whether old segments are kept in remote storage; Tidelog does not support it.",
        check=_no_remote,
        ignored=True,
    )
    retention_bytes = long(
        -1,
        "Size above which a partition's oldest segments are deleted; -1 means no limit.",
        synonyms=_of("log.retention.bytes"),
    )
    retention_ms = long(
        604_800_000,
        "Age above which segments are deleted; -1 means no limit.",
        at_least=-1,
        synonyms=(
            Synonym("log.retention.ms"),
            Synonym("log.retention.minutes", _MINUTE_MS),
            Synonym("log.retention.hours", _HOUR_MS),
        ),
    )
    segment_bytes = integer(
        1_073_741_824,
        "Size at which a segment is closed and the next one starts.",
        at_least=1_048_576,
        synonyms=_of("log.segment.bytes"),
    )
    segment_index_bytes = integer(
        10_485_760,
        "Maximum size of a segment's offset index; a full index closes the segment.",
        at_least=4,
        synonyms=_of("log.index.size.max.bytes"),
    )
    segment_jitter_ms = long(
        0,
        "Maximum random time subtracted from segment.ms, so that partitions do not all roll at once.",
        at_least=0,
        synonyms=(Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", _HOUR_MS)),
    )
    segment_ms = long(
        604_800_000,
        "Age at which a segment is closed even if it is not full.",
        at_least=1,
        synonyms=(Synonym("log.roll.ms"), Synonym("log.roll.hours", _HOUR_MS)),
    )
    unclean_leader_election_enable = boolean(
        False,
        "Whether a replica that is not in sync can be elected as a last resort; acknowledged records may be lost.",
        synonyms=_of("unclean.leader.election.enable"),
    )

    @classmethod
    def validate(cls, given: Mapping[str, str], broker: BrokerConfig | None = None) -> None:
        """InvalidOption for the first unknown name, value out of bounds, or pair of values that contradict each
        other."""
        for name in given:
            if name not in cls.OPTIONS:
                raise InvalidOption(f"{name} is not an option of a topic")
        super().validate(given)
        config = cls(given, broker or BrokerConfig({}))
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
            raise InvalidOption(
                f"min.compaction.lag.ms must be at most max.compaction.lag.ms ({config.max_compaction_lag_ms}), "
                f"not {config.min_compaction_lag_ms}"
            )
