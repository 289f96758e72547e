"""Which partitions a query reads (assigned, subscribed by name, or by a pattern), and what the cluster knows about
them: a topic's ID distinguishes it from another of the same name, the leader epoch from an earlier state."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.client.admin import ANY
from tidelog.client.results import code_of
from tidelog.errors import ErrorCode
from tidelog.model import INTERNAL_TOPICS, NO_ID, TopicPartition, id_text
from tidelog.shell.transport import Admin
from tidelog.spark.options import BadOption, names
from tidelog.spark.reading.limits import from_json
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic

STRATEGIES = ("assign", "subscribe", "subscribePattern")


@dataclass(frozen=True)
class ChosenTopics:
    """The topics that one option selects: by name, optionally only some `partitions`, or by a pattern."""

    option: str
    topics: tuple[str, ...] = ()
    partitions: frozenset[TopicPartition] | None = None
    pattern: str | None = None

    def matches(self, topic: str) -> bool:
        """Whether the pattern matches a topic; it never matches internal ones."""
        return self.pattern is not None and topic not in INTERNAL_TOPICS and bool(re.fullmatch(self.pattern, topic))


@dataclass(frozen=True)
class FoundTopics:
    """What exists of them: each partition's leader epoch, each topic's ID ("" if brokers do not report it), and the
    missing ones."""

    epochs: dict[TopicPartition, int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()


def chosen(options: Mapping[str, str]) -> ChosenTopics:
    """BadOption unless exactly one of the three options is given and valid."""
    given = [name for name in STRATEGIES if name.lower() in options]
    if len(given) != 1:
        wanted = "one of the options {} must be given" if not given else "only one of the options {} can be given"
        raise BadOption(wanted.format(", ".join(STRATEGIES)) + (f"; there are {' and '.join(given)}" if given else ""))
    name = given[0]
    text = options[name.lower()].strip()
    if name == "subscribe":
        return ChosenTopics(name, topics=names(name, text))
    if name == "assign":
        partitions = from_json(name, text, '{"topicA":[0,1],"topicB":[2]}', _partitions)
        if not partitions:
            raise BadOption(f"option {name!r} assigns no partition: {text!r}")
        return ChosenTopics(name, tuple(sorted({topic for topic, _ in partitions})), partitions)
    try:
        re.compile(text)
    except re.error as reason:
        raise BadOption(f"option {name!r} is not a valid regular expression: {reason}: {text!r}") from None
    if not text:
        raise BadOption(f"option {name!r} is an empty pattern")
    return ChosenTopics(name, pattern=text)


def _partitions(value: Any) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, int(number)) for topic, numbers in value.items() for number in numbers)


def find_topics(admin: Admin, what: ChosenTopics) -> FoundTopics:
    """Look them up at any broker; ApiError if none answers or a topic may not be read."""
    requested = None if what.pattern is not None else [MetadataRequestTopic(name=topic) for topic in what.topics]
    answer = admin.ask(MetadataRequest(topics=requested, allow_auto_topic_creation=False), ANY)
    described = {topic.name: topic for topic in answer.topics if topic.name is not None}
    if what.pattern is not None:
        described = {name: topic for name, topic in described.items() if what.matches(name)}
    bad = [name for name, topic in described.items() if topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION]
    if bad:
        raise BadOption(f"option {what.option!r}: {bad[0]!r} is not a valid topic name")
    there = {name: topic for name, topic in described.items() if topic.partitions}
    found = {
        TopicPartition(name, each.partition_index): each.leader_epoch
        for name, topic in there.items()
        for each in topic.partitions
    }
    missing = {f"{name} ({code_of(described[name].error_code).name})" for name in what.topics if name not in there}
    if what.partitions is not None:
        missing |= {str(name) for name in what.partitions - found.keys() if name.topic in there}
        found = {name: epoch for name, epoch in found.items() if name in what.partitions}
    ids = {name: "" if topic.topic_id == NO_ID else id_text(topic.topic_id) for name, topic in there.items()}
    return FoundTopics(found, ids, frozenset(missing))


def listed(partitions: Iterable[TopicPartition]) -> str:
    """Partitions for a message; only the first ones if there are many."""
    listed = [str(name) for name in sorted(partitions)]
    return ", ".join(listed[:5]) + (f" and {len(listed) - 5} more" if len(listed) > 5 else "") or "none"
