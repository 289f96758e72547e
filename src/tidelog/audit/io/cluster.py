"""Plans the audit of a running cluster: its partitions, their replicas, and which parts are fetched or read from
folders.

Each replica is fetched from its own broker up to the high watermark that it had when the plan was made. The tail above
it is read from its folder if that is on this machine. With `from_folders` such a replica is read from its folder alone,
with the bytes that are on disk: a Tidelog broker repairs a damaged batch before it serves it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from tidelog.audit.core import finding
from tidelog.audit.core.acknowledged import between
from tidelog.audit.core.finding import Finding
from tidelog.audit.core.merging import ReplicaInfo
from tidelog.audit.core.scanning import UNKNOWN
from tidelog.audit.io import fetching, folders
from tidelog.audit.io.folders import Expected, LogFolder
from tidelog.audit.io.pieces import Piece
from tidelog.audit.io.plan import PIECE_BYTES, AcknowledgedRecords, Plan, Replica, Subject, of_folder, width_of
from tidelog.audit.io.unclean_elections import unclean_elections
from tidelog.client.admin import ANY, Leader
from tidelog.client.results import code_of
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin
from tidelog.wire.messages.cluster.log_dirs import DescribeLogDirsRequest
from tidelog.wire.messages.configs.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.records.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

TOPIC = 2
EARLIEST = -2
ANSWER_MS = 10_000
POLICY = "cleanup.policy"


@dataclass(slots=True)
class ClusterAccess:
    """How to connect to the cluster and what to read."""

    bootstrap: str
    options: Mapping[str, object] = field(default_factory=dict)
    from_folders: bool = False
    piece_bytes: int = PIECE_BYTES


class NotFound(Exception):
    """A requested topic does not exist."""


def plan(
    admin: Admin,
    access: ClusterAccess,
    *,
    topics: Iterable[str] = (),
    given: Sequence[LogFolder] = (),
    acknowledged: AcknowledgedRecords,
) -> Plan:
    """Plan the audit of these topics, or of all if none is given. `given` are log folders given by the user; folders
    that brokers report are used if they are on this machine. NotFound, or ApiError if the cluster does not answer."""
    metadata = _metadata(admin, sorted(topics))
    by_broker = {broker.node_id: _replicas_of(admin, broker.node_id) for broker in metadata.brokers}
    found = _reachable(metadata.cluster_id or "", by_broker, given)
    every = metadata if not topics else _metadata(admin, ())
    result = Plan(findings=_stray_replicas(every, found, by_broker, set(topics)))
    compacted = _compacted(admin, [topic.name or "" for topic in metadata.topics])
    for topic in sorted(metadata.topics, key=lambda each: each.name or ""):
        for each in sorted(topic.partitions, key=lambda one: one.partition_index):
            name = TopicPartition(topic.name or "", each.partition_index)
            subject = Subject(name, is_compacted=name.topic in compacted, leader=each.leader_id)
            subject.leader_epoch = each.leader_epoch
            subject.acknowledged = acknowledged.get(name, ())
            _replicas(admin, access, subject, each, topic.topic_id, by_broker, found)
            result.subjects.append(subject)
    result.findings += unclean_elections(
        admin, [broker.node_id for broker in metadata.brokers], {s.name for s in result.subjects}
    )
    return result


def _metadata(admin: Admin, topics: Sequence[str]) -> MetadataResponse:
    named = [MetadataRequestTopic(name=name) for name in topics] if topics else None
    response = admin.ask(MetadataRequest(topics=named, allow_auto_topic_creation=False), ANY)
    assert isinstance(response, MetadataResponse)
    for topic in response.topics:
        if topic.error_code:
            raise NotFound(f"Topic {topic.name} cannot be audited: {code_of(topic.error_code).name}.")
    return response


@dataclass(slots=True)
class _BrokerReplicas:
    """A broker's log folders: partition → (folder, bytes). `silent` is set, with the reason, once the broker did not
    answer; it is not queried again."""

    replicas: dict[TopicPartition, tuple[str, int]] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    silent: str = ""


def _replicas_of(admin: Admin, broker: int) -> _BrokerReplicas:
    found = _BrokerReplicas()
    try:
        response = admin.ask(DescribeLogDirsRequest(topics=None), broker, timeout_ms=ANSWER_MS)
    except ApiError as error:
        found.silent = f"broker {broker} does not answer ({error.code.name})"
        return found
    for folder in response.results:
        found.folders += [folder.log_dir] if not folder.error_code else []
        for topic in folder.topics if not folder.error_code else ():
            for each in topic.partitions:
                if not each.is_future_key:
                    name = TopicPartition(topic.name, each.partition_index)
                    found.replicas[name] = folder.log_dir, each.partition_size
    return found


def _reachable(
    cluster_id: str, by_broker: Mapping[int, _BrokerReplicas], given: Sequence[LogFolder]
) -> list[LogFolder]:
    """The given folders, and those on this machine that belong to the brokers of this cluster."""
    found = {folder.path: folder for folder in given}
    for broker, each in by_broker.items():
        for text in each.folders:
            path = Path(text)
            if path.resolve() in found or not path.is_dir():
                continue
            try:
                folder = folders.read(path.resolve())
            except OSError:
                continue
            if (folder.broker, folder.cluster_id) == (broker, cluster_id):
                found[folder.path] = folder
    return list(found.values())


def _stray_replicas(
    metadata: MetadataResponse, found: Sequence[LogFolder], by_broker: Mapping[int, _BrokerReplicas], wanted: set[str]
) -> list[Finding]:
    ids = {topic.name or "": topic.topic_id for topic in metadata.topics}
    brokers = {
        TopicPartition(topic.name or "", each.partition_index): each.replica_nodes
        for topic in metadata.topics
        for each in topic.partitions
    }
    findings = list(folders.stray_replicas(found, Expected(ids, brokers)))
    read = {folder.broker for folder in found}
    for broker, each in sorted(by_broker.items()):
        for name, (folder, _) in sorted(each.replicas.items() if broker not in read else ()):
            if broker not in brokers.get(name, ()):
                sentence = f"{folder} holds a replica that the partition does not have"
                findings.append(Finding(finding.ORPHAN, *name, (broker,), sentence))
    return [each for each in findings if not wanted or each.topic in wanted or each.partition < 0]


def _compacted(admin: Admin, names: Sequence[str]) -> set[str]:
    resources = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=[POLICY]) for name in names
    ]
    response = admin.ask(DescribeConfigsRequest(resources=resources), ANY) if resources else None
    return {
        result.resource_name
        for result in (response.results if response is not None else ())
        for each in result.configs
        if each.name == POLICY and "compact" in (each.value or "")
    }


# The replicas of one partition.


def _replicas(
    admin: Admin,
    access: ClusterAccess,
    subject: Subject,
    metadata: Any,
    topic_id: bytes,
    by_broker: Mapping[int, _BrokerReplicas],
    found: Sequence[LogFolder],
) -> None:
    probes = {}
    for broker in metadata.replica_nodes:
        source = fetching.Source(access.bootstrap, broker, topic_id, access.options)
        probes[broker] = (source, _probed(admin, source, subject.name, by_broker.get(broker)))
    bounds = [probe for _, probe in probes.values() if not probe.trouble]
    span = max((probe.end for probe in bounds), default=0) - min((probe.start for probe in bounds), default=0)
    subject.width = width_of(span)
    for broker, (source, probe) in probes.items():
        info = ReplicaInfo(
            broker,
            source="fetch",
            high_watermark=probe.end,
            log_start=probe.start,
            in_sync=broker in metadata.isr_nodes,
            is_leader=broker == subject.leader,
            is_growing=broker in by_broker,
            trouble=probe.trouble,
        )
        folder = next((f for f in found if f.broker == broker and subject.name in f.replicas), None)
        size = by_broker[broker].replicas.get(subject.name, ("", 0))[1] if broker in by_broker else 0
        try:
            subject.replicas.append(_replica(access, subject, info, source, folder, size))
        except OSError as error:  # it was removed in the meantime
            subject.replicas.append(Replica(replace(info, trouble=str(error)), []))


@dataclass(slots=True)
class _Probe:
    """The start offset and the high watermark of a replica."""

    trouble: str = ""
    start: int = UNKNOWN
    end: int = UNKNOWN


def _probed(admin: Admin, source: fetching.Source, name: TopicPartition, held: _BrokerReplicas | None) -> _Probe:
    """Probe a replica. A broker that did not answer once is not queried again: for a thousand partitions every timeout
    would add up."""
    if held is None:
        return _Probe(f"broker {source.broker} is not running")
    if held.silent:
        return _Probe(held.silent)
    try:
        return _probe(admin, source, name)
    except fetching.NoAnswer as error:
        held.silent = str(error)
        return _Probe(held.silent)


def _probe(admin: Admin, source: fetching.Source, name: TopicPartition) -> _Probe:
    """Fetch from offset 0; if that was deleted, from the start offset of the leader."""
    try:
        data = fetching.fetch(source, name, 0, max_bytes=1, timeout_ms=ANSWER_MS)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            data = fetching.fetch(source, name, _beginning(admin, name), max_bytes=1, timeout_ms=ANSWER_MS)
    except fetching.NoAnswer:
        raise
    except (fetching.NotReadable, ApiError) as error:
        return _Probe(str(error))
    if data.error_code:
        return _Probe(f"broker {source.broker} answers {code_of(data.error_code).name}")
    return _Probe("", data.log_start_offset, data.high_watermark)


def _beginning(admin: Admin, name: TopicPartition) -> int:
    wanted = ListOffsetsPartition(partition_index=name.partition, timestamp=EARLIEST)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name.topic, partitions=[wanted])])
    response = admin.ask(request, Leader(*name), timeout_ms=ANSWER_MS)
    return int(response.topics[0].partitions[0].offset)


def _replica(
    access: ClusterAccess,
    subject: Subject,
    info: ReplicaInfo,
    source: fetching.Source,
    folder: LogFolder | None,
    size: int,
) -> Replica:
    path = folder.replicas[subject.name] if folder is not None else None
    if folder is not None and path is not None and (access.from_folders or info.trouble):
        own = of_folder(folder, path, subject, is_growing=info.is_growing, piece_bytes=access.piece_bytes)
        marks = max(info.high_watermark, own.info.high_watermark)
        start = max(info.log_start, own.info.log_start)
        seen = replace(own.info, high_watermark=marks, log_start=start, in_sync=info.in_sync, is_leader=info.is_leader)
        return Replica(seen, own.pieces, path)
    if info.trouble:
        return Replica(info, [])
    pieces = _fetched(access, subject, info, source, size)
    if folder is None or path is None:
        return Replica(replace(info, ends_at_watermark=True), pieces)
    tail = of_folder(folder, path, subject, start=info.high_watermark, number=len(pieces), is_growing=True)
    seen = replace(
        info,
        source="fetch+folder",
        folder=str(path),
        recovery_point=tail.info.recovery_point,
        segments=tail.info.segments,
        last_base=tail.info.last_base,
    )
    return Replica(seen, pieces + tail.pieces, path)


def _fetched(
    access: ClusterAccess, subject: Subject, info: ReplicaInfo, source: fetching.Source, size: int
) -> list[Piece]:
    """Cut [log start, high watermark) into pieces of similar size, at chunk boundaries."""
    start, end = info.log_start, info.high_watermark
    count = max(1, -(-size // access.piece_bytes))
    step = max(subject.width, -(-(end - start) // count // subject.width) * subject.width)
    bounds = [start, *range((start // step + 1) * step, end, step), end]
    return [
        Piece(
            subject.name,
            info.broker,
            number,
            subject.width,
            gaps_allowed=subject.is_compacted,
            start=low,
            end=high,
            is_growing=True,
            source=source,
            acknowledged=between(subject.acknowledged, low, high),
            size=size // count,
        )
        for number, (low, high) in enumerate(pairwise(bounds))
        if low < high
    ]
