"""Asking the brokers. Kafka's own APIs tell most; what only a Tidelog broker knows comes in its report.

Sizes are looked at twice, so that what grows has a rate. A broker that does not answer in time is known as silent.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from tidelog.cli.admin_requests import describe_configs, metadata
from tidelog.cli.explain.evidence import BrokerEvent, BrokerSeen, Evidence, Folder, PartitionSeen
from tidelog.cli.options import Refused
from tidelog.cli.replicas.replica_requests import log_folders, ongoing
from tidelog.cli.transaction_actions import open_for
from tidelog.config.alter import TOPIC
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import NO_LEADER, TopicPartition
from tidelog.shell.transport import Admin
from tidelog.wire.messages.cluster.broker_report import BrokerReportRequest, BrokerReportResponse
from tidelog.wire.messages.cluster.describe_log_dirs import DescribeLogDirsResult
from tidelog.wire.messages.topics.metadata import MetadataResponse
from tidelog.wire.messages.transactions.describe_producers import (
    DescribeProducersRequest,
    ProducerState,
    TopicRequest,
)

ANSWER_MS = 3_000
LONG_OPEN_MS = 60_000
"""A transaction without a new record for longer is told of."""

Answer = TypeVar("Answer")


def gather(admin: Admin, wanted: Callable[[str], bool], *, watch_s: float) -> Evidence:
    """Everything known of the topics that are wanted, and of all brokers; sizes are watched for so many seconds."""
    told = metadata(admin)
    partitions = _partitions(told, wanted)
    brokers = {each.node_id: BrokerSeen(each.node_id, f"{each.host}:{each.port}") for each in told.brokers}
    for broker in {replica for seen in partitions.values() for replica in seen.replicas}.difference(brokers):
        brokers[broker] = BrokerSeen(broker)
    evidence = Evidence(int(time.time() * 1000), told.cluster_id or "", told.controller_id, brokers, partitions)
    registered = sorted(each.node_id for each in told.brokers)
    for broker in registered:
        _report(admin, brokers[broker], evidence)
    for broker in {each for waiting in evidence.deleting.values() for each in waiting}.difference(brokers):
        brokers[broker] = BrokerSeen(broker)
    evidence.events.sort()
    _configure(admin, evidence)
    evidence.moves = _try(lambda: ongoing(admin, ANSWER_MS)) or {}
    _transactions(admin, evidence)
    _watch_sizes(admin, evidence, registered, watch_s)
    return evidence


def _partitions(told: MetadataResponse, wanted: Callable[[str], bool]) -> dict[TopicPartition, PartitionSeen]:
    found = {}
    for topic in told.topics:
        for each in topic.partitions if wanted(topic.name or "") else ():
            name = TopicPartition(topic.name or "", each.partition_index)
            found[name] = PartitionSeen(name, each.leader_id, each.leader_epoch, each.replica_nodes, each.isr_nodes)
    return found


def _try(ask: Callable[[], Answer]) -> Answer | None:
    """The answer, or None where the cluster does not know the request or does not answer."""
    try:
        return ask()
    except (ApiError, Refused):
        return None


def report(admin: Admin, broker: int, subject: str | None = None) -> BrokerReportResponse | None:
    """A broker's whole memory; None where it is silent or no Tidelog."""

    def ask(since: int) -> BrokerReportResponse | None:
        request = BrokerReportRequest(since=since, subject=subject)
        return _try(lambda: admin.ask(request, broker, timeout_ms=ANSWER_MS, retries=False))

    whole = page = ask(0)
    while page is not None and page.events and whole is not None:
        page = ask(page.events[-1].number + 1)
        whole.events += page.events if page is not None else []
    return whole


def events(told: BrokerReportResponse) -> Iterator[BrokerEvent]:
    for each in told.events:
        yield BrokerEvent(each.wall_ms, told.broker_id, each.number, each.kind, each.level, json.loads(each.fields))


def _report(admin: Admin, seen: BrokerSeen, evidence: Evidence) -> None:
    told = report(admin, seen.id)
    if told is None:
        return
    seen.answers = True
    seen.facts = json.loads(told.facts)
    seen.forgotten = told.forgotten
    evidence.events += events(told)
    evidence.deleting = {**evidence.deleting, **seen.facts["controller"]["deletions"]}


def _configure(admin: Admin, evidence: Evidence) -> None:
    topics = sorted({name.topic for name in evidence.partitions})
    options = _try(lambda: describe_configs(admin, TOPIC, topics)) if topics else None
    for seen in evidence.partitions.values():
        given = {each.name: each.value for each in (options or {}).get(seen.name.topic, ())}
        seen.needed = int(given.get("min.insync.replicas") or 1)
        seen.unclean = given.get("unclean.leader.election.enable") == "true"


def _transactions(admin: Admin, evidence: Evidence) -> None:
    """Transactions that have been open for long, as the leaders' logs have them."""
    led: dict[int, dict[str, list[int]]] = {}
    for (topic, index), seen in evidence.partitions.items():
        if seen.leader != NO_LEADER:
            led.setdefault(seen.leader, {}).setdefault(topic, []).append(index)
    known = [each for leader, topics in led.items() for each in _producers(admin, leader, topics)]
    for each in _try(lambda: open_for(admin, known, LONG_OPEN_MS)) or ():
        evidence.partitions[each.partition].transactions.append(each)


def _producers(
    admin: Admin, leader: int, topics: Mapping[str, list[int]]
) -> Iterator[tuple[TopicPartition, ProducerState]]:
    wishes = [TopicRequest(name=topic, partition_indexes=indexes) for topic, indexes in topics.items()]
    request = DescribeProducersRequest(topics=wishes)
    answer = _try(lambda: admin.ask(request, leader, timeout_ms=ANSWER_MS, retries=False))
    for topic in answer.topics if answer is not None else ():
        for each in topic.partitions:
            yield from ((TopicPartition(topic.name, each.partition_index), one) for one in each.active_producers)


def _watch_sizes(admin: Admin, evidence: Evidence, brokers: Iterable[int], watch_s: float) -> None:
    """Look at the folders twice."""
    first = {broker: log_folders(admin, broker) for broker in brokers}
    began = time.monotonic()
    time.sleep(watch_s)
    for broker, before in first.items():
        after = log_folders(admin, broker) if before else []
        if not after:
            continue
        evidence.brokers[broker].answers = True
        passed = time.monotonic() - began
        old, new = _sizes(before), _sizes(after)
        for name, size in new.items():
            seen = evidence.partitions.get(name)
            if seen is not None:
                seen.sizes[broker] = size
                seen.rates[broker] = max(0.0, size - old.get(name, size)) / passed
        evidence.brokers[broker].folders = list(_folder_states(before, after, passed))


def _sizes(told: Sequence[DescribeLogDirsResult]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, each.partition_index): each.partition_size
        for folder in told
        for topic in folder.topics
        for each in topic.partitions
        if not each.is_future_key
    }


def _folder_states(
    before: Sequence[DescribeLogDirsResult], after: Sequence[DescribeLogDirsResult], s: float
) -> Iterator[Folder]:
    old = {folder.log_dir: folder for folder in before}
    for folder in after:
        trouble = ErrorCode(folder.error_code).name if folder.error_code else None
        was = old.get(folder.log_dir)
        grows = (was.usable_bytes - folder.usable_bytes) / s if was is not None else 0
        yield Folder(folder.log_dir, trouble, folder.total_bytes, folder.usable_bytes, max(0.0, grows))
