"""An operator who moves replicas between the log folders of their brokers while things break (KIP-113), and now and
then changes his mind: to another folder, or back to the one where the replica is. Nothing may be lost by it.
"""

from random import Random
from typing import Any

from tidelog.sim.clients.admin import Admin
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import MILLI, SECOND
from tidelog.wire.messages.cluster.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)

PAUSE = (50 * MILLI, 2 * SECOND)


class Relocations:
    def __init__(self, cluster: Cluster, dice: Random) -> None:
        self.cluster = cluster
        self.dice = dice
        self.admin = Admin(cluster.world, "relocator")
        self.stopped = False

    def __repr__(self) -> str:
        return f"<relocations by {self.admin!r}>"

    def start(self) -> None:
        self._later()

    def stop(self) -> None:
        self.stopped = True

    def _later(self) -> None:
        if not self.stopped:
            self.admin.process.later(PAUSE, self._act)

    def _act(self) -> None:
        assigned = sorted(self.cluster.suite.ghosts.assignments.items())
        if self.stopped or not assigned:
            self._later()
            return
        name, brokers = self.dice.choice(assigned)
        broker = self.dice.choice(brokers)
        folder = self.dice.choice(self.cluster.world.hosts[broker].disk.roots)
        topic = AlterReplicaLogDirTopic(name=name.topic, partitions=[name.partition])
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=folder, topics=[topic])])
        self.admin.ask(request, broker, self._answered, retries=False)

    def _answered(self, _response: Any) -> None:
        self._later()
