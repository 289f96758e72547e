"""`tidelog explain timeline T-0`: the events of a partition from all brokers, in order of time."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from tidelog.cli.admin_requests import metadata
from tidelog.explain.core.evidence import BrokerEvent, BrokerEvidence
from tidelog.explain.gathering.reports import add_reports
from tidelog.explain.io import run
from tidelog.shell.transport import Admin

Fields = Mapping[str, Any]

SENTENCES: dict[str, Callable[[Fields], str]] = {
    "controller.elected": lambda f: f"becomes controller, epoch {f['epoch']}",
    "controller.resigned": lambda f: f"is no longer controller: {f['why']}",
    "broker.registered": lambda f: f"broker {f['broker']} is registered, broker epoch {f['epoch']}",
    "broker.gone": lambda f: f"broker {f['broker']} is gone",
    "broker.leaving": lambda f: f"broker {f['broker']} is leaving",
    "partition.elected": lambda f: (
        f"{_leader(f['leader'])} is elected, leader epoch {f['leader_epoch']}, ISR {_isr(f['isr'])} "
        f"(was {_leader(f['previous_leader'])}, {_isr(f['previous_isr'])}): {f['why']}"
    ),
    "partition.unclean": lambda f: (
        f"broker {f['leader']} is elected uncleanly: none of the ISR {_isr(f['previous_isr'])} is alive"
    ),
    "partition.eligible": lambda f: (
        f"broker {f['leader']} is elected as an eligible leader replica: no member of the ISR can lead"
    ),
    "isr.change": lambda f: f"ISR {_isr(f['previous_isr'])} becomes {_isr(f['isr'])}: {f['why']}",
    "isr.shrink": lambda f: f"its ISR is now {_isr(f['isr'])}: a follower fell behind",
    "isr.expand": lambda f: f"its ISR is now {_isr(f['isr'])}: a replica caught up",
    "partition.leader": lambda f: f"leads in epoch {f['epoch']}, {_offsets(f)}",
    "partition.follower": lambda f: f"follows {_leader(f['leader'])} in epoch {f['epoch']}, {_offsets(f)}",
    "log.truncate": lambda f: f"truncates its log from {f['before']} to {f['offset']}",
    "log.corrupt": lambda f: f"its log is corrupt: {f['reason']}",
    "log.uncleanable": lambda f: f"cannot compact its log: {f['reason']}",
    "folder.failed": lambda f: f"its log directory {f['folder']} is offline: {f['reason']}",
    "replica.deleted": lambda _: "deletes its replica",
    "topic.deleting": lambda f: f"topic {f['topic']} is marked for deletion",
    "topic.deleted": lambda f: f"topic {f['topic']} is gone",
}
"""Events with a sentence. Other events about the partition are printed with their fields."""


def partition_events(admin: Admin, partition: str) -> tuple[list[BrokerEvent], dict[int, int]]:
    """The events about a partition by time, and how many older events each broker has dropped.

    The list is empty if no event is about this partition itself.
    """
    brokers = [BrokerEvidence(each.node_id) for each in metadata(admin).brokers]
    found = [event for event in run(admin, add_reports(brokers, partition)) if _concerns(event, partition)]
    if not any("partition" in event.fields for event in found):
        found.clear()
    return found, {seen.id: seen.dropped_events for seen in brokers if seen.facts}


def _concerns(event: BrokerEvent, partition: str) -> bool:
    topic = event.fields.get("topic")
    if event.kind.startswith("topic."):
        return topic == partition.rpartition("-")[0]
    return event.kind in SENTENCES or "partition" in event.fields


def event_lines(events: Iterable[BrokerEvent]) -> Iterator[str]:
    for event in events:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.wall_ms / 1000))
        yield f"{stamp}.{event.wall_ms % 1000:03d}  broker {event.broker}  {event.kind:<20}  {event_sentence(event)}"


def event_sentence(event: BrokerEvent) -> str:
    describe = SENTENCES.get(event.kind)
    if describe is not None:
        with suppress(KeyError, TypeError):  # another release may report other fields
            return describe(event.fields)
    return " ".join(f"{name}={value}" for name, value in event.fields.items() if name not in ("partition", "broker"))


def _leader(broker: int) -> str:
    return "no leader" if broker < 0 else f"broker {broker}"


def _offsets(fields: Fields) -> str:
    return f"log end {fields['end']}, high watermark {fields['high_watermark']}"


def _isr(isr: Iterable[int]) -> str:
    return f"[{','.join(map(str, isr))}]"
