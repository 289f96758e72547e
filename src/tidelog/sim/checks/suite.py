"""All checks together: which check looks at what after a step, an event, the end of a life, or a change of the tree."""

from collections.abc import Iterable
from typing import Any

from tidelog.controller.tree import LeadershipState
from tidelog.effects import Event
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.node.node import Node
from tidelog.partition.leader import Leader
from tidelog.partition.partition import Partition
from tidelog.sim.checks import (
    committed,
    crashes,
    elections,
    epochs,
    insync,
    leadership,
    logs,
    numbering,
    transactions,
    watermarks,
)
from tidelog.sim.checks.coordinators import GROUP_EVENTS, Groups
from tidelog.sim.checks.elections import Registrations
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.checks.replica import NOBODY_COUNTS, Batch, Replica, State
from tidelog.sim.checks.wire import answers, followers
from tidelog.sim.checks.wire.controllers import Controllers
from tidelog.sim.checks.wire.followers import Fetches
from tidelog.sim.checks.wire.wire_tap import WireTap, partition_of
from tidelog.sim.host import Host
from tidelog.sim.logged_tree import LoggedTree
from tidelog.sim.world import World

UNCLEAN_ALLOWED = "unclean.leader.election.enable"
AILING = frozenset({"folder.failed", "folder.full", "log.corrupt"})
Key = tuple[int, TopicPartition]


class Suite:
    """A `world.Observer` and a `world.Witness`.

    `replicas` are those of running brokers; `crashes` remembers those of dead ones. `_cut` is the lowest offset to
    which a log was truncated within the current step.
    """

    def __init__(self) -> None:
        self.ghosts = Ghosts()
        self.wire_tap = WireTap(self.ghosts, self.epoch_before)
        self.received = self.wire_tap.received
        self.sent = self.wire_tap.sent
        self.fetches = Fetches(self.wire_tap)
        self.crashes = crashes.Crashes()
        self.registrations = Registrations()
        self.controllers = Controllers()
        self.groups = Groups(self.ghosts)
        self.replicas: dict[Key, Replica] = {}
        self._numbering: dict[Replica, numbering.Numbering] = {}
        self._cut: dict[Key, int] = {}
        self._fresh: set[int] = set()
        self._checked: dict[Partition, tuple[Any, ...]] = {}
        self._ailing: set[int] = set()
        self._held: dict[int, list[Partition]] = {}

    def __repr__(self) -> str:
        return f"Suite({len(self.replicas)} replicas, {self.ghosts!r})"

    def of(self, name: TopicPartition) -> list[Replica]:
        return [replica for (_, held), replica in self.replicas.items() if held == name]

    def deleted_to(self, name: TopicPartition) -> int:
        """The first offset that no running replica has deleted."""
        return max((replica.state.start for replica in self.of(name) if replica.state is not None), default=0)

    def epoch_before(self, broker: int, name: TopicPartition) -> int:
        """Return the leader epoch of a replica as of its broker's last step."""
        replica = self.replicas.get((broker, name))
        return -1 if replica is None or replica.state is None else replica.state.epoch

    def starting(self, host: Host) -> None:
        for root in host.disk.roots:
            crashes.check_checkpoints(host.disk, root)
        self._fresh.add(host.broker_id)

    def stepped(self, world: World, host: Host) -> None:
        if self not in world.witnesses:
            world.witnesses.append(self)
        if world.tree.created and not self.ghosts.epochs:
            self.tree_changed(world)
        checked, cut, ids = self._checked, self._cut, self.ghosts.topic_ids
        held = list(partitions_of(host))
        if held != self._held.get(host.broker_id):
            self.replicas_changed(host, held)
        for partition in held:
            role, log, leads = partition.role, partition.log, type(partition.role) is Leader
            numbers = (  # the fields of a `State`, in its order
                partition.epoch,
                partition.partition_epoch,
                leads,
                partition.high_watermark,
                log.log_end_offset,
                log.log_start_offset,
                log.durability.recovery_point,
                role.isr if leads else (),  # type: ignore[union-attr]
                role.maximal_isr if leads else NOBODY_COUNTS,  # type: ignore[union-attr]
                role.proposal if leads else None,  # type: ignore[union-attr]
                role.elr if leads else (),  # type: ignore[union-attr]
            )
            if (cut or checked.get(partition) != numbers) and log.topic_id == ids.get(partition.name.topic):
                self.check_replica(host, partition, numbers)
                checked[partition] = numbers
        if host.broker_id in self._fresh:
            self._fresh.discard(host.broker_id)
            if host.broker_id not in self._ailing:
                self.crashes.check_gone(self.ghosts, host)
        session = host.life.session if host.life is not None else None
        if session is not None and session.session not in self.registrations.life_of:
            self.registrations.opened(session.session, host.lives)
        tap = self.wire_tap
        if tap.sources or tap.acked_batches or tap.served or tap.latest_offsets or tap.unassigned or tap.pushes:
            self.check_messages(host)
            tap.step_over()
        cut.clear()

    def happened(self, world: World, host: Host, event: Event) -> None:
        """Record truncations, also if the log grew again within the same step, and other events that checks need."""
        if event.kind in ("log.truncate", "log.start_over"):
            offset = int(event.fields["offset"]) if event.kind == "log.truncate" else 0
            key = (host.broker_id, named(event))
            self._cut[key] = min(offset, self._cut.get(key, offset))
        elif event.kind == "replica.deleted" and (gone := self.replicas.pop((host.broker_id, named(event)), None)):
            self._numbering.pop(gone, None)
        elif event.kind in GROUP_EVENTS:
            self.groups.happened(event)
        elif event.kind == "log.compacted" and (replica := self.replicas.get((host.broker_id, named(event)))):
            transactions.seal(self.ghosts, replica)  # a segment that rolled by age did not change the numbers
        elif event.kind == "transaction.overdue":
            self.ghosts.overdue[str(event.fields["transactional_id"])] += 1
        elif event.kind in AILING:
            self._ailing.add(host.broker_id)

    def ended(self, world: World, host: Host, how: str) -> None:
        broker = host.broker_id
        self._cut.clear()
        self.wire_tap.step_over()
        self.ghosts.epochs.pop(broker, None)
        for key in [key for key in self.replicas if key[0] == broker]:
            replica = self.replicas.pop(key)
            self.crashes.end(self.ghosts, host, how, replica, failed=replica.partition.failed)
            self._numbering.pop(replica, None)
        self.crashes.end_life(host, how)
        stillborn = broker in self._fresh
        self.registrations.ended(broker, host.lives, how, stopping=host.was_stopping, stillborn=stillborn)
        self.wire_tap.forget(broker)
        self.fetches.forget(broker)
        self._fresh.discard(broker)
        self._ailing.discard(broker)
        self._held.pop(broker, None)
        self.ghosts.ended(broker, with_power=how != crashes.POWER_LOSS)

    def tree_changed(self, world: World) -> None:
        ghosts = self.ghosts
        before, versions, ids = dict(ghosts.states), dict(ghosts.partition_epochs), dict(ghosts.topic_ids)
        sessions = {host.life.session.session for host in world.hosts if host.life and host.life.session}
        changed = ghosts.read(world.tree, sessions)
        is_broker = world.tree.writer in self.registrations.life_of
        self.controllers.check_write(world.tree, ghosts.touched, is_broker=is_broker)
        for registration in ghosts.new_registrations:
            self.registrations.check(*registration)
            broker, session, epoch, _ = registration
            host = world.hosts[broker]
            node = host.node
            if isinstance(node, Node) and self.registrations.life_of.get(session) == host.lives:
                folders = node.replicas.live_folders
                ghosts.directories[broker, epoch] = frozenset(host.disk.directory_id(each) for each in folders)
                self.check_held(host)
        for name in changed:
            same = ids.get(name.topic) == ghosts.topic_ids.get(name.topic)
            self.state_changed(world, name, before.get(name) if same else None, versions.get(name, -1))
        if ids != ghosts.topic_ids:
            for key in [key for key in self.replicas if ids.get(key[1].topic) != ghosts.topic_ids.get(key[1].topic)]:
                self._numbering.pop(self.replicas.pop(key), None)

    def state_changed(self, world: World, name: TopicPartition, before: LeadershipState | None, version: int) -> None:
        ghosts = self.ghosts
        state = ghosts.states[name]
        leadership.check_tree(ghosts, name, before, version if before is not None else None)
        if before is None:
            return

        def excused(broker: int) -> bool:
            life = world.hosts[broker].life
            return life is None or life.stopping or broker in self._ailing

        replicas = {replica.broker: replica for replica in self.of(name)}
        knows_rule_8 = not any(replica.partition.generation.trusts_restarts for replica in replicas.values())
        if knows_rule_8 and state.leader_epoch > before.leader_epoch:
            elections.check(ghosts, name, before, replicas, excused, unclean=self.may_be_unclean(world, name))
        elif knows_rule_8:
            leader = replicas.get(state.leader)
            insync.check_change(ghosts, name, before, version, leader, self.fetches, excused)
        committed.check_members(ghosts, ghosts.of(name), replicas.values())
        self.check_members_hold(world, name)

    def may_be_unclean(self, world: World, name: TopicPartition) -> bool:
        """Whether an unclean election is allowed by the topic's or a broker's configuration, or was requested."""
        topic = self.ghosts.overrides.get(name.topic, {}).get(UNCLEAN_ALLOWED)
        if self.wire_tap.unclean_requested or topic is not None:
            return self.wire_tap.unclean_requested or topic == "true"
        brokers = (getattr(host.node, "broker", None) for host in world.hosts)
        return any(broker is not None and broker.config.unclean_leader_election_enable for broker in brokers)

    # What brokers hold.

    def replicas_changed(self, host: Host, held: list[Partition]) -> None:
        """Check a broker whose replicas were created or deleted."""
        before, self._held[host.broker_id] = self._held.get(host.broker_id, ()), held
        for gone in before:
            if gone not in held:
                leadership.check_deleted(self.ghosts, gone.name, gone.log.topic_id, host.broker_id)
        self.check_held(host)

    def check_held(self, host: Host) -> None:
        for name, state in self.ghosts.states.items():
            if (host.broker_id in state.isr or host.broker_id in state.elr) and host.broker_id not in self._ailing:
                insync.check_held(self.ghosts, name, host.broker_id, partition_of(host, name))

    def check_members_hold(self, world: World, name: TopicPartition) -> None:
        state = self.ghosts.states[name]
        for broker in (*state.isr, *state.elr):
            if broker not in self._ailing:
                insync.check_held(self.ghosts, name, broker, partition_of(world.hosts[broker], name))

    # One replica.

    def check_replica(self, host: Host, partition: Partition, numbers: tuple[Any, ...]) -> None:
        key = (host.broker_id, partition.name)
        replica = self.replicas.get(key)
        if replica is None or replica.partition is not partition:
            replica = self.replicas[key] = self.found(host, partition)
        before = replica.state
        if (numbers == before and key not in self._cut) or partition.failed:
            return
        replica.state = State(*numbers)
        new, gone = self.follow_log(host, replica, before)
        if before is None and host.broker_id in self._fresh:
            self.crashes.check_recovered(host, replica)
            transactions.check_keys(self.ghosts.of(partition.name), replica, host.disk)
        crashes.check_durable(replica, before, host.disk)
        ghosts, cut = self.ghosts, bool(gone)
        leadership.check(ghosts, replica, before)
        self.fetches.update(replica)
        watermarks.check(ghosts, replica, before, self.fetches)
        insync.check_proposal(ghosts, replica, before, self.fetches, host.world.trace.step)
        epochs.check(replica, before, cut=cut)
        self.check_numbers(replica, before, new, cut=cut)
        if isinstance(partition.role, Leader):
            followers.check_remote(ghosts, replica, list(partition.role.remote))
        reached = ghosts.of(partition.name).true_high_watermark
        committed.check(ghosts, replica, before, self.of, cut=cut)
        if ghosts.of(partition.name).true_high_watermark > reached:
            self.check_members_hold(host.world, partition.name)
        transactions.check_last_stable_offset(ghosts, replica)
        transactions.follow(ghosts, replica, host.disk)

    def found(self, host: Host, partition: Partition) -> Replica:
        left = self.crashes.remains.get((host.broker_id, partition.name))
        ghost = self.ghosts.of(partition.name)

        def compacted_to() -> int:
            """Return the offset below which whole segments may be compacted at any time."""
            known = max(ghost.once_committed, ghost.seen_high_watermark)  # adrift, only the latter moves
            return known if self.ghosts.is_compacted(partition) else 0

        replica = Replica(host.broker_id, partition, compacted_to)
        if left is not None and left.replica.state is not None:
            replica.log.deleted_to = max(left.replica.deleted_to, left.replica.state.start)
        return replica

    def follow_log(self, host: Host, replica: Replica, before: State | None) -> tuple[list[Batch], list[Batch]]:
        log, name = replica.partition.log, replica.partition.name
        source = self.wire_tap.sources.get(name)
        end = log.log_end_offset
        if self._cut:
            end = min(end, self._cut.get((host.broker_id, name), end))
        gone = replica.cut(end)
        leadership.check_truncation(self.ghosts, replica, gone, source)
        new = replica.catch_up(host.disk)
        if (
            new and before is not None and any(not gone or batch.end > end for batch in new)
        ):  # else the same batches were read again
            replica.appended_in = replica.partition.epoch
        recovered = before is None and host.broker_id in self._fresh
        if recovered:
            leadership.take_recovered(self.ghosts, replica, new)
        else:
            leadership.check_appended(self.ghosts, replica, new, lambda broker: (broker, name) in self.replicas, source)
        return new, gone

    def check_numbers(self, replica: Replica, before: State | None, new: list[Batch], *, cut: bool) -> None:
        if self.ghosts.aged:  # expired producers may start anywhere, and what they sent before may be repeated
            return
        numbers, compacted = self._numbering.get(replica), self.ghosts.of(replica.partition.name).compacted
        if numbers is None or cut:
            numbers = self._numbering.setdefault(replica, numbering.Numbering())
            numbers.rebuild(replica, compacted=compacted)
        else:
            numbers.take(replica, new, compacted=compacted)
        if before is None or cut or replica.state is None or before.epoch != replica.state.epoch:
            numbers.compare(replica)
        elif new:
            numbers.compare(replica, {batch.producer[0] for batch in new} - {-1})

    # What was answered in a step that is over.

    def check_messages(self, host: Host) -> None:
        tap, broker = self.wire_tap, host.broker_id
        followers.check_unassigned(tap.unassigned)
        self.controllers.check_pushes(self.ghosts, host, tap.pushes)
        for success in tap.acked_batches:
            if (broker, success.name) in self.replicas:
                answers.check_acknowledged(self.ghosts, self.replicas[broker, success.name], success)
        for served in tap.served:
            if (broker, served.name) in self.replicas:
                answers.check_served(self.ghosts, self.replicas[broker, served.name], served)
        for latest in tap.latest_offsets:
            answers.check_latest(self.ghosts, latest)

    # What clients saw.

    def acknowledged(self, name: TopicPartition, base: int, count: int, crc: int) -> None:
        """Record that a producer received an acks=all success: `count` records from `base` on, in a batch with this
        CRC.
        """
        answers.check_success(self.ghosts, name, base, base + count)

    def served(self, name: TopicPartition, base: int, end: int, epoch: int, crc: int) -> None:
        """Record what a consumer received: batches, or single records, always the same of a partition."""
        answers.check_read(self.ghosts, name, base, (end, epoch, crc))

    def refused(self, world: World, name: TopicPartition, code: ErrorCode, *, is_new: bool) -> None:
        restarted = is_new or self.ghosts.aged or any(host.lives > 1 for host in world.hosts)
        answers.check_refused(self.ghosts, name, code, restarted=restarted)

    def read_refused(self, name: TopicPartition, position: int, code: ErrorCode) -> None:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE and not self.ghosts.aged:
            allowed = self.ghosts.of(name).loss_allowed
            assert allowed, f"I22: {name} cannot be read on at {position}, up to which it was read"

    # At intervals and at the end.

    def scan(self, world: World) -> None:
        """Scan all running replicas completely (Q)."""
        if isinstance(world.tree, LoggedTree):
            for host in world.hosts:
                if isinstance(host.node, Node) and host.node.quorum is not None:
                    world.tree.check_copy(host.node.quorum)
        held = {id(partition) for host in world.hosts for partition in partitions_of(host)}
        for key in [key for key, replica in self.replicas.items() if id(replica.partition) not in held]:
            self._numbering.pop(self.replicas.pop(key), None)  # deleted since
        for replica in self.replicas.values():
            if not replica.partition.failed and replica.state is not None:
                logs.check_log(replica)
                disk = world.hosts[replica.broker].disk
                logs.check_bytes(replica, disk)
                transactions.check_keys(self.ghosts.of(replica.partition.name), replica, disk)
        for name in list(self.ghosts.partitions):
            self.scan_partition(world, name)

    def scan_partition(self, world: World, name: TopicPartition) -> None:
        ghost = self.ghosts.of(name)
        replicas = [replica for replica in self.of(name) if replica.state is not None]
        if not self.ghosts.aged:
            numbering.check_unique(ghost, self.deleted_to(name))
        logs.check_matching(replicas)
        if not ghost.awaits_rebase:
            logs.check_watermarks([replica for replica in replicas if replica.broker not in ghost.unproven])
        left = [
            remains
            for (broker, held), remains in self.crashes.remains.items()
            if held == name and world.hosts[broker].disk.holds(remains.directory)
        ]
        wanted = name.topic not in self.ghosts.deleting
        if wanted and len(replicas) + len(left) >= len(self.ghosts.assignments.get(name, ())):
            logs.check_acked(ghost, replicas, left)


def named(event: Event) -> TopicPartition:
    topic, _, number = str(event.fields["partition"]).rpartition("-")
    return TopicPartition(topic, int(number))


def partitions_of(host: Host) -> Iterable[Partition]:
    node: Any = host.life.node if host.life is not None else None
    return () if node is None else node.replicas
