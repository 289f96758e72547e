"""What no broker knows: TrueHW, Committed, Acked and LossAllowed of every partition, as REPLICATION.md defines them."""

from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.controller.tree import BROKER_IDS, TOPICS, LeadershipState, parse_assignment, parse_state
from tidelog.model import TopicPartition
from tidelog.ports import Node
from tidelog.sim.checks.replica import Chain
from tidelog.sim.store import Tree


class Acked(NamedTuple):
    """A batch whose acks=all success its producer saw."""

    base: int
    end: int
    crc: int


@dataclass(slots=True)
class Ghost:
    """One partition. `lossy`: brokers that lost what was not synced and are not back in the ISR since.

    `loss_allowed` says why acknowledged records may be gone; empty while they may not.
    """

    name: TopicPartition
    min_in_sync: int = 1
    true_high_watermark: int = 0
    committed: Chain = field(default_factory=Chain)
    acked: dict[int, Acked] = field(default_factory=dict)
    served: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    leaders: dict[int, int] = field(default_factory=dict)
    first_appended: dict[tuple[int, int], int] = field(default_factory=dict)
    lossy: set[int] = field(default_factory=set)
    loss_allowed: str = ""


class Ghosts:
    """`states` and `assignments` mirror the tree; `epochs` are the brokers' that are registered now."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, Ghost] = {}
        self.states: dict[TopicPartition, LeadershipState] = {}
        self.partition_epochs: dict[TopicPartition, int] = {}
        self.assignments: dict[TopicPartition, tuple[int, ...]] = {}
        self.epochs: dict[int, int] = {}
        self.topic_ids: dict[str, bytes] = {}
        self._seen: dict[str, Node] = {}

    def __repr__(self) -> str:
        return f"Ghosts({len(self.partitions)} partitions)"

    def of(self, name: TopicPartition) -> Ghost:
        if name not in self.partitions:
            self.partitions[name] = Ghost(name)
        return self.partitions[name]

    def read(self, tree: Tree, sessions: set[int]) -> list[TopicPartition]:
        """Take over what changed in the tree; returns the partitions whose state did. A registration counts only if it
        is of one of the living `sessions`: one that outlives its process says nothing of the next."""
        changed: list[TopicPartition] = []
        self.epochs = {}
        for path in [path for path in self._seen if path not in tree.nodes]:
            del self._seen[path]
            self._forget(path.split("/")[3:])
        for path, node in tree.nodes.items():
            if path.startswith(BROKER_IDS + "/") and node.session in sessions:
                self.epochs[int(path.rsplit("/", 1)[1])] = node.created
            elif path.startswith(TOPICS + "/") and self._seen.get(path) is not node:
                self._seen[path] = node
                self._take(path.split("/")[3:], node, changed)
        self._forgive()
        return changed

    def _take(self, parts: list[str], node: Node, changed: list[TopicPartition]) -> None:
        topic = parts[0]
        if len(parts) == 1 and node.data:
            assignment = parse_assignment(node.data)
            if self.topic_ids.get(topic) != assignment.topic_id:
                self._forget(parts)
                self.topic_ids[topic] = assignment.topic_id
            for partition, replicas in assignment.replicas.items():
                self.assignments[TopicPartition(topic, partition)] = replicas
        elif parts[-1] == "state":
            name = TopicPartition(topic, int(parts[2]))
            self.states[name] = parse_state(node.data)
            self.partition_epochs[name] = node.version
            changed.append(name)

    def _forget(self, parts: list[str]) -> None:
        """A topic was deleted, or is another of the same name: what was known of its partitions is void."""
        if len(parts) > 1:
            return
        self.topic_ids.pop(parts[0], None)
        for name in [name for name in self.assignments if name.topic == parts[0]]:
            self.partitions.pop(name, None)
            self.states.pop(name, None)
            self.partition_epochs.pop(name, None)
            del self.assignments[name]

    def _forgive(self) -> None:
        """A broker that lost data and is in the ISR again with its present epoch has all of it back. Where only such as
        lost data are left in an ISR below min, the last copy in sync is gone (4.3.1 closes this one with ELR)."""
        for name, ghost in self.partitions.items():
            if ghost.lossy and name in self.states:
                state = self.states[name]
                back = {
                    broker
                    for broker, epoch in zip(state.isr, state.isr_epochs, strict=True)
                    if self.epochs.get(broker) == epoch
                }
                ghost.lossy -= back
                if len(state.isr) < ghost.min_in_sync and ghost.lossy.issuperset(state.isr):
                    ghost.loss_allowed = f"the ISR {state.isr}, below min, has only brokers that lost their power"

    def in_sync(self, name: TopicPartition, broker: int) -> bool:
        """Whether the broker counts: a member of the recorded ISR that lives with its recorded epoch (rule 8)."""
        state = self.states.get(name)
        if state is None or broker not in state.isr or broker not in self.epochs:
            return False
        return state.isr_epochs[state.isr.index(broker)] == self.epochs[broker]

    def lost_power(self, broker: int) -> None:
        """Judge whether this crash is one too many."""
        for name, replicas in self.assignments.items():
            if broker not in replicas:
                continue
            ghost, state = self.of(name), self.states.get(name)
            ghost.lossy.add(broker)
            if len(ghost.lossy) > ghost.min_in_sync - 1:
                ghost.loss_allowed = f"{len(ghost.lossy)} overlapping power losses with min {ghost.min_in_sync}"
            elif state is not None and state.isr == (broker,) and ghost.min_in_sync > 1:
                ghost.loss_allowed = f"the last ISR member, {broker}, lost its power below min"
