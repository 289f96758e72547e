"""What groups committed, out of the records of `__consumer_offsets`."""

from collections.abc import Iterator
from typing import Any, NamedTuple

TOPIC = "__consumer_offsets"
SCHEMA = "topic string, partition int, name string, committed bigint, at bigint, place bigint"
OFFSET_COMMITS = (0, 1)
"""The types of keys that are positions, as Kafka before 0.9 wrote them and since."""


class Commit(NamedTuple):
    """`committed` is None where the group's position was deleted. `at` in milliseconds, `place` the record's offset:
    a group's commits are in one partition, in order."""

    topic: str
    partition: int
    name: str
    committed: int | None
    at: int
    place: int


def read(key: bytes | None, value: bytes | None, at: int, place: int) -> Commit | None:
    """The commit that a record is; None for what else stands there."""
    from tidelog.wire import codec
    from tidelog.wire.messages.groups.group_records import OffsetCommitKey, OffsetCommitValue

    if key is None or len(key) < 2 or int.from_bytes(key[:2]) not in OFFSET_COMMITS:
        return None
    named = codec.decode(OffsetCommitKey, 0, key[2:])
    if value is None:
        return Commit(named.topic, named.partition, named.group, None, at, place)
    told = codec.decode(OffsetCommitValue, int.from_bytes(value[:2]), value[2:])
    return Commit(named.topic, named.partition, named.group, told.offset, told.commit_timestamp, place)


def commits(batches: Iterator[Any]) -> Iterator[Any]:
    """For mapInArrow: columns key, value, at and offset → SCHEMA."""
    import pyarrow as pa

    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("name", pa.string()),
            ("committed", pa.int64()),
            ("at", pa.int64()),
            ("place", pa.int64()),
        ]
    )
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("key", "value", "at", "offset")]
        found = [commit for row in zip(*columns, strict=True) if (commit := read(*row)) is not None]
        yield pa.RecordBatch.from_pylist([commit._asdict() for commit in found], schema)
