"""Watches consumer groups: which there are, and how far each is behind, now and over the last minutes."""

import asyncio
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field

from tidelog.cli.groups.group_requests import NEWEST_VERSION_BY_NAME, PLAIN_PROTOCOLS
from tidelog.client.admin import Coordinator
from tidelog.console.observer import PAUSE_FACTOR, Observer
from tidelog.errors import ApiError
from tidelog.model import TopicPartition
from tidelog.wire.messages.groups.committed_offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from tidelog.wire.messages.groups.group_admin import ListGroupsRequest

PAUSE_S = 2.0
ANSWER_MS = 5_000
MOST_WATCHED = 500
"""Groups whose offsets are read; the others are listed without a lag."""
MOST_POINTS = 200
AT_A_TIME = 16


@dataclass(slots=True)
class WatchedGroup:
    """`lags` are (wall milliseconds, records behind), `lag` the last of them, None before it is known."""

    name: str
    state: str = ""
    type: str = ""
    protocol: str = ""
    lag: int | None = None
    topics: list[str] = field(default_factory=list)
    lags: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=MOST_POINTS))

    @property
    def is_for_consumers(self) -> bool:
        return self.protocol in PLAIN_PROTOCOLS


class GroupWatch:
    """`groups` are all that the brokers list, by name."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.groups: dict[str, WatchedGroup] = {}
        self.is_known = False

    async def run(self) -> None:
        while True:
            took = await self._observer.attempt(self.look)
            await asyncio.sleep(max(PAUSE_S, PAUSE_FACTOR * took))

    async def look(self) -> None:
        """Read the list from every broker, then the offsets of each group."""
        seen = self._observer
        found: dict[str, WatchedGroup] = {}
        alive = [view.id for view in seen.brokers.values() if view.answers]
        for broker in alive:
            answer = await seen.admin.ask(ListGroupsRequest(), broker, timeout_ms=ANSWER_MS, retries=False)
            for each in answer.groups:
                group = self.groups.get(each.group_id) or WatchedGroup(each.group_id)
                group.state, group.type, group.protocol = each.group_state, each.group_type, each.protocol_type
                found[group.name] = group
        if not alive:
            return
        self.groups, self.is_known = dict(sorted(found.items())), True
        watched = [group for group in self.groups.values() if group.is_for_consumers][:MOST_WATCHED]
        limit = asyncio.Semaphore(AT_A_TIME)

        async def measure(group: WatchedGroup) -> None:
            async with limit:
                with suppress(ApiError):
                    self._learn(group, await self._committed(group.name))

        await asyncio.gather(*map(measure, watched))

    async def _committed(self, name: str) -> dict[TopicPartition, int]:
        asked = OffsetFetchRequestGroup(group_id=name, topics=None)
        request = OffsetFetchRequest(group_id=name, topics=None, groups=[asked])
        answer = await self._observer.admin.ask(
            request, Coordinator(name), newest=NEWEST_VERSION_BY_NAME, timeout_ms=ANSWER_MS
        )
        result = answer.groups[0] if answer.groups else answer
        return {
            TopicPartition(topic.name, each.partition_index): each.committed_offset
            for topic in result.topics
            for each in topic.partitions
            if each.committed_offset >= 0
        }

    def _learn(self, group: WatchedGroup, committed: dict[TopicPartition, int]) -> None:
        ends = self._observer.ends
        group.topics = sorted({name.topic for name in committed})
        group.lag = sum(max(0, ends[name] - offset) for name, offset in committed.items() if name in ends)
        group.lags.append((time.time_ns() // 1_000_000, group.lag))
