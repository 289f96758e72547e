"""An operator who moves partitions between brokers while things break, changes his mind, cancels, and throttles
(KIP-455, KIP-73). Partitions keep three replicas or get more: what was promised of them is promised on.

Some seeds have this part, and all runs that ask for it (`Plan.moves`), with four brokers at least.
"""

from random import Random
from typing import Any

from tidelog.config.throttles import LISTS, RATES
from tidelog.effects import CONTROLLER
from tidelog.model import TopicPartition
from tidelog.sim.clients.admin import Admin
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import MILLI, SECOND
from tidelog.wire.messages.topics.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

BROKERS = 4
REPLICAS = 3
PAUSE = (100 * MILLI, 4 * SECOND)
CANCELS, ORDERS, THROTTLES = 0.15, 0.1, 0.2


def draw_properties(dice: Random) -> dict[str, str]:
    """Rates that are in force as soon as a topic has a list. They are above what in-sync replicas copy: a leader's
    throttle counts that, too, and a rate below it would hold the others back for good, as in Kafka."""
    return {rate: dice.choice(("50000", "20000", "1000000")) for rate in RATES}


class Moves:
    def __init__(self, cluster: Cluster, dice: Random) -> None:
        self.cluster = cluster
        self.dice = dice
        self.admin = Admin(cluster.world, "mover")
        self.stopped = False

    def __repr__(self) -> str:
        return f"<moves by {self.admin!r}>"

    def start(self) -> None:
        self._later()

    def stop(self) -> None:
        self.stopped = True

    def _later(self) -> None:
        if not self.stopped:
            self.admin.process.later(PAUSE, self._act)

    def _act(self) -> None:
        known = sorted(self.cluster.suite.ghosts.assignments)
        if self.stopped or not known:
            self._later()
            return
        name = self.dice.choice(known)
        if self.dice.random() < THROTTLES:
            value = self.dice.choice(("*", "*", "", f"{name.partition}:{self.dice.randrange(BROKERS)}"))
            self.admin.configure(name.topic, self.dice.choice(LISTS), value, self._answered)
            return
        cancels = self.dice.random() < CANCELS
        wish = ReassignablePartition(
            partition_index=name.partition, replicas=None if cancels else self._elsewhere(name)
        )
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=name.topic, partitions=[wish])])
        self.admin.ask(request, CONTROLLER, self._answered)

    def _elsewhere(self, name: TopicPartition) -> list[int]:
        """Another order of those that hold it, or any brokers."""
        now = self.cluster.suite.ghosts.assignments[name]
        brokers = range(len(self.cluster.world.hosts))
        if self.dice.random() < ORDERS:
            return self.dice.sample(now, len(now))
        least = min(len(now), REPLICAS)
        return self.dice.sample(brokers, self.dice.choice((least, least, least, min(least + 1, len(brokers)))))

    def _answered(self, _response: Any) -> None:
        self._later()
