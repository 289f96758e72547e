"""I27 (S): the last stable offset ascends. What a leader once told as stable stays stable for all that follow, as soon
as their high watermark reaches the first offset of their epoch; before that it may be behind (REPLICATION.md, rule 9).
I1 (S): it lies between the log's start and the high watermark.
"""

from tidelog.effects import Event
from tidelog.model import TopicPartition
from tidelog.partition.leader import Leader
from tidelog.partition.partition import Partition
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.checks.suite import partitions_of
from tidelog.sim.host import Host
from tidelog.sim.world import World


class StableOffsets:
    """An observer. `told` is the highest last stable offset of each partition that a leader, not a stale one, had."""

    def __init__(self, ghosts: Ghosts) -> None:
        self.ghosts = ghosts
        self.told: dict[TopicPartition, int] = {}

    def __repr__(self) -> str:
        return f"StableOffsets({len(self.told)} partitions)"

    def stepped(self, world: World, host: Host) -> None:
        del world
        for partition in partitions_of(host):
            role = partition.role
            state = self.ghosts.states.get(partition.name)
            if not isinstance(role, Leader) or state is None or state.leader_epoch != partition.epoch:
                continue
            if partition.high_watermark >= role.epoch_start and not self.ghosts.of(partition.name).loss_allowed:
                self._check(partition)

    def _check(self, partition: Partition) -> None:
        stable, told = partition.last_stable_offset, self.told.get(partition.name, 0)
        start, high_watermark = partition.log.log_start_offset, partition.high_watermark
        assert start <= stable <= high_watermark, f"I1: {partition!r} has the last stable offset {stable}"
        assert stable >= told, f"I27: the last stable offset of {partition!r} went back from {told} to {stable}"
        self.told[partition.name] = stable

    def happened(self, world: World, host: Host, event: Event) -> None:
        """Events tell nothing of this."""

    def ended(self, world: World, host: Host, how: str) -> None:
        """The next leader is held against what was told."""

    def tree_changed(self, world: World) -> None:
        """What is told does not depend on the tree."""
