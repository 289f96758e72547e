"""Watches a cluster: who answers, who leads, how far every log is, what is full.

Each look repeats after a pause that is longer the longer it takes, so that a cluster with many partitions costs no more
than a small one (`PAUSE_FACTOR`). Whether brokers answer is asked with a small request of its own, twice a second: a
broker that is gone is seen before the cluster itself notices.
"""

import asyncio
import heapq
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidelog.cli.admin_requests import LATEST, list_offsets_request, listed_offsets
from tidelog.cli.replica_states import (
    DEBUGGING_REPLICA_ID,
    NEWEST_FETCH_BY_NAME,
    watermarks,
    watermarks_request,
)
from tidelog.client.admin import ANY
from tidelog.client.results import code_of
from tidelog.console.diagnosis import SENTENCES, BrokerEvent, events_of
from tidelog.console.topology import SEEN_BY_CONSOLE, Topology, events_between
from tidelog.errors import ApiError, ErrorCode, InvalidOption
from tidelog.model import TopicPartition
from tidelog.shell.async_clients import AsyncAdmin
from tidelog.wire.messages.cluster.brokers import BrokerReportRequest
from tidelog.wire.messages.cluster.log_dirs import DescribeLogDirsRequest
from tidelog.wire.messages.topics.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataResponsePartition,
    TopicRequest,
)

BEAT_S = 0.5
TOPOLOGY_S = 1.0
HURRY_S = 0.2
HURRIES_FOR_S = 5.0
"""How often, and how long, the topology is asked for after a broker has gone or come."""
OFFSETS_S = 1.0
DISKS_S = 5.0
REPORTS_S = 1.0
ANSWER_MS = 1_500
SLOW_ANSWER_MS = 10_000
PAUSE_FACTOR = 8
MOST_EVENTS = 2_000
MOST_POINTS = 300
QUIET_KINDS = frozenset({"partition.leader", "partition.follower", "isr.shrink", "isr.expand", "replica.deleted"})
"""What brokers report besides the controller's own event of the same change."""
TIMELINE_KINDS = frozenset(SENTENCES) - QUIET_KINDS


class Point(NamedTuple):
    """One moment of the cluster's history: records and bytes per second, and partitions with trouble."""

    wall_ms: int
    records: float
    bytes: float
    troubled: int


class Folder(NamedTuple):
    path: str
    error: str | None
    total: int
    usable: int
    used: int


MOST_DESCRIBED = 2000
"""Partitions in one answer, as many as brokers give."""


class Eligible(NamedTuple):
    """The eligible leader replicas of a partition, and the last leader of one that has none (KIP-966)."""

    elr: list[int]
    last_known: list[int]


class Position(NamedTuple):
    end: int
    high_watermark: int | None


@dataclass(slots=True)
class BrokerView:
    """What is known of one broker. `latency_ms` is that of the last answer, `folders` its log directories."""

    id: int
    answers: bool = False
    since_ms: int = 0
    latency_ms: float = 0.0
    controller: int = -1
    folders: list[Folder] = field(default_factory=list)
    reports: bool | None = None
    """Whether it serves BrokerReport, as Tidelog does; None before it was asked."""
    next_event: int = 0


class Observer:
    """`run` looks until it is cancelled. Everything else reads what was seen last."""

    def __init__(self, admin: AsyncAdmin, pulse: AsyncAdmin) -> None:
        """`pulse` has connections of its own, so that no large answer makes a broker look dead."""
        self.admin = admin
        self._pulse = pulse
        self.topology: Topology | None = None
        self.brokers: dict[int, BrokerView] = {}
        self.ends: dict[TopicPartition, int] = {}
        """The high watermarks that leaders reported last."""
        self.rates: dict[str, float] = {}
        """Records per second, by topic."""
        self.sizes: dict[str, int] = {}
        """Bytes of one replica of each partition, by topic."""
        self.points: deque[Point] = deque(maxlen=MOST_POINTS)
        self.refusal: str | None = None
        """Why no broker can be asked: a password or a certificate that is refused, or no broker that answers."""
        self.broken: dict[str, str] = {}
        """What the console cannot read, by the look that failed last."""
        self._events: list[tuple[int, int, BrokerEvent]] = []
        """A heap of (time, number, event), so that the oldest goes first."""
        self._event_count = 0
        self._seen_events: set[tuple[int, int, int]] = set()
        self._is_due = asyncio.Event()
        self._changed = asyncio.Condition()
        self._hurry_until = 0.0
        self._ends_at = 0.0
        self._bytes: tuple[float, int] = (0.0, 0)
        self._byte_rate = 0.0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._repeat(self._beat, BEAT_S))
            tasks.create_task(self._watch_topology())
            tasks.create_task(self._repeat(self._look_at_offsets, OFFSETS_S))
            tasks.create_task(self._repeat(self._look_at_disks, DISKS_S))
            tasks.create_task(self._repeat(self._read_reports, REPORTS_S))

    def close(self) -> None:
        self.admin.close()
        self._pulse.close()

    @property
    def is_tidelog(self) -> bool:
        return any(broker.reports for broker in self.brokers.values())

    @property
    def events(self) -> list[BrokerEvent]:
        """The newest events, oldest first; those that brokers report themselves replace the console's own."""
        found = [event for _, _, event in sorted(self._events, key=lambda entry: entry[:2])]
        if self.is_tidelog:
            found = [event for event in found if event.broker != SEEN_BY_CONSOLE]
        return found

    @property
    def controller(self) -> int:
        """The controller of a Tidelog cluster; -1 if none is known. Apache Kafka names any broker, so it has none."""
        if not self.is_tidelog or self.topology is None:
            return -1
        named = [view.controller for view in self.brokers.values() if view.answers and view.controller >= 0]
        return max(set(named), key=named.count) if named else -1

    def answers(self, broker: int) -> bool:
        return broker in self.brokers and self.brokers[broker].answers

    async def wait_changed(self, within_s: float) -> None:
        """Return when something that everybody shows has changed, at the latest after this time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s), self._changed:
                await self._changed.wait()

    async def ready(self, within_s: float) -> bool:
        """Whether the first look at the topology is done within this time."""
        until = time.monotonic() + within_s
        while self.topology is None and time.monotonic() < until:
            await self.wait_changed(until - time.monotonic())
        return self.topology is not None

    async def refresh(self) -> None:
        """Look at the topology again, because the caller has changed it."""
        self._hurry_until = time.monotonic() + HURRIES_FOR_S
        await self._look_at_topology()

    async def positions(self, wanted: Mapping[int, list[TopicPartition]]) -> dict[int, dict[TopicPartition, Position]]:
        """The log end offset and high watermark of replicas, by broker; none of a broker that does not answer."""
        asked = {broker: self._positions_on(broker, names) for broker, names in wanted.items() if self.answers(broker)}
        found = await asyncio.gather(*asked.values())
        return dict(zip(asked, found, strict=True))

    async def eligible(self, topic: str, partitions: Sequence[MetadataResponsePartition]) -> dict[int, Eligible]:
        """The eligible leader replicas (KIP-966) of the partitions that lack in-sync replicas; empty if they are
        unknown."""
        short = [each.partition_index for each in partitions if len(each.isr_nodes) < len(each.replica_nodes)]
        if not short:
            return {}
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=topic)],
            response_partition_limit=min(max(short) - min(short) + 1, MOST_DESCRIBED),
            cursor=Cursor(topic_name=topic, partition_index=min(short)),
        )
        try:
            answer = await self.admin.ask(request, ANY, timeout_ms=ANSWER_MS, retries=False)
        except ApiError:  # a Kafka that does not have the API
            return {}
        found = [each for described in answer.topics for each in described.partitions]
        return {
            each.partition_index: Eligible(list(each.eligible_leader_replicas or ()), list(each.last_known_elr or ()))
            for each in found
        }

    async def _positions_on(self, broker: int, names: list[TopicPartition]) -> dict[TopicPartition, Position]:
        request = list_offsets_request(dict.fromkeys(names, LATEST), replica=DEBUGGING_REPLICA_ID, timeout_ms=ANSWER_MS)
        try:
            listed = listed_offsets(await self.admin.ask(request, broker, timeout_ms=ANSWER_MS, retries=False))
            ends = {name: each.offset for name, each in listed.items() if not each.error and each.offset >= 0}
            answer = await self.admin.ask(
                watermarks_request(ends), broker, newest=NEWEST_FETCH_BY_NAME, timeout_ms=ANSWER_MS, retries=False
            )
        except ApiError:
            return {}
        marks = watermarks(answer)
        return {name: Position(end, marks.get(name)) for name, end in ends.items()}

    async def attempt(self, look: Callable[[], Awaitable[None]]) -> float:
        """Look once, and return how long it took. An error in what brokers answer ends no loop: a console whose loops
        have ended would show the last state for ever."""
        began, name = time.monotonic(), look.__name__
        try:
            await look()
        except (ApiError, InvalidOption) as error:
            self._refused(error)
        except Exception as error:  # noqa: BLE001 (shown on every page)
            if name not in self.broken:
                traceback.print_exc()
            self.broken[name] = f"The console cannot read what the brokers answer: {type(error).__name__}: {error}"
        else:
            self.broken.pop(name, None)
        return time.monotonic() - began

    # The loops.

    async def _repeat(self, look: Callable[[], Awaitable[None]], pause_s: float) -> None:
        while True:
            took = await self.attempt(look)
            await asyncio.sleep(max(pause_s, PAUSE_FACTOR * (took if took > 0.05 else 0)))

    async def _watch_topology(self) -> None:
        while True:
            took = await self.attempt(self._look_at_topology)
            pause = HURRY_S if time.monotonic() < self._hurry_until else TOPOLOGY_S
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_due.wait(), max(pause, PAUSE_FACTOR * took))
            self._is_due.clear()

    def _refused(self, error: Exception) -> None:
        """Remember why, unless it is one broker among others that does not answer."""
        if not any(view.answers for view in self.brokers.values()):
            self.refusal = str(error)

    async def _beat(self) -> None:
        """Ask every broker for what costs it nothing."""
        known = self.topology.known_brokers if self.topology is not None else []
        for broker in known:
            self.brokers.setdefault(broker, BrokerView(broker))
        for gone in self.brokers.keys() - set(known):
            del self.brokers[gone]
        registered = set(self.topology.brokers) if self.topology is not None else set()
        answers = await asyncio.gather(*(self._ask_if_alive(broker, broker in registered) for broker in known))
        if any(answers):
            await self._tell()

    async def _ask_if_alive(self, broker: int, registered: bool) -> bool:
        """Whether that changed."""
        view, began = self.brokers[broker], time.monotonic()
        answers = False
        if registered:
            request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
            with suppress(ApiError):
                response = await self._pulse.ask(request, broker, timeout_ms=ANSWER_MS, retries=False)
                answers = True
                view.controller = response.controller_id
        if answers:
            view.latency_ms = (time.monotonic() - began) * 1000
            self.refusal = None
        if answers == view.answers and view.since_ms:
            return False
        view.answers, view.since_ms = answers, _wall_ms()
        view.next_event = 0  # it may have started anew
        self._hurry_until = time.monotonic() + HURRIES_FOR_S
        self._is_due.set()
        return True

    async def _look_at_topology(self) -> None:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        response = await self.admin.ask(request, ANY, timeout_ms=SLOW_ANSWER_MS)
        if response.error_code:
            raise ApiError(code_of(response.error_code))
        before, self.topology = self.topology, Topology.of(response)
        if before is not None:
            self._add_events(list(events_between(before, self.topology, _wall_ms())))
        await self._tell()

    async def _look_at_offsets(self) -> None:
        """High watermarks of all partitions from their leaders; rates from the last ones."""
        if self.topology is None:
            return
        led: dict[int, dict[TopicPartition, int]] = {}
        for name, partition in self.topology.all_partitions():
            if self.answers(partition.leader_id):
                led.setdefault(partition.leader_id, {})[name] = LATEST
        found: dict[TopicPartition, int] = {}
        for leader, wanted in led.items():
            with suppress(ApiError):
                request = list_offsets_request(wanted, timeout_ms=SLOW_ANSWER_MS)
                answer = await self.admin.ask(request, leader, timeout_ms=SLOW_ANSWER_MS, retries=False)
                listed = listed_offsets(answer)
                found.update(
                    {name: each.offset for name, each in listed.items() if not each.error and each.offset >= 0}
                )
        self._learn_ends(found, time.monotonic())

    def _learn_ends(self, found: dict[TopicPartition, int], moment: float) -> None:
        passed, self._ends_at = moment - self._ends_at if self._ends_at else 0.0, moment
        rates: dict[str, float] = {}
        for name, end in found.items():
            if passed and name in self.ends:
                rates[name.topic] = rates.get(name.topic, 0.0) + max(0, end - self.ends[name]) / passed
        known = dict(self.topology.all_partitions()) if self.topology is not None else {}
        self.ends = {**{name: end for name, end in self.ends.items() if name in known}, **found}
        self.rates = rates
        if passed and self.topology is not None:
            troubled = self.topology.offline + self.topology.under_replicated
            topics = self.topology.topics  # one of the rates may be of a topic that is deleted by now
            outside = sum(rate for topic, rate in rates.items() if topic in topics and not topics[topic].is_internal)
            self.points.append(Point(_wall_ms(), outside, self._byte_rate, troubled))

    async def _look_at_disks(self) -> None:
        """Sizes of topics and folders; of a partition's replicas, the largest counts."""
        largest: dict[TopicPartition, int] = {}
        total = 0
        for broker in [view.id for view in self.brokers.values() if view.answers]:
            with suppress(ApiError):
                request = DescribeLogDirsRequest(topics=None)
                answer = await self.admin.ask(request, broker, timeout_ms=SLOW_ANSWER_MS, retries=False)
                if broker in self.brokers:  # else it has gone while it was asked
                    self.brokers[broker].folders = [_folder(each) for each in answer.results]
                for folder in answer.results:
                    for topic in folder.topics:
                        for each in topic.partitions:
                            name = TopicPartition(topic.name, each.partition_index)
                            largest[name] = max(largest.get(name, 0), each.partition_size)
        sizes: dict[str, int] = {}
        for name, size in largest.items():
            sizes[name.topic] = sizes.get(name.topic, 0) + size
            total += size
        self.sizes = sizes
        moment, (before, last) = time.monotonic(), self._bytes
        self._byte_rate = max(0, total - last) / (moment - before) if before else 0.0
        self._bytes = (moment, total)

    async def _read_reports(self) -> None:
        for view in [view for view in self.brokers.values() if view.answers and view.reports is not False]:
            try:
                request = BrokerReportRequest(since=view.next_event)
                answer = await self.admin.ask(request, view.id, timeout_ms=ANSWER_MS, retries=False)
            except ApiError as error:
                if error.code is ErrorCode.UNSUPPORTED_VERSION:
                    view.reports = False
                continue
            if answer.error_code:
                view.reports = False
                continue
            view.reports = True
            if answer.events:
                view.next_event = answer.events[-1].number + 1
                self._add_events([event for event in events_of([answer]) if event.kind in TIMELINE_KINDS])

    def _add_events(self, events: list[BrokerEvent]) -> None:
        for event in events:
            key = (event.wall_ms, event.broker, event.number)
            if event.broker != SEEN_BY_CONSOLE and key in self._seen_events:
                continue
            self._seen_events.add(key)
            self._event_count += 1
            heapq.heappush(self._events, (event.wall_ms, self._event_count, event))
            if len(self._events) > MOST_EVENTS:
                _, _, oldest = heapq.heappop(self._events)
                self._seen_events.discard((oldest.wall_ms, oldest.broker, oldest.number))

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def _folder(result: Any) -> Folder:
    used = sum(each.partition_size for topic in result.topics for each in topic.partitions)
    error = code_of(result.error_code).name if result.error_code else None
    return Folder(result.log_dir, error, result.total_bytes, result.usable_bytes, used)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
