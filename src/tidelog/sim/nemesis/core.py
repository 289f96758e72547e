"""A healed core: some seeds heal all but a minority of the brokers first, and the rest must suffice.

Every partition keeps as many replicas in sync as its `min.insync.replicas` requires. Then leaders and ISRs must be in
the core, what is produced must be acknowledged, and readers must reach what was committed.
"""

from functools import partial
from random import Random

from tidelog.model import TopicPartition
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import SECOND
from tidelog.sim.host import Host

PATIENCE_SECONDS = 120
LAST_REPAIRS_SECONDS = 7
"""Until the last broker with a failed disk was restarted."""


class Core:
    """`absent` are the IDs of the brokers that are left out."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self.cluster = cluster
        self.random = random
        self.absent: set[int] = set()

    def __repr__(self) -> str:
        return f"<core without {sorted(self.absent)}>"

    def run_without_minority(self) -> None:
        """Stop some brokers after all is healed, and restart them when the others have shown that they suffice."""
        cluster = self.cluster
        cluster.run(LAST_REPAIRS_SECONDS)
        if not cluster.world.run(PATIENCE_SECONDS * SECOND, self.all_count):
            cluster.elect_forsaken()
        cluster.expect(self.all_count, PATIENCE_SECONDS, "every assigned replica is in its ISR, and counts")
        self.choose()
        if not self.absent:
            return
        for host in self.hosts():
            cluster.world.count("left out")
            cluster.world.kill(host)
        self.check_core()
        left_out, self.absent = self.hosts(), set()
        for host in left_out:
            host.start()

    def all_count(self) -> bool:
        """Whether every ISR is complete, with brokers that live now (rule 8)."""
        ghosts = self.cluster.suite.ghosts
        return all(
            ghosts.states[name].leader >= 0 and ghosts.in_sync(name, broker)
            for name in self.names()
            for broker in ghosts.assignments[name]
        )

    def choose(self) -> None:
        """Choose a minority without which every partition has enough replicas in sync, and most voters are there."""
        hosts = self.cluster.world.hosts
        for host in self.random.sample(hosts, (len(hosts) - 1) // 2):
            absent = {*self.absent, host.broker_id}
            enough = all(self._does_without(name, absent) for name in self.names())
            if host.running and enough and self._has_majority(absent):
                self.absent = absent

    def _has_majority(self, absent: set[int]) -> bool:
        voters = set(range(self.cluster.voters))
        return not voters or 2 * len(voters - absent) > len(voters)

    def names(self) -> list[TopicPartition]:
        ghosts = self.cluster.suite.ghosts
        return [name for name in ghosts.assignments if name.topic not in ghosts.deleting and name in ghosts.states]

    def _does_without(self, name: TopicPartition, absent: set[int]) -> bool:
        ghosts = self.cluster.suite.ghosts
        return len(set(ghosts.states[name].isr) - absent) >= max(1, ghosts.of(name).min_in_sync)

    def hosts(self) -> list[Host]:
        return [host for host in self.cluster.world.hosts if host.broker_id in self.absent]

    def check_core(self) -> None:
        cluster, ghosts = self.cluster, self.cluster.suite.ghosts
        held = self.names()
        cluster.expect(partial(self.holds, held), PATIENCE_SECONDS, f"{self!r}: leaders and ISRs are of the core")
        acked = sum(producer.acked for producer in cluster.producers)
        marks = {name: ghosts.of(name).true_high_watermark for name in held}
        cluster.expect(
            partial(self.acknowledges_more, acked), PATIENCE_SECONDS, f"{self!r}: what is produced is acknowledged"
        )
        cluster.expect(partial(self.is_read, marks), PATIENCE_SECONDS, f"{self!r}: readers reach what was committed")

    def holds(self, names: list[TopicPartition]) -> bool:
        ghosts = self.cluster.suite.ghosts
        for name in names:
            state = ghosts.states.get(name)
            if state is None or name.topic in ghosts.deleting:
                continue  # deleted meanwhile
            if state.leader < 0 or set(state.isr) != set(ghosts.assignments[name]) - self.absent:
                return False
        return True

    def acknowledges_more(self, acked: int) -> bool:
        producers = self.cluster.producers
        return not producers or sum(producer.acked for producer in producers) > acked

    def is_read(self, marks: dict[TopicPartition, int]) -> bool:
        ghosts = self.cluster.suite.ghosts
        return all(
            ghosts.of(name).loss_allowed or reader.has_read(name, marks[name])
            for reader in self.cluster.readers
            for name in reader.positions
            if name in marks
        )
