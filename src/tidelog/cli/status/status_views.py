"""The views of `tidelog status`: what each asks the cluster for; and the keyboard of a terminal."""

import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Iterable
from typing import Any, Self

from tidelog.cli.admin_requests import LATEST, list_offsets, metadata
from tidelog.cli.groups.group_requests import all_groups, committed_offsets
from tidelog.cli.options import CommandFailed
from tidelog.cli.replica_states import ReplicaState, replica_states
from tidelog.cli.status.status_command import COLUMNS, table_row
from tidelog.cli.status.status_screen import View
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin

VIEWS = ("replicas", "groups", "throughput")
EVERY_TOPIC = ".*"


class Queries:
    """Asks for the views of one cluster; `interval_s` is how long throughput is measured at first."""

    def __init__(self, admin: Admin, pattern: str | None, interval_s: float, *, internal: bool = False) -> None:
        self._admin = admin
        self._given = pattern
        self._pattern = EVERY_TOPIC if pattern is None and internal else pattern
        self._interval_s = interval_s
        self._ends: dict[TopicPartition, int] = {}
        self._measured_at = 0.0

    def check_topic(self) -> None:
        """Raise CommandFailed if no topic has the name."""
        if self._given is not None and not self._topics():
            raise CommandFailed(f"No topic matches {self._given!r}.")

    def view(self, name: str) -> View:
        return {"replicas": self._replica_view, "groups": self._group_view, "throughput": self._throughput_view}[name]()

    def replicas(self) -> list[ReplicaState]:
        return replica_states(self._admin, self._pattern)

    def _replica_view(self) -> View:
        return replica_view(self.replicas())

    def _group_view(self) -> View:
        """The lag of each group, in the topics that are shown."""
        committed = {
            (group.group_id, group.group_state, getattr(group, "group_type", "") or "classic"): {
                name: found.offset
                for name, found in committed_offsets(self._admin, group.group_id).items()
                if self._given is None or re.fullmatch(self._given, name.topic)
            }
            for group in all_groups(self._admin)
        }
        names = {name for offsets in committed.values() for name in offsets}
        ends = {name: each.offset for name, each in list_offsets(self._admin, dict.fromkeys(names, LATEST)).items()}
        rows = [
            (name, state, kind, len(offsets), sum(max(0, ends[each] - offset) for each, offset in offsets.items()))
            for (name, state, kind), offsets in committed.items()
        ]
        return View("groups", ("GROUP", "STATE", "TYPE", "PARTITIONS", "LAG"), frozenset({3, 4}), rows)

    def _throughput_view(self) -> View:
        """Records per second since the last look, by topic."""
        if not self._ends:
            self._measure()
            time.sleep(self._interval_s)
        before, began = self._ends, self._measured_at
        self._measure()
        passed = max(1e-3, self._measured_at - began)
        totals: dict[str, list[float]] = {}
        for name, end in self._ends.items():
            row = totals.setdefault(name.topic, [0, 0, 0.0])
            row[0] += 1
            row[1] += end
            row[2] += max(0, end - before.get(name, end)) / passed
        rows = [(topic, int(row[0]), int(row[1]), round(row[2], 1)) for topic, row in sorted(totals.items())]
        return View("throughput", ("TOPIC", "PARTITIONS", "END", "RECORDS/S"), frozenset({1, 2, 3}), rows)

    def _measure(self) -> None:
        names = [
            TopicPartition(topic.name or "", each.partition_index)
            for topic in self._topics()
            for each in topic.partitions
        ]
        found = list_offsets(self._admin, dict.fromkeys(names, LATEST), attempts=2)
        self._ends = {name: each.offset for name, each in found.items() if not each.error and each.offset >= 0}
        self._measured_at = time.monotonic()

    def _topics(self) -> list[Any]:
        return [
            topic
            for topic in metadata(self._admin).topics
            if (not topic.is_internal if self._pattern is None else re.fullmatch(self._pattern, topic.name or ""))
        ]


def replica_view(states: Iterable[ReplicaState]) -> View:
    titles = tuple(column.title for column in COLUMNS)
    return View("replicas", titles, frozenset({7, 8, 9}), [table_row(state) for state in states])


class Keyboard:
    """Keys as they are pressed, without an echo; use as a context."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd)
        return self

    def __exit__(self, *_: object) -> None:
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def read(self, within_s: float) -> str:
        """What was pressed, "" if nothing was within this time."""
        if not select.select([self._fd], [], [], within_s)[0]:
            return ""
        return os.read(self._fd, 1024).decode(errors="replace")
