"""Unclean elections that brokers report, and the truncations after them. Brokers other than Tidelog report none."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from tidelog.audit.core.finding import HEARD, Finding
from tidelog.errors import ApiError
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin
from tidelog.wire.messages.cluster.brokers import BrokerReportRequest

ELECTED, CUT = "partition.unclean", "log.truncate"
ANSWER_MS = 3_000


class _Event(NamedTuple):
    wall_ms: int
    broker: int
    kind: str
    fields: dict[str, Any]


def unclean_elections(admin: Admin, brokers: Sequence[int], wanted: Collection[TopicPartition]) -> list[Finding]:
    """A finding for each unclean election of a requested partition, with what its replicas truncated afterwards."""
    by_name: defaultdict[str, list[_Event]] = defaultdict(list)
    for broker in brokers:
        for event in _events(admin, broker):
            by_name[_partition_name(event.fields)].append(event)
    return [each for name in sorted(wanted) for each in _of_partition(name, sorted(by_name[str(name)]))]


def _partition_name(fields: dict[str, Any]) -> str:
    """A controller reports topic and number, a replica its name."""
    return f"{fields['topic']}-{fields['partition']}" if "topic" in fields else str(fields.get("partition"))


def _events(admin: Admin, broker: int) -> Iterator[_Event]:
    since = 0
    while True:
        try:
            response = admin.ask(BrokerReportRequest(since=since), broker, timeout_ms=ANSWER_MS, retries=False)
        except ApiError:
            return
        for each in response.events:
            if each.kind in (ELECTED, CUT):
                yield _Event(each.wall_ms, broker, each.kind, json.loads(each.fields))
        if not response.events:
            return
        since = response.events[-1].number + 1


def _of_partition(name: TopicPartition, events: Sequence[_Event]) -> Iterator[Finding]:
    elections = [event for event in events if event.kind == ELECTED]
    for number, election in enumerate(elections):
        until = elections[number + 1].wall_ms if number + 1 < len(elections) else None
        cuts = [
            f"broker {event.broker} truncated offsets {event.fields['offset']} to {event.fields['before'] - 1}"
            for event in events
            if event.kind == CUT
            and event.wall_ms >= election.wall_ms
            and (until is None or event.wall_ms < until)
            and event.fields["before"] > event.fields["offset"]
        ]
        leader = election.fields["leader"]
        sentence = f"broker {leader} was elected uncleanly; {' and '.join(cuts) or 'nothing was truncated since'}"
        yield Finding(HEARD, *name, (leader,), sentence)
