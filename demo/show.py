"""Shows progress: a bar on a terminal, plain lines in a pipe, and each change of a leader or an in-sync set."""

import sys
import threading
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tidelog.client.admin import ANY
from tidelog.errors import ApiError
from tidelog.shell.transport import Admin
from tidelog.wire.messages.topics.metadata import DescribeTopicPartitionsRequest, TopicRequest

LOOK_EVERY_S = 0.1
STEP = 10
"""The percentage between two plain lines."""


class Show:
    """Prints everything before the last line."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stdout, highlight=False, soft_wrap=not sys.stdout.isatty())
        self._began = time.monotonic()
        self._shown_percent = -1
        self._ended = threading.Event()
        self._watcher: threading.Thread | None = None
        self._bar: Progress | None = None
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description:>14}"),
                BarColumn(),
                TextColumn("{task.completed:>7,.0f}"),
                TimeElapsedColumn(),
                console=self._console,
            )
            self._tasks = [self._bar.add_task(name, total=None) for name in ("sent", "acknowledged", "in the table")]
            self._bar.start()

    def say(self, text: str) -> None:
        self._console.print(f"{time.monotonic() - self._began:6.1f} s  {text}", markup=False)

    def progress(self, sent: int, acknowledged: int, stored: int, total: int) -> None:
        if self._bar is not None:
            for task, done in zip(self._tasks, (sent, acknowledged, stored), strict=True):
                self._bar.update(task, completed=done, total=total)
            return
        percent = (acknowledged + stored) * 50 // total // STEP * STEP
        if percent > self._shown_percent:
            self._shown_percent = percent
            self.say(f"sent {sent:,}  acknowledged {acknowledged:,}  in the table {stored:,}")

    def watch(self, bootstrap: str, topic: str) -> None:
        """Print every change of leader, epoch and in-sync set that a broker reports."""
        self._watcher = threading.Thread(target=self._watch, args=(bootstrap, topic), daemon=True)
        self._watcher.start()

    def _watch(self, bootstrap: str, topic: str) -> None:
        known: dict[int, tuple[int, int, list[int]]] = {}
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic)], response_partition_limit=2000)
        with Admin(bootstrap) as admin:
            while not self._ended.wait(LOOK_EVERY_S):
                try:
                    answer = admin.ask(request, to=ANY)
                except (ApiError, OSError):
                    continue
                for state in answer.topics[0].partitions:
                    self._print_change(topic, known, state)

    def _print_change(self, topic: str, known: dict[int, tuple[int, int, list[int]]], state: Any) -> None:
        new = (state.leader_id, state.leader_epoch, sorted(state.isr_nodes))
        old = known.get(state.partition_index)
        known[state.partition_index] = new
        if old is None or old == new:
            return
        name = f"{topic}-{state.partition_index}"
        if old[:2] != new[:2]:
            self.say(f"{name}: leader {old[0]} -> {new[0]}, epoch {old[1]} -> {new[1]}, in sync {new[2]}")
        else:
            self.say(f"{name}: in sync {old[2]} -> {new[2]}")

    def delays(self, rows: list[tuple[str, int, float]]) -> None:
        if self._bar is not None:
            self._bar.stop()
        table = Table("carrier", "arrivals", "mean delay, minutes", title="The most delayed carriers")
        for carrier, arrivals, mean in rows:
            table.add_row(carrier, f"{arrivals:,}", f"{mean:.1f}")
        self._console.print(table)

    def close(self) -> None:
        self._ended.set()
        if self._watcher is not None:
            self._watcher.join(10)
        if self._bar is not None:
            self._bar.stop()
