"""The reports of Tidelog brokers: recent events, and facts that no API of Kafka's has."""

import json
from collections.abc import Iterable, Iterator, Sequence

from tidelog.explain.core.evidence import BrokerEvent, BrokerEvidence
from tidelog.explain.gathering.asking import Answer, Ask, Steps, ask_all, top_error
from tidelog.wire.messages.cluster.brokers import BrokerReportRequest, BrokerReportResponse

MAX_PAGES = 20
"""Brokers keep a few thousand events; one that always has more is not asked for ever."""


def add_reports(brokers: Sequence[BrokerEvidence], subject: str | None = None) -> Steps[list[BrokerEvent]]:
    """Add facts, clocks and how many events were dropped; the events by time, with `subject` those about a partition
    and those about no partition in particular."""
    first = yield from ask_all(
        {seen.id: Ask(BrokerReportRequest(since=0, subject=subject), seen.id) for seen in brokers}
    )
    for seen in brokers:
        _add(seen, first[seen.id])
    events = list(events_of(answer.response for answer in first.values()))
    pages = {broker: answer.response for broker, answer in first.items()}
    for _ in range(MAX_PAGES):
        following = {broker: page for broker, page in pages.items() if page is not None and page.events}
        if not following:
            break
        answers = yield from ask_all(
            {
                broker: Ask(BrokerReportRequest(since=page.events[-1].number + 1, subject=subject), broker)
                for broker, page in following.items()
            }
        )
        pages = {broker: answer.response for broker, answer in answers.items()}
        events += events_of(pages.values())
    return sorted(events, key=lambda event: event[:3])


def _add(seen: BrokerEvidence, answer: Answer) -> None:
    response, seen.report_error = answer.response, top_error(answer)
    if response is None or response.error_code or not response.facts:
        return
    seen.facts = json.loads(response.facts)
    seen.dropped_events = response.forgotten
    seen.ahead_ms = (response.wall_ms - answer.ended_ms, response.wall_ms - answer.began_ms)


def events_of(responses: Iterable[BrokerReportResponse | None]) -> Iterator[BrokerEvent]:
    for response in responses:
        if response is None:
            continue
        for each in response.events:
            fields = json.loads(each.fields)
            if isinstance(fields, dict):
                yield BrokerEvent(each.wall_ms, response.broker_id, each.number, each.kind, each.level, fields)
