"""What pages show, as JSON, from what the observer saw last."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tidelog.console.diagnosis import BrokerEvent, event_sentence
from tidelog.console.observer import Eligible, Observer, Position
from tidelog.console.topology import Topology, is_sound
from tidelog.model import NO_ID, TopicPartition, id_text
from tidelog.wire.messages.topics.metadata import MetadataResponsePartition, MetadataResponseTopic

Json = dict[str, Any]
MOST_ROWS = 500
MOST_TIMELINE = 200
SAME_EVENT_MS = 1_000
"""Within this time, two brokers that report the same mean the same event."""


def header(seen: Observer) -> Json:
    """What every page shows at its top."""
    topology = seen.topology or Topology()
    down = [broker for broker in topology.known_brokers if not seen.answers(broker)]
    level = "ok"
    if topology.under_replicated or down:
        level = "warning"
    nobody = bool(down) and len(down) == len(topology.known_brokers)
    if topology.offline or seen.topology is None or nobody or seen.broken:
        level = "error"
    return {
        "cluster_id": topology.cluster_id,
        "is_tidelog": seen.is_tidelog,
        "level": level,
        "down": down,
        "brokers": len(topology.known_brokers),
        "topics": len(topology.topics),
        "partitions": topology.partitions,
        "offline": topology.offline,
        "under_replicated": topology.under_replicated,
        "refusal": seen.refusal if seen.topology is None or nobody else None,
        "broken": next(iter(seen.broken.values()), None),
        "known": seen.topology is not None,
    }


def overview(seen: Observer) -> Json:
    topology = seen.topology or Topology()
    return {
        "controller": seen.controller,
        "replicas": topology.replicas,
        "brokers": [broker(seen, each) for each in topology.known_brokers],
        "points": [list(point) for point in seen.points],
        "troubles": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "offline": each.offline,
                "missing": each.missing,
            }
            for each in topology.troubles
        ],
        "timeline": timeline(seen.events),
    }


def broker(seen: Observer, number: int) -> Json:
    topology = seen.topology or Topology()
    known, view = topology.brokers.get(number), seen.brokers.get(number)
    folders = view.folders if view is not None else []
    return {
        "id": number,
        "address": f"{known.host}:{known.port}" if known is not None else "",
        "rack": known.rack if known is not None else None,
        "registered": known is not None,
        "answers": view is not None and view.answers,
        "since_ms": view.since_ms if view is not None else 0,
        "latency_ms": round(view.latency_ms, 1) if view is not None else None,
        "controller": number == seen.controller,
        "leaders": topology.leading.get(number, 0),
        "replicas": topology.hosting.get(number, 0),
        "folders": [each._asdict() for each in folders],
    }


def timeline(events: Sequence[BrokerEvent]) -> list[Json]:
    """The newest events; of one that several brokers report, the first report."""
    found: list[Json] = []
    said: dict[tuple[Any, ...], int] = {}
    for event in events:
        topic, partition, says = event.fields.get("topic"), event.fields.get("partition"), event_sentence(event)
        before = said.get((topic, partition, says))
        said[topic, partition, says] = event.wall_ms
        if before is None or event.wall_ms - before > SAME_EVENT_MS:
            found.append(
                {
                    "wall_ms": event.wall_ms,
                    "broker": event.broker,
                    "kind": event.kind,
                    "topic": topic,
                    "partition": partition,
                    "says": says,
                }
            )
    return found[-MOST_TIMELINE:]


SORTS: Mapping[str, Callable[[Json], Any]] = {
    "name": lambda row: row["name"],
    "partitions": lambda row: row["partitions"],
    "replication": lambda row: row["replication"],
    "trouble": lambda row: row["trouble"],
    "records": lambda row: row["records"],
    "bytes": lambda row: row["bytes"],
    "rate": lambda row: row["rate"],
}


def topics(seen: Observer, *, find: str, sort: str, descending: bool, page: int, size: int, internal: bool) -> Json:
    """One page of the list; filtered and sorted here, so that a browser never holds all of many topics."""
    topology = seen.topology or Topology()
    words = find.lower().split()
    chosen = [
        topic
        for name, topic in topology.topics.items()
        if (internal or not topic.is_internal) and all(word in name.lower() for word in words)
    ]
    size = min(max(size, 1), MOST_ROWS)
    if sort in ("name", "") and not descending:
        rows = [topic_row(seen, topic) for topic in chosen[page * size : (page + 1) * size]]
    else:
        ordered = sorted((topic_row(seen, topic) for topic in chosen), key=SORTS.get(sort, SORTS["name"]))
        if descending:
            ordered.reverse()
        rows = ordered[page * size : (page + 1) * size]
    hidden = sum(topic.is_internal for topic in topology.topics.values()) if not internal else 0
    return {"total": len(chosen), "hidden": hidden, "rows": rows}


def topic_row(seen: Observer, topic: MetadataResponseTopic) -> Json:
    name = topic.name or ""
    first = topic.partitions[0] if topic.partitions else None
    return {
        "name": name,
        "id": "" if topic.topic_id == NO_ID else id_text(topic.topic_id),
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replication": len(first.replica_nodes) if first is not None else 0,
        "trouble": seen.topology.troubled_topics.get(name, 0) if seen.topology is not None else 0,
        "records": sum(seen.ends.get(TopicPartition(name, each.partition_index), 0) for each in topic.partitions),
        "bytes": seen.sizes.get(name, 0),
        "rate": round(seen.rates.get(name, 0.0), 1),
    }


def partitions_page(
    topic: MetadataResponseTopic, *, page: int, size: int, only_trouble: bool
) -> tuple[int, list[MetadataResponsePartition]]:
    """How many partitions there are to show, and those of one page."""
    chosen = [each for each in topic.partitions if not only_trouble or not is_sound(each)]
    return len(chosen), chosen[page * size : (page + 1) * size]


def partition_rows(
    seen: Observer,
    topic: str,
    partitions: Sequence[MetadataResponsePartition],
    positions: Mapping[int, Mapping[TopicPartition, Position]],
    eligible: Mapping[int, Eligible],
) -> list[Json]:
    rows = []
    for each in partitions:
        name = TopicPartition(topic, each.partition_index)
        elr, last_known = eligible.get(each.partition_index, Eligible([], []))
        led = positions.get(each.leader_id, {}).get(name)
        replicas = []
        for replica in each.replica_nodes:
            own = positions.get(replica, {}).get(name)
            replicas.append(
                {
                    "broker": replica,
                    "state": replica_state(seen, each, replica, elr),
                    "end": own.end if own else None,
                    "high_watermark": own.high_watermark if own else None,
                    "lag": max(0, led.end - own.end) if led and own else None,
                }
            )
        row = {"index": each.partition_index, "leader": each.leader_id, "epoch": each.leader_epoch}
        rows.append({**row, "isr": each.isr_nodes, "eligible": elr, "last_known": last_known, "replicas": replicas})
    return rows


def replica_state(seen: Observer, partition: MetadataResponsePartition, replica: int, eligible: Collection[int]) -> str:
    if not seen.answers(replica):
        return "down"
    if replica == partition.leader_id:
        return "leader"
    if replica in partition.isr_nodes:
        return "in sync"
    return "eligible" if replica in eligible else "behind"


def matching(names: Sequence[str], find: str) -> list[str]:
    """The names that contain every word of the filter."""
    words = re.split(r"\s+", find.lower().strip())
    return [name for name in names if all(word in name.lower() for word in words)]
