"""I29 (S): a group's generations ascend for each member, and no partition is owned twice in one generation. (The
clients that commit check what a group committed.) Under the consumer protocol a generation is a member's epoch. A
static member is one owner, whichever process it is.
I51 (S): a coordinator has loaded what its log really contains. A load reads the whole log, and no bit turns while a
process runs: a coordinator that finishes loading while a turned bit is in the files has replayed it.
"""

from collections import Counter
from collections.abc import Iterable

from tidelog.effects import Event
from tidelog.errors import ErrorCode
from tidelog.log.names import LOG
from tidelog.model import GROUP_TOPIC, TopicPartition
from tidelog.partition.partition import Partition
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.checks.wire.wire_tap import partition_of
from tidelog.sim.disk import SimDisk
from tidelog.sim.host import Host
from tidelog.sim.world import World

GROUP_EVENTS = ("group.rebalance", "group.generation", "group.assigned", "group.member_fenced", "group.expired")


class Groups:
    def __init__(self, ghosts: Ghosts) -> None:
        self._ghosts = ghosts
        self._began: Counter[str] = Counter()
        """How often a coordinator created a group, or deleted it for good reason."""
        self._forgotten: Counter[str] = Counter()
        """How often it recreated a group that had no members: its positions had expired, or it never had any."""
        self._empty: set[str] = set()
        """Classic groups without members."""
        self._fenced: set[tuple[str, str]] = set()
        """(group, member) of members whose session expired."""
        self._seen: Counter[str] = Counter()
        self._last: dict[tuple[str, str], int] = {}
        self._owners: dict[tuple[str, int], dict[TopicPartition, str]] = {}

    def __repr__(self) -> str:
        return f"Groups({len(self._last)} members)"

    def happened(self, event: Event) -> None:
        """Track a group. One without members may change its kind, or be deleted once it has no positions left, and then
        counts from the start, as in Kafka.
        """
        group = str(event.fields["group"])
        if event.kind == "group.member_fenced":
            self._fenced.add((group, str(event.fields["member"])))
        elif event.kind == "group.expired":
            self._began[group] += 1
            self._forgotten[group] += 1
        elif event.kind == "group.rebalance":
            is_new = not event.fields["generation"]
            self._began[group] += is_new
            self._forgotten[group] += is_new and group in self._empty
        elif event.kind == "group.assigned":
            self._began[group] += group in self._empty
            self._empty.discard(group)
        elif event.fields["members"]:
            self._empty.discard(group)
        else:
            self._empty.add(group)

    def may_be_gone(self, group: str, member: str, error: ErrorCode) -> bool:
        """Whether a member that was away may be answered GROUP_ID_NOT_FOUND.

        When the sessions of all members expired, its own included, and nothing else is left of the group, it is
        deleted, as in Kafka.
        """
        return error is ErrorCode.GROUP_ID_NOT_FOUND and (group, member) in self._fenced

    def was_recreated(self, group: str, *, is_mixed: bool) -> bool:
        """Whether the group was recreated since the last call, where that is allowed: a group of both kinds at any
        time.
        """
        count = self._began[group] if is_mixed else self._forgotten[group]
        before, self._seen[group] = self._seen[group], count
        return before != count

    def reset_generations(self, group: str) -> None:
        """Forget generations and owners from before the group was recreated."""
        self._last = {key: last for key, last in self._last.items() if key[0] != group}
        self._owners = {key: owners for key, owners in self._owners.items() if key[0] != group}

    def joined(
        self,
        group: str,
        generation: int,
        member: str,
        partitions: Iterable[TopicPartition],
        instance: str | None = None,
    ) -> None:
        """Check what a member owns in a generation. A coordinator that may have lost its group starts over."""
        if self._ghosts.aged or any(name.topic == GROUP_TOPIC for name in self._ghosts.with_losses()):
            return
        last = self._last.get((group, member), -1)
        assert generation >= last, f"I29: {member} of {group} goes back from generation {last} to {generation}"
        self._last[group, member] = generation
        owners = self._owners.setdefault((group, generation), {})
        who = instance or member
        for name in partitions:
            owner = owners.setdefault(name, who)
            assert owner == who, f"I29: {owner} and {who} of {group} both own {name} in generation {generation}"


class CoordinatorLoads:
    """A `world.Observer`."""

    def stepped(self, world: World, host: Host) -> None:
        """Only the end of a load matters."""

    def happened(self, world: World, host: Host, event: Event) -> None:
        if event.kind == "coordinator.loaded":
            topic, _, number = str(event.fields["partition"]).rpartition("-")
            partition = partition_of(host, TopicPartition(topic, int(number)))
            if partition is not None:
                check_load(host.broker_id, partition, host.disk)

    def ended(self, world: World, host: Host, how: str) -> None:
        """A dead broker coordinates nothing."""

    def tree_changed(self, world: World) -> None:
        """The tree holds no records."""


def check_load(broker: int, partition: Partition, disk: SimDisk) -> None:
    for segment in partition.log.segments:
        rotten = [at for at in disk.inode(segment.path(LOG)).rotten if at < segment.size]
        assert not rotten, f"I51: broker {broker} loaded {partition.name}, whose log is rotten at {rotten}: {segment!r}"
