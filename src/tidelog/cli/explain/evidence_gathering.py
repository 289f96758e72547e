"""Gathers evidence from the brokers: most from Kafka's APIs, the rest from the reports of Tidelog brokers.

Sizes are read twice, to compute rates. A broker that does not answer in time counts as down.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from tidelog.cli.admin_requests import describe_configs, metadata
from tidelog.cli.explain.evidence import BrokerEvent, BrokerEvidence, Evidence, LogDir, PartitionEvidence
from tidelog.cli.options import CommandFailed
from tidelog.cli.replicas.replica_requests import describe_log_dirs, ongoing
from tidelog.cli.transaction_actions import open_transactions
from tidelog.config.alter import TOPIC
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import NO_LEADER, TopicPartition
from tidelog.shell.transport import Admin
from tidelog.wire.messages.cluster.brokers import BrokerReportRequest, BrokerReportResponse
from tidelog.wire.messages.cluster.log_dirs import DescribeLogDirsResult
from tidelog.wire.messages.topics.metadata import MetadataResponse
from tidelog.wire.messages.transactions.transaction_admin import (
    DescribeProducersRequest,
    ProducerState,
    TopicRequest,
)

REQUEST_TIMEOUT_MS = 3_000
LONG_TRANSACTION_MS = 60_000
"""The time since the last record after which a transaction is reported, in milliseconds."""

Answer = TypeVar("Answer")


def gather(admin: Admin, wanted: Callable[[str], bool], *, watch_s: float) -> Evidence:
    """The evidence on all brokers and on the topics that `wanted` selects; sizes are watched for `watch_s` seconds."""
    response = metadata(admin)
    partitions = _partitions(response, wanted)
    brokers = {each.node_id: BrokerEvidence(each.node_id, f"{each.host}:{each.port}") for each in response.brokers}
    for broker in {replica for seen in partitions.values() for replica in seen.replicas}.difference(brokers):
        brokers[broker] = BrokerEvidence(broker)
    evidence = Evidence(int(time.time() * 1000), response.cluster_id or "", response.controller_id, brokers, partitions)
    registered = sorted(each.node_id for each in response.brokers)
    for broker in registered:
        _add_report(admin, brokers[broker], evidence)
    # A deletion may wait for a broker that no partition and no registration names; only reports, read above, name it.
    for broker in {each for waiting in evidence.deleting.values() for each in waiting}.difference(brokers):
        brokers[broker] = BrokerEvidence(broker)
    evidence.events.sort()
    _add_configs(admin, evidence)
    evidence.moves = _answer_or_none(lambda: ongoing(admin, REQUEST_TIMEOUT_MS)) or {}
    _add_transactions(admin, evidence)
    _add_sizes(admin, evidence, registered, watch_s)
    return evidence


def _partitions(response: MetadataResponse, wanted: Callable[[str], bool]) -> dict[TopicPartition, PartitionEvidence]:
    found = {}
    for topic in response.topics:
        for each in topic.partitions if wanted(topic.name or "") else ():
            name = TopicPartition(topic.name or "", each.partition_index)
            found[name] = PartitionEvidence(name, each.leader_id, each.leader_epoch, each.replica_nodes, each.isr_nodes)
    return found


def _answer_or_none(ask: Callable[[], Answer]) -> Answer | None:
    """The response, or None if the cluster does not support the request or does not answer."""
    try:
        return ask()
    except (ApiError, CommandFailed):
        return None


def broker_report(admin: Admin, broker: int, subject: str | None = None) -> BrokerReportResponse | None:
    """A broker's report with all its events; None if it does not answer or is not a Tidelog broker."""

    def request_page(since: int) -> BrokerReportResponse | None:
        request = BrokerReportRequest(since=since, subject=subject)
        return _answer_or_none(lambda: admin.ask(request, broker, timeout_ms=REQUEST_TIMEOUT_MS, retries=False))

    whole = page = request_page(0)
    while page is not None and page.events and whole is not None:
        page = request_page(page.events[-1].number + 1)
        whole.events += page.events if page is not None else []
    return whole


def broker_events(response: BrokerReportResponse) -> Iterator[BrokerEvent]:
    for each in response.events:
        yield BrokerEvent(each.wall_ms, response.broker_id, each.number, each.kind, each.level, json.loads(each.fields))


def _add_report(admin: Admin, seen: BrokerEvidence, evidence: Evidence) -> None:
    response = broker_report(admin, seen.id)
    if response is None:
        return
    seen.answers = True
    seen.facts = json.loads(response.facts)
    seen.dropped_events = response.forgotten
    evidence.events += broker_events(response)
    evidence.deleting = {**evidence.deleting, **seen.facts["controller"]["deletions"]}


def _add_configs(admin: Admin, evidence: Evidence) -> None:
    topics = sorted({name.topic for name in evidence.partitions})
    options = _answer_or_none(lambda: describe_configs(admin, TOPIC, topics)) if topics else None
    for seen in evidence.partitions.values():
        given = {each.name: each.value for each in (options or {}).get(seen.name.topic, ())}
        seen.min_insync = int(given.get("min.insync.replicas") or 1)
        seen.unclean = given.get("unclean.leader.election.enable") == "true"


def _add_transactions(admin: Admin, evidence: Evidence) -> None:
    """Add transactions that have been open for long, from the leaders' logs."""
    led: dict[int, dict[str, list[int]]] = {}
    for (topic, index), seen in evidence.partitions.items():
        if seen.leader != NO_LEADER:
            led.setdefault(seen.leader, {}).setdefault(topic, []).append(index)
    known = [each for leader, topics in led.items() for each in _producers(admin, leader, topics)]
    for each in _answer_or_none(lambda: open_transactions(admin, known, LONG_TRANSACTION_MS)) or ():
        evidence.partitions[each.partition].transactions.append(each)


def _producers(
    admin: Admin, leader: int, topics: Mapping[str, list[int]]
) -> Iterator[tuple[TopicPartition, ProducerState]]:
    topic_requests = [TopicRequest(name=topic, partition_indexes=indexes) for topic, indexes in topics.items()]
    request = DescribeProducersRequest(topics=topic_requests)
    answer = _answer_or_none(lambda: admin.ask(request, leader, timeout_ms=REQUEST_TIMEOUT_MS, retries=False))
    for topic in answer.topics if answer is not None else ():
        for each in topic.partitions:
            yield from ((TopicPartition(topic.name, each.partition_index), one) for one in each.active_producers)


def _add_sizes(admin: Admin, evidence: Evidence, brokers: Iterable[int], watch_s: float) -> None:
    """Add sizes and rates of replicas and log directories, by reading sizes twice."""
    first = {broker: describe_log_dirs(admin, broker) for broker in brokers}
    began = time.monotonic()
    time.sleep(watch_s)
    for broker, before in first.items():
        after = describe_log_dirs(admin, broker) if before else []
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
        evidence.brokers[broker].folders = list(_log_dir_states(before, after, passed))


def _sizes(response: Sequence[DescribeLogDirsResult]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, each.partition_index): each.partition_size
        for folder in response
        for topic in folder.topics
        for each in topic.partitions
        if not each.is_future_key
    }


def _log_dir_states(
    before: Sequence[DescribeLogDirsResult], after: Sequence[DescribeLogDirsResult], s: float
) -> Iterator[LogDir]:
    old = {folder.log_dir: folder for folder in before}
    for folder in after:
        trouble = ErrorCode(folder.error_code).name if folder.error_code else None
        earlier = old.get(folder.log_dir)
        growth = (earlier.usable_bytes - folder.usable_bytes) / s if earlier is not None else 0
        yield LogDir(folder.log_dir, trouble, folder.total_bytes, folder.usable_bytes, max(0.0, growth))
