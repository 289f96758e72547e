"""The options of a topic: what its own configuration says, else the broker's option of the same meaning.

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
    return "false, for there is no remote storage" if enable else None


def _of(*names: str) -> tuple[Synonym, ...]:
    return tuple(Synonym(name) for name in names)


class TopicConfig(InheritingOptions):
    """`TopicConfig(overrides, broker).retention_ms` and so on; a changed configuration is a new instance."""

    cleanup_policy = strings(
        ["delete"],
        "What becomes of old data: `delete` drops old segments, `compact` keeps the last record of each key.",
        choices=("compact", "delete"),
        synonyms=_of("log.cleanup.policy"),
    )
    compression_gzip_level = integer(
        -1,
        "Level, 1 to 9, where the broker compresses with gzip; -1 is the library's own.",
        check=gzip_level,
        synonyms=_of("compression.gzip.level"),
    )
    compression_lz4_level = integer(
        9,
        "Level where the broker compresses with lz4.",
        at_least=1,
        at_most=17,
        synonyms=_of("compression.lz4.level"),
    )
    compression_type = string(
        "producer",
        "How batches are compressed on disk; `producer` keeps what the producer chose.",
        choices=COMPRESSION_TYPES,
        synonyms=_of("compression.type"),
    )
    compression_zstd_level = integer(
        3,
        "Level where the broker compresses with zstd.",
        at_least=-131072,
        at_most=22,
        synonyms=_of("compression.zstd.level"),
    )
    delete_retention_ms = long(
        86_400_000,
        "How long a compacted topic keeps the markers of deleted keys.",
        at_least=0,
        synonyms=_of("log.cleaner.delete.retention.ms"),
    )
    file_delete_delay_ms = long(
        60_000,
        "How long a deleted segment's files stay on disk, renamed, before they are removed.",
        at_least=0,
        synonyms=_of("log.segment.delete.delay.ms"),
        ignored=True,
    )
    flush_messages = long(
        MAX_LONG,
        "Records after which the log is synced to disk before they count; the default leaves that to replication.",
        at_least=1,
        synonyms=_of("log.flush.interval.messages"),
    )
    flush_ms = long(
        MAX_LONG,
        "Time after which appended records are synced to disk.",
        at_least=0,
        synonyms=_of("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    follower_replication_throttled_replicas = strings(
        [],
        "Replicas whose fetching is throttled during reassignment, as partition:broker.",
        check=_throttled,
    )
    index_interval_bytes = integer(
        4096,
        "Bytes of log between two entries of the offset index.",
        at_least=0,
        synonyms=_of("log.index.interval.bytes"),
    )
    internal_segment_bytes = integer(None, "Replaces segment.bytes in tests, below its lower bound.", internal=True)
    leader_replication_throttled_replicas = strings(
        [],
        "Replicas whose serving of followers is throttled during reassignment, as partition:broker.",
        check=_throttled,
    )
    local_retention_bytes = long(
        -2,
        "Size kept on local disk where older segments are in remote storage.",
        at_least=-2,
        synonyms=_of("log.local.retention.bytes"),
        ignored=True,
    )
    local_retention_ms = long(
        -2,
        "Time kept on local disk where older segments are in remote storage.",
        at_least=-2,
        synonyms=_of("log.local.retention.ms"),
        ignored=True,
    )
    max_compaction_lag_ms = long(
        MAX_LONG,
        "Longest time that a record may stay uncompacted.",
        at_least=1,
        synonyms=_of("log.cleaner.max.compaction.lag.ms"),
    )
    max_message_bytes = integer(
        1_048_588,
        "Largest record batch that is accepted, in bytes after compression.",
        at_least=0,
        synonyms=_of("message.max.bytes"),
    )
    message_timestamp_after_max_ms = long(
        3_600_000,
        "How far a record's timestamp may lie ahead of the broker's clock.",
        at_least=0,
        synonyms=_of("log.message.timestamp.after.max.ms"),
    )
    message_timestamp_before_max_ms = long(
        MAX_LONG,
        "How far a record's timestamp may lie behind the broker's clock.",
        at_least=0,
        synonyms=_of("log.message.timestamp.before.max.ms"),
    )
    message_timestamp_type = string(
        "CreateTime",
        "Whose clock stamps records: the producer's (CreateTime) or the broker's (LogAppendTime).",
        choices=("CreateTime", "LogAppendTime"),
        synonyms=_of("log.message.timestamp.type"),
    )
    min_cleanable_dirty_ratio = double(
        0.5,
        "Share of the log that must be uncompacted before compaction takes it up.",
        at_least=0,
        at_most=1,
        synonyms=_of("log.cleaner.min.cleanable.ratio"),
    )
    min_compaction_lag_ms = long(
        0,
        "Shortest time that a record stays uncompacted.",
        at_least=0,
        synonyms=_of("log.cleaner.min.compaction.lag.ms"),
    )
    min_insync_replicas = integer(
        1,
        "In-sync replicas that a produce with acks=all needs; with fewer the high watermark stands still.",
        at_least=1,
        synonyms=_of("min.insync.replicas"),
    )
    preallocate = boolean(
        False, "Whether a new segment's file gets its full size at once.", synonyms=_of("log.preallocate"), ignored=True
    )
    remote_log_copy_disable = boolean(False, "Stops copying segments to remote storage.", ignored=True)
    remote_log_delete_on_disable = boolean(
        False, "Whether remote segments go when remote storage is switched off for the topic.", ignored=True
    )
    remote_storage_enable = boolean(
        False, "Keeps old segments in remote storage, which Tidelog has not.", check=_no_remote, ignored=True
    )
    retention_bytes = long(
        -1,
        "Size above which a partition's oldest segments are deleted; -1 sets no limit.",
        synonyms=_of("log.retention.bytes"),
    )
    retention_ms = long(
        604_800_000,
        "Age above which segments are deleted; -1 sets no limit.",
        at_least=-1,
        synonyms=(
            Synonym("log.retention.ms"),
            Synonym("log.retention.minutes", _MINUTE_MS),
            Synonym("log.retention.hours", _HOUR_MS),
        ),
    )
    segment_bytes = integer(
        1_073_741_824,
        "Size at which a segment is closed and the next one begins.",
        at_least=1_048_576,
        synonyms=_of("log.segment.bytes"),
    )
    segment_index_bytes = integer(
        10_485_760,
        "Largest size of a segment's offset index; a full index closes the segment.",
        at_least=4,
        synonyms=_of("log.index.size.max.bytes"),
    )
    segment_jitter_ms = long(
        0,
        "Random time taken off segment.ms, so that partitions do not all roll at once.",
        at_least=0,
        synonyms=(Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", _HOUR_MS)),
    )
    segment_ms = long(
        604_800_000,
        "Age at which a segment that is not full is closed.",
        at_least=1,
        synonyms=(Synonym("log.roll.ms"), Synonym("log.roll.hours", _HOUR_MS)),
    )
    unclean_leader_election_enable = boolean(
        False,
        "Lets a replica that is not in sync lead when none else can; acknowledged records may be lost.",
        synonyms=_of("unclean.leader.election.enable"),
    )

    @classmethod
    def validate(cls, given: Mapping[str, str], broker: BrokerConfig | None = None) -> None:
        """InvalidOption at the first unknown name, value out of bounds, or pair that contradicts itself."""
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
