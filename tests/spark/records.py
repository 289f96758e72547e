"""What the tests of Spark send, delete and read."""

from collections.abc import Sequence
from typing import Any

from tidelog.client.admin import Leader
from tidelog.shell.transport import Admin, Producer
from tidelog.wire.messages.records.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.topics.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic

TIMEOUT_MS = 30_000


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def send(bootstrap: str, topic: str, values: Sequence[bytes | None], partition: int = 0, **more: Any) -> None:
    with Producer(bootstrap) as producer:
        for value in values:
            producer.send(topic, value, partition=partition, **more)
        assert all(delivery.is_acknowledged for delivery in producer.flush())


def delete_before(bootstrap: str, topic: str, offset: int) -> None:
    """Move the start of partition 0 forward."""
    wanted = [DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])]
    with Admin(bootstrap) as admin:
        answer = admin.ask(DeleteRecordsRequest(topics=wanted, timeout_ms=TIMEOUT_MS), Leader(topic, 0))
    assert answer.topics[0].partitions[0].error_code == 0, answer


def add_partitions(bootstrap: str, topic: str, count: int) -> None:
    """Grow the topic to so many partitions."""
    with Admin(bootstrap) as admin:
        wanted = CreatePartitionsTopic(name=topic, count=count, assignments=None)
        answer = admin.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS))
    assert answer.results[0].error_code == 0, answer


def values(frame: Any) -> list[int]:
    """The values as numbers, in order."""
    return sorted(int(row.value) for row in frame.select("value").collect())
