"""An operator who moves partitions between brokers while things break, changes his mind, cancels, and throttles
(KIP-455, KIP-73). Partitions keep three replicas or get more: what was promised of them is promised on.

Some seeds have this part, and all runs that ask for it (`Plan.moves`), with four brokers at least.
"""

from collections.abc import Sequence
from random import Random

from tidelog.config.quotas import LISTS, RATES
from tidelog.effects import CONTROLLER
from tidelog.model import TopicPartition
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.parts.recurring import Recurring
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


class Moves(Recurring):
    def __init__(self, cluster: Cluster, dice: Random) -> None:
        super().__init__(cluster, dice, "mover", PAUSE)

    def act(self, name: TopicPartition, replicas: Sequence[int]) -> None:
        if self.dice.random() < THROTTLES:
            value = self.dice.choice(("*", "*", "", f"{name.partition}:{self.dice.randrange(BROKERS)}"))
            self.admin.configure(name.topic, self.dice.choice(LISTS), value, self.answered)
            return
        cancels = self.dice.random() < CANCELS
        wish = ReassignablePartition(
            partition_index=name.partition, replicas=None if cancels else self._elsewhere(replicas)
        )
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=name.topic, partitions=[wish])])
        self.admin.ask(request, CONTROLLER, self.answered)

    def _elsewhere(self, now: Sequence[int]) -> list[int]:
        """Another order of those that hold it, or any brokers."""
        brokers = range(len(self.cluster.world.hosts))
        if self.dice.random() < ORDERS:
            return self.dice.sample(now, len(now))
        least = min(len(now), REPLICAS)
        return self.dice.sample(brokers, self.dice.choice((least, least, least, min(least + 1, len(brokers)))))
