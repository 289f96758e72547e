"""What a handler sees: the request's circumstances, and the broker as far as handlers may touch it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from tidelog.config.broker import BrokerConfig
from tidelog.config.topic import TopicConfig
from tidelog.controller.controller import Controller
from tidelog.controller.image import ClusterImage
from tidelog.coordinator.group import GroupCoordinator
from tidelog.effects import Effect
from tidelog.model import Time, TopicPartition
from tidelog.partition.partition import Partition


class Handed:
    """The answer of a handler that gave `context.token` to an actor, which will `Reply`."""

    def __repr__(self) -> str:
        return "HANDED"


HANDED = Handed()


class Replicas(Protocol):
    """The replicas that this broker holds."""

    def get(self, topic: str, partition: int) -> Partition | None: ...

    def __iter__(self) -> Iterator[Partition]: ...

    def folder_of(self, partition: TopicPartition) -> str: ...


class Broker(Protocol):
    """One broker as its handlers see it."""

    @property
    def broker_id(self) -> int: ...

    @property
    def broker_epoch(self) -> int: ...

    @property
    def cluster_id(self) -> str: ...

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def image(self) -> ClusterImage: ...

    @property
    def replicas(self) -> Replicas: ...

    @property
    def groups(self) -> GroupCoordinator: ...

    @property
    def controller(self) -> Controller: ...

    @property
    def inter_broker_listener(self) -> str: ...

    @property
    def configs(self) -> "Configs": ...

    def topic_config(self, topic: str) -> TopicConfig: ...

    def forward(self, context: "Context", request: Any) -> Handed:
        """Ask the controller, here or elsewhere, and reply to `context.token` with its answer."""


class Configs(Protocol):
    """The mirror of the tree's `/config`: explicit values only, by entity."""

    def topic(self, name: str) -> dict[str, str]: ...

    def broker(self, broker_id: int | None) -> dict[str, str]:
        """The dynamic values of one broker, or the cluster-wide defaults for None."""


@dataclass(slots=True)
class Context:
    """The circumstances of one request. `token` names it until it is answered; `effects` takes wishes."""

    broker: Broker
    now: Time
    version: int
    client_id: str | None
    connection: int
    listener: str
    peer: str
    principal: str
    token: int
    effects: list[Effect]
