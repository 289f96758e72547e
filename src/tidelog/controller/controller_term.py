"""One term of leading the cluster: what all commands share. It begins with an election and ends with resignation."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.config.listeners import of_brokers
from tidelog.config.topic import TopicConfig
from tidelog.controller import tree
from tidelog.controller.features import MIN_INSYNC_REPLICAS, Kraft
from tidelog.controller.journal import Command, Journal, Steps, chunks
from tidelog.controller.pushes import Pushes
from tidelog.controller.state import ClusterState, Partition
from tidelog.controller.tree import LeadershipState
from tidelog.effects import Effect, Event
from tidelog.model import Endpoint, Time
from tidelog.ports import Write

LOUD = 20
"""Up to so many changes of one command are log lines each; more are one line (and each is on the timeline)."""


class Refused(NamedTuple):
    """A registration that is refused: its broker epoch, and why."""

    epoch: int
    reason: str


class ControllerTerm:
    """`epoch` is the controller epoch; `cluster` the image; `effects` collects those of the current input.
    `trusts_restarts` is true in the oldest truncation generation only."""

    trusts_restarts = False
    has_features = False
    """Whether levels of features are kept in the tree."""
    quorum: Kraft | None = None
    """The metadata quorum that this controller leads."""

    def __init__(
        self, broker_id: int, config: BrokerConfig, entropy: Callable[[int], bytes], epoch: int, epoch_version: int
    ) -> None:
        self.broker_id = broker_id
        self.config = config
        self.entropy = entropy
        self.epoch = epoch
        self.cluster = ClusterState(config.delegation_token_secret_key)
        self.journal = Journal(epoch_version)
        self.pushes = Pushes(broker_id, epoch, of_brokers(config), self.cluster)
        self.now = Time(0, 0)
        self.loaded = False
        self.refused: dict[int, Refused] = {}
        """Registrations that are refused, by broker."""
        self.arrived: dict[Partition, None] = {}
        """Reassignments that may have come to their end."""
        self.has_requests = False
        """Whether `/admin/reassign_partitions` was there when last looked at."""
        self.effects: list[Effect] = []

    def __repr__(self) -> str:
        return f"ControllerTerm(epoch={self.epoch} {self.cluster} {self.journal})"

    def report(self, kind: str, level: str = "info", **fields: Any) -> None:
        self.effects.append(Event(kind, fields, level))

    def run(
        self,
        name: str,
        start: Callable[[], Steps[Any]],
        *,
        token: int | None = None,
        first: bool = False,
        urgent: bool = False,
    ) -> None:
        self.journal.submit(Command(name, start, token), first=first, urgent=urgent)

    def number(self, below: int) -> int:
        """A random number in [0, below)."""
        return int.from_bytes(self.entropy(8)) % below

    def topic_config(self, topic: str) -> TopicConfig:
        """What applies to the topic now, the cluster-wide dynamic defaults included."""
        return TopicConfig(self.cluster.configs.get(f"topics/{topic}", {}), self.broker_config())

    def min_in_sync(self, partition: Partition) -> int:
        """What `leaders.with_elr` needs: the topic's `min.insync.replicas`, or 0 without eligible leader replicas."""
        if not self.cluster.has_elr:
            return 0
        for entity in (f"topics/{partition.topic.name}", f"brokers/{tree.DEFAULT_ENTITY}"):
            value = self.cluster.configs.get(entity, {}).get(MIN_INSYNC_REPLICAS)
            if value is not None:
                return int(value)
        return self.config.min_insync_replicas

    def broker_config(self) -> BrokerConfig:
        dynamic = self.cluster.configs.get(f"brokers/{tree.DEFAULT_ENTITY}", {})
        return self.config.changed(dynamic, self.config.broker) if dynamic != self.config.cluster else self.config

    def endpoint(self, broker: int) -> Endpoint | None:
        live = self.cluster.brokers.get(broker)
        return None if live is None else live.registration.reached_by(self.pushes.listeners)

    def usable_racks(self) -> dict[int, str | None]:
        """The brokers that new replicas may be put on, with their racks."""
        lives = self.cluster.lives
        return {
            id_: broker.registration.rack
            for id_, broker in self.cluster.brokers.items()
            if id_ in lives and not lives[id_].leaving
        }

    def commit(
        self, changes: Sequence[tuple[Partition, LeadershipState]], why: str, *, roles: bool = True
    ) -> Steps[None]:
        """Write new states over the current ones and, when the commit returns, push them. Without `roles`
        the leaders know already (they requested the change, and report it themselves)."""
        loud = roles and len(changes) <= LOUD
        for chunk in chunks(changes):
            written = [(partition, state._replace(controller_epoch=self.epoch)) for partition, state in chunk]
            nodes = yield [
                Write(tree.state_path(*partition.name), tree.format_state(state), partition.version)
                for partition, state in written
            ]
            for (partition, state), node in zip(written, nodes, strict=True):
                self.report_change(partition, state, why, "info" if loud else "debug")
                partition.commit(state, node.version)
                if partition.is_moving:
                    self.arrived[partition] = None
            if roles:
                self.pushes.push_roles(partition for partition, _ in written)
            self.pushes.push_metadata(partition for partition, _ in written)
        if len(changes) > LOUD:
            self.report("partitions.changed", count=len(changes), why=why)

    def report_change(self, partition: Partition, state: LeadershipState, why: str, level: str) -> None:
        """The timeline's line; before the change is taken in."""
        old = partition.state
        topic, index = partition.name
        self.report(
            "isr.change" if state.leader_epoch == old.leader_epoch else "partition.elected",
            level,
            topic=topic,
            partition=index,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            previous_leader=old.leader,
            previous_isr=list(old.isr),
            why=why,
        )

    def touch(self, partitions: Iterable[Partition]) -> None:
        """Their offline replicas changed: rebuild their metadata, and push it."""
        touched = list(partitions)
        for partition in touched:
            partition.touch()
        self.pushes.push_metadata(touched)
