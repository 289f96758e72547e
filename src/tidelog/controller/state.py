"""The controller's image of the tree: brokers, topics, partitions and configurations as last committed.

Nothing here changes before a commit returned. A partition's `version` is its node's version, its partition epoch. The
structures that requests carry are kept with the partition and built once per change.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from tidelog.config.feature_levels import ELR_VERSION
from tidelog.controller.image import LEADER_DURING_DELETE
from tidelog.controller.leaders import Life
from tidelog.controller.tree import Assignment, LeadershipState, Registration
from tidelog.model import TopicPartition
from tidelog.security.delegation_tokens import TokenTable
from tidelog.wire.messages.cluster.controller_pushes import LeaderAndIsrPartitionState, UpdateMetadataPartitionState


class LiveBroker(NamedTuple):
    id: int
    epoch: int
    registration: Registration


class Partition:
    """One partition. `offline` are live replicas whose log folder failed; `deleted` once its topic is marked."""

    __slots__ = (
        "_metadata",
        "adding",
        "deleted",
        "index",
        "offline",
        "removing",
        "replicas",
        "state",
        "topic",
        "version",
    )

    def __init__(self, topic: "Topic", index: int, replicas: tuple[int, ...]) -> None:
        self.topic = topic
        self.index = index
        self.replicas = replicas
        self.adding: tuple[int, ...] = ()
        self.removing: tuple[int, ...] = ()
        self.state = LeadershipState()
        self.version = -1
        self.offline: frozenset[int] = frozenset()
        self.deleted = False
        self._metadata: UpdateMetadataPartitionState | None = None

    def __repr__(self) -> str:
        return f"Partition({self.name} v{self.version} {self.state})"

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic.name, self.index)

    def commit(self, state: LeadershipState, version: int) -> None:
        assert version > self.version, f"{self.name}: partition epoch went from {self.version} to {version}"
        assert state.leader_epoch >= self.state.leader_epoch, f"{self.name}: leader epoch went back"
        self.state = state
        self.version = version
        self._metadata = None

    @property
    def is_moving(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas once the reassignment under way has ended."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas without the reassignment under way."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    def reassign(self, replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]) -> None:
        """Set the replicas as the topic's node now has them."""
        self.replicas, self.adding, self.removing = replicas, adding, removing
        self.offline &= frozenset(replicas)
        self._metadata = None

    def touch(self) -> None:
        """A replica came or went: rebuild the metadata of the partition."""
        self._metadata = None

    def role(self, *, is_new: bool) -> LeaderAndIsrPartitionState:
        """The state that is pushed to its replicas (LeaderAndIsr)."""
        state = self.state
        return LeaderAndIsrPartitionState(
            partition_index=self.index,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            partition_epoch=self.version,
            replicas=list(self.replicas),
            adding_replicas=list(self.adding),
            removing_replicas=list(self.removing),
            is_new=is_new,
            isr_epochs=list(state.isr_epochs),
            elr=list(state.elr),
            elr_epochs=list(state.elr_epochs),
            last_known=list(state.last_known),
            last_known_epochs=list(state.last_known_epochs),
        )

    def metadata(self, lives: dict[int, Life]) -> UpdateMetadataPartitionState:
        """The state that is pushed to every broker (UpdateMetadata)."""
        if self._metadata is None:
            state = self.state
            self._metadata = UpdateMetadataPartitionState(
                partition_index=self.index,
                controller_epoch=state.controller_epoch,
                leader=LEADER_DURING_DELETE if self.deleted else state.leader,
                leader_epoch=state.leader_epoch,
                isr=list(state.isr),
                zk_version=self.version,
                replicas=list(self.replicas),
                offline_replicas=[b for b in self.replicas if b not in lives or b in self.offline],
                elr=list(state.elr),
                last_leader=state.last_leader,
            )
        return self._metadata


class Topic:
    """One topic. `version` is that of its assignment node; `partitions` are those whose state is committed. `marked`
    once its deletion is requested, `deleted` once that has begun: a reassignment in progress comes first."""

    __slots__ = ("assignment", "deleted", "marked", "name", "partitions", "version")

    def __init__(self, name: str, assignment: Assignment, version: int) -> None:
        self.name = name
        self.assignment = assignment
        self.version = version
        self.partitions: dict[int, Partition] = {}
        self.deleted = False
        self.marked = False

    def __repr__(self) -> str:
        return f"Topic({self.name} {len(self.partitions)} partitions{' deleted' if self.deleted else ''})"

    @property
    def id(self) -> bytes:
        return self.assignment.topic_id

    @property
    def is_moving(self) -> bool:
        return bool(self.assignment.adding or self.assignment.removing)

    def add(self, index: int) -> Partition:
        """A partition of the assignment whose state is about to be committed or was just read."""
        partition = Partition(self, index, self.assignment.replicas[index])
        partition.adding = self.assignment.adding.get(index, ())
        partition.removing = self.assignment.removing.get(index, ())
        return partition


class ClusterState:
    """Everything the controller knows. `lives` is what elections look at: one entry a live broker."""

    def __init__(self, token_secret: str | None = None) -> None:
        self.cluster_id = ""
        self.brokers: dict[int, LiveBroker] = {}
        self.lives: dict[int, Life] = {}
        self.topics: dict[str, Topic] = {}
        self.topic_ids: dict[bytes, Topic] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.config_versions: dict[str, int] = {}
        self.config_changes: list[int] = []
        self.features: dict[str, int] = {}
        """The finalized levels; `features_version` is that of their node, -1 without one."""
        self.features_version = -1
        self.tokens = TokenTable(token_secret)
        """Delegation tokens; their node's versions and the notifications about them are beside."""
        self.token_versions: dict[str, int] = {}
        self.token_changes: list[int] = []
        self.missing_token_nodes: Sequence[str] = ()
        """Nodes above the tokens that do not exist before the first one."""

    def __repr__(self) -> str:
        return f"ClusterState(brokers={sorted(self.brokers)} topics={len(self.topics)})"

    @property
    def has_elr(self) -> bool:
        """Whether eligible leader replicas are kept (KIP-966)."""
        return self.features.get(ELR_VERSION, 0) > 0

    def add_topic(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        self.topic_ids[topic.id] = topic

    def remove_topic(self, topic: Topic) -> None:
        del self.topics[topic.name]
        del self.topic_ids[topic.id]
        self.configs.pop(f"topics/{topic.name}", None)
        self.config_versions.pop(f"topics/{topic.name}", None)

    def partitions(self) -> Iterator[Partition]:
        """All partitions but those of topics marked for deletion."""
        return chain.from_iterable(topic.partitions.values() for topic in self.topics.values() if not topic.deleted)

    def partition(self, topic: str, index: int) -> Partition | None:
        """None also if the topic is marked for deletion."""
        found = self.topics.get(topic)
        return None if found is None or found.deleted else found.partitions.get(index)

    def current(self, partitions: Iterable[Partition]) -> list[Partition]:
        """Those that still are what this image holds: it may have been read anew, topics may have gone."""
        return [partition for partition in partitions if self.partition(*partition.name) is partition]

    def check_invariants(self) -> None:
        """I14: the leader is in the ISR or there is none; the ISR is among the assigned replicas; what a reassignment
        adds and removes is, too."""
        for partition in self.partitions():
            state = partition.state
            assert state.leader == -1 or state.leader in state.isr, f"{partition}: the leader is outside the ISR"
            assert set(state.isr) <= set(partition.replicas), f"{partition}: ISR outside the replicas"
            assert len(state.isr) == len(set(state.isr)) == len(state.isr_epochs), f"{partition}: broken ISR"
            assert state.recorded, f"{partition}: nobody is recorded to hold what is committed"
            assert not set(state.elr) & set(state.isr), f"{partition}: eligible and in sync"
            assert {*state.elr, *state.last_known} <= set(partition.replicas), f"{partition}: eligible, not a replica"
            moved = {*partition.adding, *partition.removing}
            assert moved <= set(partition.replicas), f"{partition}: strangers are added or removed"
            assert len(moved) == len(partition.adding) + len(partition.removing), f"{partition}: added and removed"
            assert partition.target, f"{partition}: no replica would stay"
