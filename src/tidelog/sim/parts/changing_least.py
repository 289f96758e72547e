"""A topic with two replicas whose `min.insync.replicas` changes while a replica leaves (KIP-966).

The controller knows a new value before the leader does, whose store may be slow then. Between the two, the controller
may keep the replica that left as eligible to lead, and the leader must not commit without it.
"""

from functools import partial
from random import Random
from typing import Any

from tidelog.model import TopicPartition
from tidelog.sim.clients.admin import Admin
from tidelog.sim.clients.producer import Pace
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.host import Host

TOPIC = "least"
OPTION = "min.insync.replicas"
PAUSE = (500 * MILLI, 4 * SECOND)
LEAVES = 0.6
"""How often a follower stops right after the value was raised."""
LEAVES_AFTER = 50 * MILLI
LATE = 0.5
"""How often the leader learns late of the new value."""
LATENESS = (SECOND, 3 * SECOND)


class ChangingLeast:
    def __init__(self, cluster: Cluster, dice: Random) -> None:
        self.cluster = cluster
        self.dice = dice
        self.admin = Admin(cluster.world, "least-changer")
        self.name = TopicPartition(TOPIC, 0)
        self.least = 2
        self.stopped = False

    def __repr__(self) -> str:
        return f"<{OPTION} of {self.name} is {self.least}>"

    def start(self) -> None:
        self.cluster.create(TOPIC, 1, replicas=2, min_insync_replicas="2")
        self.cluster.produce(self.name, pace=Pace(gap=(20 * MILLI, 200 * MILLI)))
        self._later()

    def _later(self) -> None:
        self.admin.process.after(self.dice.randint(*PAUSE), self._change)

    def _change(self) -> None:
        if not self.stopped:
            self.least = 3 - self.least
            self._delay_leader()
            self.admin.configure(TOPIC, OPTION, str(self.least), self._changed)

    def _changed(self, _response: Any) -> None:
        if self.least > 1 and not self.stopped and self.dice.random() < LEAVES:
            self.admin.process.after(self.dice.randint(0, LEAVES_AFTER), self._stop_follower)
        self._later()

    def _delay_leader(self) -> None:
        """Let the store be slow for the leader, which it is for the controller then, too, if that is the same."""
        leader = self.cluster.leader(self.name)
        if leader is not None and self.dice.random() < LATE:
            leader.trouble.store_delay = LATENESS
            self.cluster.world.after(2 * LATENESS[1], partial(_mend, leader))

    def _stop_follower(self) -> None:
        ghosts, hosts = self.cluster.suite.ghosts, self.cluster.world.hosts
        state = ghosts.states.get(self.name)
        followers = [b for b in (state.isr if state else ()) if state and b != state.leader and hosts[b].running]
        if followers and not self.stopped:
            self.cluster.world.stop(hosts[followers[0]])


def _mend(host: Host) -> None:
    host.trouble.store_delay = None
