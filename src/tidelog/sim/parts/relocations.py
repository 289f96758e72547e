"""An operator who moves replicas between the log folders of their brokers while things break (KIP-113), and now and
then changes his mind: to another folder, or back to the one where the replica is. Nothing may be lost by it.
"""

from collections.abc import Sequence
from random import Random

from tidelog.model import TopicPartition
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.parts.recurring import Recurring
from tidelog.wire.messages.cluster.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)

PAUSE = (50 * MILLI, 2 * SECOND)


class Relocations(Recurring):
    def __init__(self, cluster: Cluster, dice: Random) -> None:
        super().__init__(cluster, dice, "relocator", PAUSE)

    def act(self, name: TopicPartition, replicas: Sequence[int]) -> None:
        broker = self.dice.choice(replicas)
        folder = self.dice.choice(self.cluster.world.hosts[broker].disk.roots)
        topic = AlterReplicaLogDirTopic(name=name.topic, partitions=[name.partition])
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=folder, topics=[topic])])
        self.admin.ask(request, broker, self.answered, retries=False)
