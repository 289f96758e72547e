"""How far moves are: the bytes that new replicas still lack, and when they will be there at the present speed."""

import time
from collections.abc import Mapping

import click

from tidelog.cli.cluster import describe_topics
from tidelog.cli.replicas.files import Replica
from tidelog.cli.replicas.knowledge import Ongoing, held, size_of
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin

LOOK_S = 1.0
"""Between two looks at the sizes, from which the speed follows."""


def show(admin: Admin, moves: Mapping[TopicPartition, Ongoing]) -> None:
    """One line a partition that is copied, and one for all."""
    began = time.monotonic()
    before = lacking(admin, moves)
    if not before:
        return
    time.sleep(LOOK_S)
    after = lacking(admin, moves)
    seconds = time.monotonic() - began
    for partition, left in after.items():
        click.echo(f"{partition}: {_left(left, (before[partition] - left) / seconds)}")
    left = sum(after.values())
    click.echo(f"All: {_left(left, (sum(before.values()) - left) / seconds)}")


def lacking(admin: Admin, moves: Mapping[TopicPartition, Ongoing]) -> dict[TopicPartition, int]:
    """Bytes that the replicas being added lack of what their leader has, by partition."""
    copied = {partition: move for partition, move in moves.items() if move.adding}
    leaders = {
        TopicPartition(topic.name, each.partition_index): each.leader_id
        for topic in describe_topics(admin, sorted({topic for topic, _ in copied}))
        for each in topic.partitions
    }
    brokers = {broker for partition, move in copied.items() for broker in (*move.adding, leaders.get(partition, -1))}
    found = held(admin, brokers - {-1})
    return {
        partition: sum(
            max(
                0,
                size_of(found, Replica(leaders.get(partition, -1), *partition))
                - size_of(found, Replica(b, *partition)),
            )
            for b in move.adding
        )
        for partition, move in copied.items()
    }


def _left(count: int, speed: float) -> str:
    if count == 0:
        return "0 bytes left"
    if speed <= 0:
        return f"{count:,} bytes left, none copied in the last second"
    minutes, seconds = divmod(round(count / speed), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{count:,} bytes left at {speed:,.0f} B/s: {hours}:{minutes:02}:{seconds:02} to go"
