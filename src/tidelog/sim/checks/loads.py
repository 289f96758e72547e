"""I51 (S): a coordinator has loaded what its log truly says. A load reads all of the log, and nothing turns while a
process runs: whoever is done while a turned bit stands in the files has replayed it, and goes by it from then on.
"""

from tidelog.effects import Event
from tidelog.log.names import LOG
from tidelog.model import TopicPartition
from tidelog.partition.partition import Partition
from tidelog.sim.checks.wire.wire_tap import partition_of
from tidelog.sim.disk import SimDisk
from tidelog.sim.host import Host
from tidelog.sim.world import World


class Loads:
    """A `world.Observer`."""

    def stepped(self, world: World, host: Host) -> None:
        """Only the end of a load tells."""

    def happened(self, world: World, host: Host, event: Event) -> None:
        if event.kind == "coordinator.loaded":
            topic, _, number = str(event.fields["partition"]).rpartition("-")
            partition = partition_of(host, TopicPartition(topic, int(number)))
            if partition is not None:
                check(host.broker_id, partition, host.disk)

    def ended(self, world: World, host: Host, how: str) -> None:
        """Who is dead coordinates nothing."""

    def tree_changed(self, world: World) -> None:
        """The tree holds no records."""


def check(broker: int, partition: Partition, disk: SimDisk) -> None:
    for segment in partition.log.segments:
        rotten = [at for at in disk.inode(segment.path(LOG)).rotten if at < segment.size]
        assert not rotten, (
            f"I51: broker {broker} coordinates by {partition.name}, which is rotten at {rotten}: {segment!r}"
        )
