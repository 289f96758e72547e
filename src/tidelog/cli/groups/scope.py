"""The partitions that `--topic` and `--all-topics` mean."""

from collections.abc import Mapping
from typing import Any

from tidelog.cli.cluster import metadata, reason
from tidelog.cli.groups.knowledge import committed
from tidelog.cli.options import Refused, usage
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin


def partitions_meant(admin: Admin, group: str, given: Mapping[str, Any]) -> list[TopicPartition]:
    """Sorted; Refused where a topic does not exist."""
    if given["all_topics"]:
        return sorted(committed(admin, group))
    named = [named_partitions(text) for text in given["topic"]]
    found = {TopicPartition(topic, number) for topic, numbers in named for number in numbers or ()}
    whole = sorted({topic for topic, numbers in named if numbers is None})
    for topic in metadata(admin, whole).topics if whole else []:
        if topic.error_code:
            raise Refused(f"Topic {topic.name}: {reason(topic.error_code)}")
        found.update(TopicPartition(topic.name or "", each.partition_index) for each in topic.partitions)
    return sorted(found)


def named_partitions(text: str) -> tuple[str, list[int] | None]:
    """`topic:0,1` as the topic and its partitions, None for all of them."""
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    try:
        return topic, [int(number) for number in numbers.split(",")]
    except ValueError:
        raise usage(f"--topic must be TOPIC or TOPIC:0,1,2, not {text!r}.") from None
