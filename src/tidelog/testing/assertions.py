"""What tests ask a cluster: its records, a group's lag, and whether records were lost."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tidelog.check.history.operation import History as CheckedHistory
from tidelog.check.history.text import parse
from tidelog.check.history.verdict import Verdict, verify
from tidelog.check.workload.target import create_topics
from tidelog.check.workload.workload import Plan, Workload
from tidelog.client.admin import Coordinator
from tidelog.client.results import ConsumerRecord, code_of
from tidelog.errors import ApiError
from tidelog.shell.transport import Consumer
from tidelog.testing.broker import START_S
from tidelog.testing.history import LOSSES, History
from tidelog.testing.machine_faults import MachineFaults
from tidelog.testing.measures import Condition, Measure
from tidelog.testing.names import at_least
from tidelog.wire.messages.groups.committed_offsets import OffsetFetchRequest, OffsetFetchRequestGroup

T = TypeVar("T")

POLL_S = 0.01
WITH_NAMES = 9
"""The last version of OffsetFetch whose topics have names."""


class Assertions(MachineFaults):
    """What `Cluster` reports about its records and groups."""

    def records(
        self, topic: str, partition: int | None = None, *, isolation_level: str = "read_uncommitted"
    ) -> list[ConsumerRecord]:
        """All records of the topic, or of one partition, in order of partition and offset.

        >>> [record.value for record in cluster.records("orders")]
        [b'order 1']
        """
        with Consumer(self.bootstrap, **self._own_client, isolation_level=isolation_level) as consumer:
            partitions = consumer.partitions_of(topic, START_S)
            if partition is not None:
                self._partition(topic, partition)
                partitions = [each for each in partitions if each.partition == partition]
            consumer.assign(partitions)
            consumer.seek_to_beginning()
            ends = consumer.end_offsets(partitions)
            found: list[ConsumerRecord] = []
            deadline = time.monotonic() + START_S
            while any(consumer.position(each) < end for each, end in ends.items()):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic} could not be read within {START_S:g} s: {len(found)} records came")
                found += consumer.poll(POLL_S)
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def lag(self, group: str, topic: str | None = None) -> Measure:
        """How many records the group has not committed, of one topic, or of all topics of which it has committed any
        partition; None before its first commit.

        >>> cluster.wait_for(cluster.lag("billing") == 0)
        """
        self._check_open()
        return Measure(f"the lag of group {group!r}", lambda: self._lag(group, topic))

    def _lag(self, group: str, topic: str | None) -> int | None:
        request = OffsetFetchRequest(
            group_id=group, topics=None, groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]
        )
        with self.admin() as admin:
            response = admin.ask(request, Coordinator(group), newest=WITH_NAMES)
        result = response.groups[0] if response.groups else response
        if result.error_code:
            raise ApiError(code_of(result.error_code), f"group {group}")
        committed = {
            (found.name, each.partition_index): each.committed_offset
            for found in result.topics
            for each in found.partitions
            if each.committed_offset >= 0 and topic in (None, found.name)
        }
        if not committed:
            return None
        with Consumer(self.bootstrap, **self._own_client) as consumer:
            partitions = [
                each for name in sorted({name for name, _ in committed}) for each in consumer.partitions_of(name)
            ]
            ends, begins = consumer.end_offsets(partitions), consumer.beginning_offsets(partitions)
        lag: int = sum(ends[each] - committed.get(each, begins[each]) for each in partitions)
        return lag

    def wait_for(self, condition: Callable[[], T] | Condition, within_s: float = START_S) -> "T | bool":
        """Wait until the condition holds, and return its value; AssertionError after `within_s` seconds. It is a
        comparison of `lag`, or a function.

        >>> cluster.wait_for(lambda: cluster.leader("orders") == 2)
        """
        at_least("within_s", within_s, 0)
        deadline = time.monotonic() + within_s
        while True:
            found = condition.holds() if isinstance(condition, Condition) else condition()
            if found:
                return found
            if time.monotonic() > deadline:
                what = condition.text() if isinstance(condition, Condition) else f"last value: {found!r}"
                raise AssertionError(f"not within {within_s:g} s: {what}")
            time.sleep(POLL_S)

    @contextmanager
    def workload(self, *, rate: float = 200.0, partitions: int = 3, seed: int = 0) -> Iterator[Path]:
        """Write and read a topic of its own in the background, `rate` calls a second; the file with the history, in the
        cluster's folder, is complete after the block.

        >>> with cluster.workload() as history:
        ...     cluster.restart(1)
        >>> cluster.assert_no_loss(history)
        """
        target = create_topics(self.bootstrap, 1, partitions, self._own_client)
        plan = Plan(topics=1, partitions=partitions, rate=rate, seed=seed, final_s=START_S * 2)
        running = Workload(target, plan, self.folder / f"{target.group}.jsonl")
        running.start()
        try:
            yield running.recorder.file
        finally:
            running.finish()

    def assert_no_loss(self, history: "History | CheckedHistory | str | Path") -> Verdict:
        """Check a history: every acknowledged record must still be there, at its offset. AssertionError lists what is
        not. Returns the verdict, whose `broken` has everything else that Kafka does not allow.

        `history` is a `History` that the test filled, what `workload` yields, or a file of `tidelog check`.
        """
        if isinstance(history, History):
            history = history.scanned({topic: self.records(topic) for topic in history.topics})
        elif not isinstance(history, CheckedHistory):
            with Path(history).open(encoding="utf-8") as lines:
                history = parse(lines)
        verdict = verify(history)
        lost = [each for each in verdict.broken if each.kind in LOSSES]
        if lost:
            shown = "\n".join(f"  {each.kind}: {each.text(verdict.header)}" for each in lost[:20])
            raise AssertionError(f"{len(lost)} records are lost\n{shown}")
        return verdict
