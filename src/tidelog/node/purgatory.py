"""Deferred answers by the conditions that they wait for.

`Committed` waits of a partition arrive in the order of offsets, so a change of the high watermark looks only at those
that it ends. Each has the leader epoch of its append: when that epoch ends, it is resumed at once, and the handler
decides with the new role.
"""

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from tidelog.alarms import Alarm
from tidelog.effects import Committed, Deferred, Readable, Signal, Synced
from tidelog.model import Time, TopicPartition

MOST_DIRTY = 1000
"""Dirty partitions that a turn looks at: some milliseconds."""
_SMALL = 1024
_NOTHING = Deferred((), 0, lambda: None)


@dataclass(slots=True, eq=False)
class Wait:
    """One deferred answer: `context` is the request's, `missing` the number of conditions that do not hold yet."""

    context: Any
    deferred: Deferred
    missing: int = 0
    done: bool = False


@dataclass(slots=True)
class _Queue:
    """The answers that wait for one partition."""

    committed: deque[tuple[int, int, Wait]] = field(default_factory=deque)
    """(leader epoch, offset, wait), ascending."""
    readers: list[Wait] = field(default_factory=list)
    synced: list[tuple[int, Wait]] = field(default_factory=list)

    def insert(self, epoch: int, offset: int, wait: Wait) -> None:
        """In order; nearly always at the end."""
        index = len(self.committed)
        while index and self.committed[index - 1][:2] > (epoch, offset):
            index -= 1
        self.committed.insert(index, (epoch, offset, wait))

    def sweep(self) -> None:
        self.committed = deque(entry for entry in self.committed if not entry[2].done)
        self.readers = [wait for wait in self.readers if not wait.done]
        self.synced = [entry for entry in self.synced if not entry[1].done]

    def __len__(self) -> int:
        return len(self.committed) + len(self.readers) + len(self.synced)


class Purgatory:
    """All deferred answers of a broker. The first of `_deadlines` always belongs to one that still waits."""

    def __init__(self) -> None:
        self.alarm = Alarm()
        self._partitions: dict[TopicPartition, _Queue] = {}
        self._signals: dict[tuple[Any, ...], list[Wait]] = {}
        self._deadlines: list[tuple[int, int, Wait]] = []
        self._count = 0
        self._added = 0
        self._sweep_at = _SMALL
        self.resumable: list[Wait] = []

    def __repr__(self) -> str:
        return f"<Purgatory {self.held} entries>"

    def add(self, context: Any, deferred: Deferred) -> Wait:
        wait = Wait(context, deferred)
        self._remember(wait)
        for condition in deferred.conditions:
            if isinstance(condition, Signal):
                self._signals.setdefault(condition.key, []).append(wait)
                continue
            queue = self._partitions.setdefault(condition.partition, _Queue())
            if isinstance(condition, Committed):
                wait.missing += 1
                queue.insert(condition.epoch, condition.offset, wait)
            elif isinstance(condition, Readable):
                queue.readers.append(wait)
            elif isinstance(condition, Synced):
                wait.missing += 1
                queue.synced.append((condition.offset, wait))
        return wait

    def _remember(self, wait: Wait) -> None:
        """Most waits end long before their deadline, and their entries stay in the heap and the queues. These are swept
        when as many waits were added as the last sweep left, so that sweeping costs little per wait."""
        self._added += 1
        if self._added >= self._sweep_at:
            self._sweep()
        self._count += 1
        heapq.heappush(self._deadlines, (wait.deferred.deadline, self._count, wait))
        if self._deadlines[0][2] is wait:
            self.alarm.set(wait.deferred.deadline)

    def _sweep(self) -> None:
        self._deadlines = [entry for entry in self._deadlines if not entry[2].done]
        heapq.heapify(self._deadlines)
        for queue in self._partitions.values():
            queue.sweep()
        self._partitions = {name: queue for name, queue in self._partitions.items() if len(queue)}
        for key, waits in list(self._signals.items()):
            self._signals[key] = [wait for wait in waits if not wait.done]
            if not self._signals[key]:
                del self._signals[key]
        self._added = 0
        self._sweep_at = max(_SMALL, self.held)

    @property
    def held(self) -> int:
        """Entries in memory, including those of answered waits until they are swept."""
        waits = sum(map(len, self._partitions.values())) + sum(map(len, self._signals.values()))
        return max(len(self._deadlines), waits)

    def changed(self, partition: TopicPartition, epoch: int, high_watermark: int, durable_end: int) -> None:
        """The partition is dirty: end the waits whose conditions hold. An epoch of -1 ends all (the role is lost)."""
        queue = self._partitions.get(partition)
        if queue is None:
            return
        committed = queue.committed
        while committed and (committed[0][1] <= high_watermark or committed[0][0] != epoch):
            born, _, wait = committed.popleft()
            self._condition_met(wait, at_once=born != epoch)
        if queue.synced:
            rest = []
            for offset, wait in queue.synced:
                if offset <= durable_end or epoch < 0:
                    self._condition_met(wait, at_once=epoch < 0)
                else:
                    rest.append((offset, wait))
            queue.synced = rest
        if queue.readers:
            for wait in queue.readers:
                self._condition_met(wait, at_once=True)
            queue.readers = []
        if not committed and not queue.synced:
            del self._partitions[partition]

    def signal(self, key: tuple[Any, ...]) -> None:
        for wait in self._signals.pop(key, ()):
            self._condition_met(wait, at_once=True)

    def wake(self, now: Time) -> None:
        """End the waits whose deadlines have passed."""
        heap = self._deadlines
        while heap and (heap[0][2].done or heap[0][0] <= now.mono):
            wait = heapq.heappop(heap)[2]
            self._condition_met(wait, at_once=True)
        self.alarm.set(self.next_deadline)

    def _condition_met(self, wait: Wait, *, at_once: bool) -> None:
        if wait.done:
            return
        wait.missing -= 1
        if at_once or wait.missing <= 0:
            self._done(wait)
            self.resumable.append(wait)

    def _done(self, wait: Wait) -> None:
        wait.done = True
        heap = self._deadlines
        if heap and heap[0][2] is wait:
            while heap and heap[0][2].done:
                heapq.heappop(heap)
            self.alarm.set(self.next_deadline)

    def ready(self) -> Iterator[Wait]:
        """The waits that can be resumed, in the order in which they became so; more may be added meanwhile."""
        while self.resumable:
            batch, self.resumable = self.resumable, []
            yield from batch

    def drop(self, wait: Wait) -> None:
        """Its connection is closed, so there is no answer to send. What it holds is released at once."""
        self._done(wait)
        wait.context = None
        wait.deferred = _NOTHING

    @property
    def next_deadline(self) -> int | None:
        return self._deadlines[0][0] if self._deadlines else None


class DirtyPartitions:
    """The dirty partitions of a broker, which collect in `changed`. A change for all of them, as of the live brokers,
    is the work of several turns."""

    def __init__(self, changed: dict[TopicPartition, bool]) -> None:
        self.alarm = Alarm()
        self._changed = changed
        self._later: dict[TopicPartition, bool] = {}

    def __repr__(self) -> str:
        return f"<DirtyPartitions {len(self._changed)} now, {len(self._later)} later>"

    def take(self, now: Time) -> dict[TopicPartition, bool]:
        """Those to look at now, each with whether followers are to know."""
        taken = dict(islice(self._changed.items(), MOST_DIRTY))
        for name, for_followers in islice(self._changed.items(), MOST_DIRTY, None):
            self._later[name] = for_followers or self._later.get(name, False)
        self._changed.clear()
        if self._later:
            self.alarm.set(now.mono)
        return taken

    def wake(self, now: Time) -> None:
        for name in list(islice(self._later, MOST_DIRTY)):
            self._changed[name] = self._later.pop(name) or self._changed.get(name, False)
        self.alarm.set(now.mono if self._later else None)
