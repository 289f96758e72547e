"""All checks together: what is looked at when, and what each look is told of the one before."""

from collections.abc import Iterable
from typing import Any, cast

from tidelog.effects import Event
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.partition.partition import Partition
from tidelog.sim.checks import committed, leadership, logs, truncation, watermarks
from tidelog.sim.checks.ghosts import Acked, Ghosts
from tidelog.sim.checks.replica import Replica, state_of
from tidelog.sim.host import Host
from tidelog.sim.world import World


class Suite:
    """A `world.Observer`. Replicas are those of running brokers; a dead broker's are forgotten."""

    def __init__(self) -> None:
        self.ghosts = Ghosts()
        self.replicas: dict[tuple[int, TopicPartition], Replica] = {}
        self._cut: dict[tuple[int, TopicPartition], int] = {}

    def __repr__(self) -> str:
        return f"Suite({len(self.replicas)} replicas, {self.ghosts!r})"

    # world.Observer.

    def stepped(self, world: World, host: Host) -> None:
        if world.tree.created and not self.ghosts.epochs:
            self.tree_changed(world)
        for partition in partitions_of(host):
            if partition.log.topic_id == self.ghosts.topic_ids.get(partition.name.topic):
                self.look(host, partition)
        self._cut.clear()

    def happened(self, world: World, host: Host, event: Event) -> None:
        """Where a log was cut must be known even if it grew again within the same step."""
        if event.kind in ("log.truncate", "log.start_over"):
            topic, _, number = str(event.fields["partition"]).rpartition("-")
            offset = int(event.fields["offset"]) if event.kind == "log.truncate" else 0
            key = (host.broker_id, TopicPartition(topic, int(number)))
            self._cut[key] = min(offset, self._cut.get(key, offset))

    def ended(self, world: World, host: Host, how: str) -> None:
        self._cut.clear()
        self.ghosts.epochs.pop(host.broker_id, None)
        if how == "power loss":
            self.ghosts.lost_power(host.broker_id)
        for key in [key for key in self.replicas if key[0] == host.broker_id]:
            del self.replicas[key]

    def tree_changed(self, world: World) -> None:
        before = dict(self.ghosts.states)
        ids = dict(self.ghosts.topic_ids)
        sessions = {host.life.session.session for host in world.hosts if host.life and host.life.session}
        for name in self.ghosts.read(world.tree, sessions):
            same = ids.get(name.topic) == self.ghosts.topic_ids.get(name.topic)
            leadership.check_tree(self.ghosts, name, before.get(name) if same else None)
        for key in [key for key in self.replicas if ids.get(key[1].topic) != self.ghosts.topic_ids.get(key[1].topic)]:
            del self.replicas[key]

    # One replica.

    def look(self, host: Host, partition: Partition) -> None:
        key = (host.broker_id, partition.name)
        replica = self.replicas.get(key)
        if replica is None or replica.partition is not partition:
            replica = self.replicas[key] = Replica(host.broker_id, partition)
        state, before = state_of(partition), replica.state
        if (state == before and key not in self._cut) or partition.failed:
            return
        replica.state = state
        self.follow_log(host, replica)
        leadership.check(self.ghosts, replica, before)
        watermarks.check(self.ghosts, replica, before)
        committed.check(self.ghosts, replica, before)

    def follow_log(self, host: Host, replica: Replica) -> None:
        log, name = replica.partition.log, replica.partition.name
        cut = min(log.log_end_offset, self._cut.get((host.broker_id, name), log.log_end_offset))
        truncation.check(self.ghosts, replica, replica.log.cut(cut))
        new = replica.catch_up(host.disk)
        leadership.check_appended(self.ghosts, replica, new, lambda broker: (broker, name) in self.replicas)

    # What clients saw.

    def acknowledged(self, name: TopicPartition, base: int, count: int, crc: int) -> None:
        """An acks=all success: `count` records from offset `base` on, in a batch with this CRC."""
        state = self.ghosts.states.get(name)
        leader = self.replicas.get((state.leader, name)) if state is not None else None
        if leader is not None and not committed.is_current_leader(self.ghosts, leader):
            leader = None
        committed.acknowledged(self.ghosts, name, Acked(base, base + count, crc), leader)

    def served(self, name: TopicPartition, base: int, end: int, epoch: int, crc: int) -> None:
        committed.served(self.ghosts, name, base, (end, epoch, crc))

    def refused(self, world: World, name: TopicPartition, code: ErrorCode, *, is_new: bool) -> None:
        """A producer whose batches went out in order was refused for good (I26). Allowed after a restart, for the
        window of five is known again only as far as the log was replayed since the snapshot; and to a producer that
        is new, of which a leader takes whatever batch comes through first, as Kafka does."""
        restarted = is_new or any(host.lives > 1 for host in world.hosts)
        restarted = restarted and code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        allowed = restarted or self.ghosts.of(name).loss_allowed
        assert allowed, f"I26: a producer to {name} was refused with {code.name}"

    def read_refused(self, name: TopicPartition, position: int, code: ErrorCode) -> None:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            allowed = self.ghosts.of(name).loss_allowed
            assert allowed, f"I22: {name} cannot be read on at {position}, up to which it was read"

    # At intervals and at the end.

    def scan(self, world: World) -> None:
        """The full scan of what runs (Q)."""
        held = {id(partition) for host in world.hosts for partition in partitions_of(host)}
        for key in [key for key, replica in self.replicas.items() if id(replica.partition) not in held]:
            del self.replicas[key]  # deleted since
        for replica in self.replicas.values():
            if not replica.partition.failed:
                logs.check_log(replica)
                logs.check_bytes(replica, world.hosts[replica.broker].disk)
        for name, ghost in self.ghosts.partitions.items():
            replicas = [replica for (_, held), replica in self.replicas.items() if held == name]
            committed.check_unique(ghost)
            if not ghost.loss_allowed:
                logs.check_matching(replicas)
            if len(replicas) == len(self.ghosts.assignments.get(name, ())):
                logs.check_acked(ghost, replicas)


def partitions_of(host: Host) -> Iterable[Partition]:
    node = cast("Any", host.node)
    return () if node is None else cast("Iterable[Partition]", node.replicas)
