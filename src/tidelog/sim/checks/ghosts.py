"""What no broker knows: TrueHW, Committed, Acked and LossAllowed of every partition, as REPLICATION.md defines them.

`Ghosts` mirrors the metadata tree as of its last change.

LossAllowed: acknowledged records may be gone after an unclean election, after more than min - 1 overlapping data-losing
crashes, or after a data-losing crash of the last ISR member while |ISR| < min; with eligible leader replicas (KIP-966),
of the last of all that may hold what is committed. From then until a leader is elected
nobody can say which records must exist. The log of the next leader is then the reference, and a replica that differs
from it is judged again once it is back in sync. What an operator deletes is not a loss: comparisons begin at a log's
start.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.controller import tree as nodes
from tidelog.controller.tree import LeadershipState, parse_assignment, parse_state
from tidelog.model import NO_EPOCH, TopicPartition
from tidelog.partition.partition import Partition
from tidelog.ports import Node
from tidelog.sim.checks.compaction import Keys
from tidelog.sim.checks.replica import Chain, Replica
from tidelog.sim.inode import Inode
from tidelog.sim.store import Tree

CLEANUP_POLICY = "cleanup.policy"
MIN_INSYNC_REPLICAS = "min.insync.replicas"


class Acked(NamedTuple):
    """A batch for which acks=all was answered with success."""

    base: int
    end: int
    crc: int


class ProposedIsr(NamedTuple):
    """An ISR that a leader proposed in AlterPartition, with its members' broker epochs. `step`: the first time."""

    leader_epoch: int
    partition_epoch: int
    members: Mapping[int, int]
    step: int = 0


@dataclass(slots=True)
class Ghost:
    """What the checks know about one partition.

    `leaders` and `starts` say who led an epoch and where it began. `first_appended` is (broker, end, crc) of what was
    appended first at an epoch and offset. `isrs` maps (leader epoch, partition epoch) to the state that the controller
    recorded. `lossy` brokers lost unsynced data and are not back in the ISR since. `once_committed` is the highest
    TrueHW ever, lost records included. `loss_allowed` says why acknowledged records may be gone, also long afterwards;
    while `rebase_after` is an epoch, the next leader's log will be the reference. Records and markers were read up to
    `followed_to`; `keys` are those of a compacted partition. `unproven` brokers were not in sync since the last loss,
    or since they lost data.
    """

    name: TopicPartition
    min_in_sync: int = 1
    true_high_watermark: int = 0
    seen_high_watermark: int = 0
    once_committed: int = 0
    compacted: bool = False
    committed: Chain = field(default_factory=Chain)
    acked: dict[int, Acked] = field(default_factory=dict)
    answered: dict[tuple[int, int, int], int] = field(default_factory=dict)
    served: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    read: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    reported_stable: int = 0
    keys: Keys | None = None
    followed_to: int = 0
    reported_latest: dict[int, int] = field(default_factory=dict)
    leaders: dict[int, int] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    first_appended: dict[tuple[int, int], tuple[int, int, int]] = field(default_factory=dict)
    proposals: list[ProposedIsr] = field(default_factory=list)
    isrs: dict[tuple[int, int], LeadershipState] = field(default_factory=dict)
    lossy: set[int] = field(default_factory=set)
    loss_allowed: str = ""
    rebase_after: int | None = None
    losses: int = 0
    unproven: set[int] = field(default_factory=set)

    @property
    def awaits_rebase(self) -> bool:
        """Whether nobody can say at the moment which records must exist."""
        return self.rebase_after is not None

    def is_rebase_due(self, epoch: int) -> bool:
        """Whether the leader of this epoch is the first one after a loss."""
        return self.rebase_after is not None and epoch > self.rebase_after


class Partitions(dict[TopicPartition, Ghost]):
    """Ghosts by partition, created on first access."""

    def __missing__(self, name: TopicPartition) -> Ghost:
        self[name] = ghost = Ghost(name)
        return ghost


class Ghosts:
    """The mirror of the metadata tree, and the ghosts of all partitions.

    `states` and `assignments` mirror the tree; `epochs` are those of brokers that are registered now and live,
    `registered` all that ever were, with the epoch that each proved to have ended cleanly.
    """

    def __init__(self) -> None:
        self.partitions = Partitions()
        self.of = self.partitions.__getitem__
        self.states: dict[TopicPartition, LeadershipState] = {}
        self.partition_epochs: dict[TopicPartition, int] = {}
        self.assignments: dict[TopicPartition, tuple[int, ...]] = {}
        self.epochs: dict[int, int] = {}
        self.registered: dict[tuple[int, int], int] = {}
        self.directories: dict[tuple[int, int], frozenset[bytes]] = {}
        """(broker, epoch) → the log directories of the life that registered with it."""
        self.new_registrations: list[tuple[int, int, int, int]] = []
        """(broker, session, epoch, clean epoch) of the registrations that are new in the tree."""
        self.topic_ids: dict[str, bytes] = {}
        self.deleting: set[str] = set()
        self.overrides: dict[str, Mapping[str, str]] = {}
        self.defaults: Mapping[str, str] = {}
        """The cluster-wide options of brokers."""
        self.reassigning: dict[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self.rot: dict[tuple[int, TopicPartition], Inode] = {}
        """(broker, partition) → the file with a flipped bit that no start checks."""
        self.aged = False
        """Whether a clock was days ahead: producers, offsets and old records may have expired."""
        self.overdue: Counter[str] = Counter()
        """How often a coordinator found that a transaction of this ID timed out."""
        self.controller_epoch = 0
        self.leaving: dict[tuple[int, int], tuple[int, int]] = {}
        """(broker, controller epoch) → (broker epoch, step) of a shutdown that the controller agreed to."""
        self.touched: list[str] = []
        """The paths of the tree's last change, if the change before it was seen, too."""
        self.outcomes: dict[tuple[int, int], tuple[bool, TopicPartition]] = {}
        """(producer, epoch) of a marker → whether it commits, and the partition where it was seen first."""
        self.reused: set[tuple[int, int]] = set()
        """(producer, epoch) of old producers that stand for more than one transaction each."""
        self._seen: dict[str, Node] = {}
        self._version = -1
        self._registrations: list[tuple[int, Node]] = []

    def __repr__(self) -> str:
        return f"Ghosts({len(self.partitions)} partitions)"

    def read(self, tree: Tree, sessions: set[int]) -> list[TopicPartition]:
        """Read what changed in the tree; return the partitions whose state changed.

        A registration counts only with a living session in `sessions`: one that outlives its process says nothing about
        the next.
        """
        changed: list[TopicPartition] = []
        self.new_registrations = []
        self.touched = []
        if self._version != tree.version:
            is_next, self._version = tree.version == self._version + 1, tree.version
            self._read_nodes(tree, changed)
            self.touched = self.touched if is_next else []
        self.epochs = {broker: node.created for broker, node in self._registrations if node.session in sessions}
        for name, ghost in self.partitions.items():
            if ghost.lossy:
                self.forgive_loss(name)
        return changed

    def _read_nodes(self, tree: Tree, changed: list[TopicPartition]) -> None:
        for path in [path for path in self._seen if path not in tree.nodes]:
            del self._seen[path]
            self.touched.append(path)
            if path.startswith(nodes.TOPICS + "/"):
                self._forget(path.split("/")[3:])
        seen = self._seen
        for path, node in tree.nodes.items():
            if seen.get(path) is not node:
                seen[path] = node
                self.touched.append(path)
                self._take(path, node, changed)
        deleting, ids = nodes.DELETE_TOPICS + "/", nodes.BROKER_IDS + "/"
        self.deleting = {path[len(deleting) :] for path in seen if path.startswith(deleting)}
        self._registrations = [(int(path[len(ids) :]), node) for path, node in seen.items() if path.startswith(ids)]

    def _take(self, path: str, node: Node, changed: list[TopicPartition]) -> None:
        if path.startswith(nodes.TOPICS + "/"):
            self._take_topic(path.split("/")[3:], node, changed)
        elif path.startswith(nodes.BROKER_IDS + "/"):
            self._take_broker(int(path.rsplit("/", 1)[1]), node)
        elif path.startswith(nodes.TOPIC_CONFIGS + "/"):
            self.overrides[path.rsplit("/", 1)[1]] = nodes.parse_config(node.data)
        elif path == nodes.broker_config_path(""):
            self.defaults = nodes.parse_config(node.data)
        elif path == nodes.CONTROLLER_EPOCH:
            epoch = nodes.parse_controller_epoch(node.data)
            assert epoch >= self.controller_epoch, f"I13: the controller epoch goes back to {epoch}"
            self.controller_epoch = epoch

    def _take_broker(self, broker: int, node: Node) -> None:
        last = max((epoch for known, epoch in self.registered if known == broker), default=NO_EPOCH)
        assert node.created >= last, f"I13: broker {broker} goes back from epoch {last} to {node.created}"
        clean_epoch = nodes.parse_registration(node.data).clean_epoch
        self.registered[broker, node.created] = clean_epoch
        self.new_registrations.append((broker, node.session, node.created, clean_epoch))

    def _take_topic(self, parts: list[str], node: Node, changed: list[TopicPartition]) -> None:
        topic = parts[0]
        if len(parts) == 1 and node.data:
            assignment = parse_assignment(node.data)
            if self.topic_ids.get(topic) != assignment.topic_id:
                self._forget(parts)
                self.topic_ids[topic] = assignment.topic_id
            for partition, replicas in assignment.replicas.items():
                name = TopicPartition(topic, partition)
                self.assignments[name] = replicas
                self.reassigning[name] = (
                    assignment.adding.get(partition, ()),
                    assignment.removing.get(partition, ()),
                )
        elif parts[-1] == "state":
            name = TopicPartition(topic, int(parts[2]))
            self.states[name] = parse_state(node.data)
            self.partition_epochs[name] = node.version
            self.of(name).isrs[self.states[name].leader_epoch, node.version] = self.states[name]
            changed.append(name)

    def _forget(self, parts: list[str]) -> None:
        """Forget the partitions of a topic that was deleted, or replaced by another of the same name."""
        if len(parts) > 1:
            return
        self.topic_ids.pop(parts[0], None)
        for name in [name for name in self.assignments if name.topic == parts[0]]:
            self.partitions.pop(name, None)
            self.states.pop(name, None)
            self.partition_epochs.pop(name, None)
            self.reassigning.pop(name, None)
            del self.assignments[name]

    def is_compacted(self, partition: Partition) -> bool:
        """Whether the log may have been compacted, now or under an earlier configuration.

        A broker that has just started does not know its topics' configurations yet.
        """
        policy = self.overrides.get(partition.name.topic, {}).get(CLEANUP_POLICY, "")
        ghost = self.of(partition.name)
        ghost.compacted = ghost.compacted or "compact" in policy or "compact" in partition.config.cleanup_policy
        return ghost.compacted

    def proves(self, broker: int, epoch: int, recorded: int) -> bool:
        """Rule 8: whether a registration with `epoch` belongs to the recorded life, or to one that proves that life's
        clean shutdown and has all of its directories.
        """
        known = self.registered.get((broker, epoch))
        own = known is not None and recorded != NO_EPOCH and recorded in (epoch, known)
        return own and self.holds(broker, epoch, recorded)

    def holds(self, broker: int, epoch: int, recorded: int) -> bool:
        """Whether the life with `epoch` has all log directories of the recorded one."""
        had = self.directories.get((broker, recorded), frozenset())
        return had <= self.directories.get((broker, epoch), had)

    def lives_up_to(self, broker: int, epoch: int) -> set[int]:
        """Return the epochs of this life and of the lives before it that ended cleanly with all that they had."""
        lives = set()
        while epoch != NO_EPOCH:
            lives.add(epoch)
            epoch = self.registered.get((broker, epoch), NO_EPOCH)
        return lives

    def in_sync_as(self, broker: int, recorded: int) -> bool:
        """Whether the broker lives in exactly the recorded life."""
        return self.epochs.get(broker, NO_EPOCH - 1) == recorded

    def min_in_sync(self, topic: str) -> int:
        """The `min.insync.replicas` that eligible leader replicas depend on."""
        given = self.overrides.get(topic, {}).get(MIN_INSYNC_REPLICAS) or self.defaults.get(MIN_INSYNC_REPLICAS)
        return int(given or 1)

    def is_eligible(self, name: TopicPartition, broker: int) -> bool:
        """Whether the broker lives and counts as an eligible leader replica (KIP-966)."""
        state = self.states.get(name)
        if state is None or broker not in state.elr or broker not in self.epochs:
            return False
        return self.proves(broker, self.epochs[broker], state.eligible[broker])

    def in_sync(self, name: TopicPartition, broker: int) -> bool:
        """Whether the broker lives and counts as a member of the recorded ISR by rule 8."""
        state = self.states.get(name)
        if state is None or broker not in state.isr or broker not in self.epochs:
            return False
        return self.proves(broker, self.epochs[broker], state.members[broker])

    def with_losses(self) -> list[TopicPartition]:
        """Return the partitions whose acknowledged records may be gone."""
        return [name for name, ghost in self.partitions.items() if ghost.loss_allowed]

    def rotten(self, name: TopicPartition) -> set[int]:
        """Return the brokers whose replica holds rot that was not repaired yet."""
        return {broker for (broker, held), inode in self.rot.items() if held == name and inode.rotten}

    def ended(self, broker: int, *, with_power: bool) -> None:
        """Record the end of a life. Where a bit turned in a log, the next life may truncate it there, power loss or
        not.
        """
        rotten = {name for held_by, name in self.rot if held_by == broker and broker in self.rotten(name)}
        if rotten or not with_power:
            self.lost_power(broker, rotten if with_power else None)

    def lost_power(self, broker: int, held: Collection[TopicPartition] | None = None) -> None:
        """Judge whether this crash is one too many; `held`: only these partitions went, with a log directory."""
        for name, replicas in self.assignments.items():
            if broker in replicas and (held is None or name in held):
                self.lose_unsynced(name, broker)

    # Losses.

    def lose_unsynced(self, name: TopicPartition, broker: int) -> None:
        """Record that a broker lost what it had not synced.

        A power loss may also bring back records that a truncation had removed, below a high watermark that was
        checkpointed since. As in Kafka, they stay until the log is compared with the leader's.
        """
        self.of(name).lossy.add(broker)
        self.of(name).unproven.add(broker)
        self.judge_loss(name)

    def judge_loss(self, name: TopicPartition) -> None:
        ghost, state = self.of(name), self.states.get(name)
        known = tuple(state.recorded) if state is not None else ()
        if len(ghost.lossy) > ghost.min_in_sync - 1:
            self.allow_loss(name, f"{len(ghost.lossy)} overlapping data-losing crashes with min {ghost.min_in_sync}")
        elif known and len(known) < ghost.min_in_sync and ghost.lossy.issuperset(known):
            self.allow_loss(name, f"the ISR {known}, below min {ghost.min_in_sync}, has only brokers that lost data")

    def allow_loss(self, name: TopicPartition, why: str, epoch: int | None = None) -> None:
        """Allow loss in every leader epoch after `epoch` (default: the current one)."""
        ghost, state = self.of(name), self.states.get(name)
        if epoch is None:
            epoch = state.leader_epoch if state is not None else -1
        ghost.loss_allowed = why
        ghost.rebase_after = epoch if ghost.rebase_after is None else min(epoch, ghost.rebase_after)

    def forgive_loss(self, name: TopicPartition) -> None:
        """Clear brokers that lost data and are in the ISR again with their current epoch: they have all of it back.

        When all of them are back and no other leader was elected meanwhile, nothing was lost.
        """
        ghost, state = self.of(name), self.states.get(name)
        if not ghost.lossy or state is None:
            return
        recorded = state.members
        ghost.lossy -= {broker for broker in ghost.lossy if self.epochs.get(broker, -1) == recorded.get(broker)}
        if not ghost.lossy and ghost.rebase_after == state.leader_epoch:
            ghost.rebase_after = None
        self.judge_loss(name)

    def rebase_on_leader(self, ghost: Ghost, leader: Replica) -> None:
        """Make the log of the first leader after a loss the reference.

        All other brokers are unproven, also former replicas that still have their logs.
        """
        state, log = leader.state, leader.log
        assert state is not None
        held = {batch.base: batch for batch in log.batches}
        ghost.committed = Chain()
        if log.first_offset:
            ghost.committed.skip_to(log.first_offset)
        for batch in log.since(log.first_offset):
            if batch.end <= state.high_watermark:
                ghost.committed.append(*batch.identity, batch.producer)
        ghost.true_high_watermark = ghost.seen_high_watermark = state.high_watermark
        ghost.acked = {
            base: acked for base, acked in ghost.acked.items() if base in held and held[base].crc == acked.crc
        }
        ghost.answered = {key: base for key, base in ghost.answered.items() if base in ghost.acked}
        ghost.served = {
            base: found for base, found in ghost.served.items() if base in held and held[base][1:4] == found
        }
        ghost.read.clear()
        ghost.reported_latest.clear()
        ghost.unproven = {broker for broker, _ in self.registered} - {leader.broker}
        ghost.lossy.clear()
        ghost.rebase_after = None
        ghost.losses += 1
