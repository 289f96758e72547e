"""The options of a topic that an append needs, and the sizes that they allow."""

from typing import NamedTuple

from tidelog.config.topic import TopicConfig
from tidelog.errors import ApiError, ErrorCode
from tidelog.wire.compression import Compression, named


class AppendRules(NamedTuple):
    """The options that an append needs, read once from a configuration. Sizes in bytes, times in ms."""

    segment_bytes: int
    segment_index_bytes: int
    segment_ms: int
    max_message_bytes: int
    before_max_ms: int
    after_max_ms: int
    log_append_time: bool
    compacted: bool
    compression: Compression | None
    level: int | None
    flush_messages: int
    flush_ms: int

    @classmethod
    def of(cls, config: TopicConfig) -> "AppendRules":
        own = config.compression_type
        compression = None if own == "producer" else named("none" if own == "uncompressed" else own)
        return cls(
            segment_bytes=config.internal_segment_bytes or config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            segment_ms=config.segment_ms,
            max_message_bytes=config.max_message_bytes,
            before_max_ms=config.message_timestamp_before_max_ms,
            after_max_ms=config.message_timestamp_after_max_ms,
            log_append_time=config.message_timestamp_type == "LogAppendTime",
            compacted="compact" in config.cleanup_policy,
            compression=compression,
            level=_level(config, compression),
            flush_messages=config.flush_messages,
            flush_ms=config.flush_ms,
        )


def _level(config: TopicConfig, compression: Compression | None) -> int | None:
    """The compression level in the codec's own numbers; gzip's -1 is its default."""
    match compression:
        case Compression.GZIP:
            return None if config.compression_gzip_level < 0 else config.compression_gzip_level
        case Compression.LZ4:
            return config.compression_lz4_level
        case Compression.ZSTD:
            return config.compression_zstd_level
        case _:
            return None


def check_size(length: int, rules: AppendRules) -> None:
    if length > rules.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {length} bytes, max.message.bytes is {rules.max_message_bytes}",
        )
    if length > rules.segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE, f"the batch has {length} bytes, segment.bytes is {rules.segment_bytes}"
        )
