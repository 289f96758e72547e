"""An administrator who does one kind of thing again and again while things break, with a pause after each answer."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import Any

from tidelog.model import TopicPartition
from tidelog.sim.clients.admin import Admin
from tidelog.sim.cluster import Cluster


class Recurring(ABC):
    """`pause`: the least and the most time between two acts, in microseconds. An act is done to one of the partitions
    that there are, and ends with `answered`."""

    def __init__(self, cluster: Cluster, dice: Random, name: str, pause: tuple[int, int]) -> None:
        self.cluster = cluster
        self.dice = dice
        self.admin = Admin(cluster.world, name)
        self.stopped = False
        self._pause = pause

    def __repr__(self) -> str:
        return f"<{type(self).__name__} by {self.admin!r}>"

    def start(self) -> None:
        if not self.stopped:
            self.admin.process.later(self._pause, self._next)

    def stop(self) -> None:
        self.stopped = True

    def answered(self, _response: Any) -> None:
        self.start()

    def _next(self) -> None:
        assigned = sorted(self.cluster.suite.ghosts.assignments.items())
        if self.stopped or not assigned:
            self.start()
        else:
            self.act(*self.dice.choice(assigned))

    @abstractmethod
    def act(self, name: TopicPartition, replicas: Sequence[int]) -> None: ...
