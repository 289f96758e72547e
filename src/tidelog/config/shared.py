"""Rules that a broker's option and the topic's option of the same meaning share."""

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


def gzip_level(level: int) -> str | None:
    return None if level == -1 or 1 <= level <= 9 else "between 1 and 9, or -1"
