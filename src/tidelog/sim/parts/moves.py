"""Administrators that move replicas while faults occur: between brokers, and between the log directories of a broker.

`Reassignments` moves partitions between brokers, changes its mind, cancels, and throttles (KIP-455, KIP-73). Partitions
keep three replicas or get more, so every promise made for them stays in force. Seeds with this part, and runs that
request it (`Plan.moves`), have at least four brokers. `LogDirectoryMoves` moves replicas between the log directories of
their brokers (KIP-113), sometimes back or to a third directory before the move is complete. Neither may lose records.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import Any

from tidelog.config.quotas import LISTS, RATES
from tidelog.effects import CONTROLLER
from tidelog.model import TopicPartition
from tidelog.sim.clients.admin import Admin
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import MILLI, SECOND
from tidelog.wire.messages.cluster.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tidelog.wire.messages.topics.reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

BROKERS = 4
REPLICAS = 3
REASSIGNMENT_PAUSE = (100 * MILLI, 4 * SECOND)
CANCELS, ORDERS, THROTTLES = 0.15, 0.1, 0.2
LOG_DIR_PAUSE = (50 * MILLI, 2 * SECOND)


class RecurringAdmin(ABC):
    """An administrator that does one kind of action again and again, with a pause after each response.

    `pause` is the least and the most time between two actions, in microseconds. An action concerns one of the existing
    partitions, and ends with `answered`.
    """

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


def draw_throttles(dice: Random) -> dict[str, str]:
    """Draw rates that apply as soon as a topic lists throttled replicas.

    They are above what in-sync replicas copy: a leader's throttle counts that, too, and a rate below would hold the
    others back forever, as in Kafka.
    """
    return {rate: dice.choice(("50000", "20000", "1000000")) for rate in RATES}


class Reassignments(RecurringAdmin):
    def __init__(self, cluster: Cluster, dice: Random) -> None:
        super().__init__(cluster, dice, "mover", REASSIGNMENT_PAUSE)

    def act(self, name: TopicPartition, replicas: Sequence[int]) -> None:
        if self.dice.random() < THROTTLES:
            value = self.dice.choice(("*", "*", "", f"{name.partition}:{self.dice.randrange(BROKERS)}"))
            self.admin.configure(name.topic, self.dice.choice(LISTS), value, self.answered)
            return
        cancels = self.dice.random() < CANCELS
        requested = ReassignablePartition(
            partition_index=name.partition, replicas=None if cancels else self._elsewhere(replicas)
        )
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=name.topic, partitions=[requested])]
        )
        self.admin.ask(request, CONTROLLER, self.answered)

    def _elsewhere(self, now: Sequence[int]) -> list[int]:
        """Return another order of the current replicas, or any brokers."""
        brokers = range(len(self.cluster.world.hosts))
        if self.dice.random() < ORDERS:
            return self.dice.sample(now, len(now))
        least = min(len(now), REPLICAS)
        return self.dice.sample(brokers, self.dice.choice((least, least, least, min(least + 1, len(brokers)))))


class LogDirectoryMoves(RecurringAdmin):
    def __init__(self, cluster: Cluster, dice: Random) -> None:
        super().__init__(cluster, dice, "relocator", LOG_DIR_PAUSE)

    def act(self, name: TopicPartition, replicas: Sequence[int]) -> None:
        broker = self.dice.choice(replicas)
        folder = self.dice.choice(self.cluster.world.hosts[broker].disk.roots)
        topic = AlterReplicaLogDirTopic(name=name.topic, partitions=[name.partition])
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=folder, topics=[topic])])
        self.admin.ask(request, broker, self.answered, retries=False)
