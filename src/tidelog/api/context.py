"""What a handler gets: the context of one request, and the parts of the broker that handlers may use."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tidelog.api.records.sessions import Sessions
from tidelog.config.broker import BrokerConfig
from tidelog.config.group import GroupConfig
from tidelog.config.quotas import Entity
from tidelog.config.topic import TopicConfig
from tidelog.controller.controller import Controller
from tidelog.controller.image import ClusterImage
from tidelog.coordinator.group import GroupCoordinator
from tidelog.coordinator.transaction import TransactionCoordinator
from tidelog.effects import Deferred, Effect, Event
from tidelog.errors import DiskFailed, ErrorCode
from tidelog.log.integrity import Unsound
from tidelog.log.log import Log
from tidelog.model import Endpoint, Time, TopicPartition
from tidelog.partition.leader import Proposal
from tidelog.partition.partition import Partition
from tidelog.partition.replication_throttle import Throttle
from tidelog.ports import Certificates
from tidelog.security.acls import AclOperation, ResourceType
from tidelog.security.delegation_tokens import TokenTable
from tidelog.slices import Sliced
from tidelog.wire.messages.cluster.controller_pushes import (
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from tidelog.wire.messages.security.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

Finish = Callable[[Any], Sliced[None] | None]
"""Completes an answer, at once or in slices."""
Push = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
"""The requests that a controller sends to brokers."""


class Pending:
    """The answer of a handler that gave `context.token` to an actor, which will `Reply`."""

    def __repr__(self) -> str:
        return "PENDING"


PENDING = Pending()


class LoggedEvent(Protocol):
    """One event that a broker remembers."""

    @property
    def number(self) -> int: ...

    @property
    def wall_ms(self) -> int: ...

    @property
    def event(self) -> Event: ...


class EventLog(Protocol):
    """The last events of this broker."""

    @property
    def forgotten(self) -> int: ...

    def since(self, number: int, subject: str | None = None) -> Iterable[LoggedEvent]: ...


class Failure(Protocol):
    """Why a log cannot be compacted."""

    @property
    def reason(self) -> str: ...


class LoadingPartition(Protocol):
    """A coordinator's partition that is replayed since a time (monotonic ms); `reason` is why it is stuck, or ""."""

    @property
    def since(self) -> int: ...

    @property
    def reason(self) -> str: ...


class Store(Protocol):
    """This broker's contact with the metadata store."""

    @property
    def is_silent(self) -> bool: ...

    @property
    def has_session(self) -> bool: ...

    @property
    def waiting_ms(self) -> int: ...


class Quorum(Protocol):
    """This node's part of the metadata quorum."""

    @property
    def leader_id(self) -> int: ...

    @property
    def controllers(self) -> Sequence[tuple[int, Endpoint]]: ...

    @property
    def kraft_version(self) -> int: ...

    @property
    def listeners(self) -> Collection[str]:
        """Those of this node's controller."""
        ...

    def request(self, token: int, request: Any, now: Time) -> None:
        """A request to the node's controller; the answer to `token` comes as a `Reply`."""


class Replicas(Protocol):
    """The replicas that this broker holds."""

    @property
    def full(self) -> Collection[str]:
        """The log folders that have no room."""

    def get(self, topic: str, partition: int) -> Partition | None: ...

    def __iter__(self) -> Iterator[Partition]: ...

    def folder_of(self, partition: TopicPartition) -> str: ...

    @property
    def live_folders(self) -> Sequence[str]:
        """The log folders that have not failed."""

    @property
    def futures(self) -> Mapping[TopicPartition, tuple[Log, str]]:
        """Copies that are to take a replica's place, and the folders they are in."""

    def usage(self, folder: str) -> tuple[int, int]:
        """(total, usable) bytes of the folder's file system; DiskFailed where the folder failed."""


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
    def certificates(self) -> Certificates | None:
        """Those of this broker's TLS listeners; None where the world has none."""
        ...

    @property
    def topics_requested(self) -> dict[str, int]:
        """Topics whose creation was requested recently → when (monotonic ms)."""
        ...

    @property
    def image(self) -> ClusterImage: ...

    @property
    def replicas(self) -> Replicas: ...

    @property
    def groups(self) -> GroupCoordinator: ...

    @property
    def transactions(self) -> TransactionCoordinator: ...

    @property
    def verifying(self) -> "Verification": ...

    @property
    def computing(self) -> "Computing": ...

    @property
    def controller(self) -> Controller: ...

    @property
    def inter_broker_listener(self) -> str: ...

    @property
    def has_sasl(self) -> bool:
        """Whether a listener of this broker has SASL."""
        ...

    @property
    def has_authorizer(self) -> bool:
        """Whether this broker restricts what clients may do."""
        ...

    @property
    def has_features(self) -> bool:
        """Whether it knows features whose level may change."""
        ...

    @property
    def configs(self) -> "Configs": ...

    @property
    def tokens(self) -> "Tokens": ...

    @property
    def quotas(self) -> "Quotas": ...

    @property
    def now(self) -> Time: ...

    @property
    def sessions(self) -> Sessions: ...

    @property
    def event_log(self) -> EventLog: ...

    @property
    def uncleanable(self) -> Mapping[TopicPartition, Failure]: ...

    @property
    def damaged(self) -> Mapping[TopicPartition, str]:
        """Replicas with batches that are damaged and could not be repaired: the first of each, and why."""
        ...

    @property
    def loading(self) -> Mapping[TopicPartition, LoadingPartition]:
        """The partitions of coordinators that do not serve yet."""
        ...

    @property
    def store(self) -> Store: ...

    @property
    def quorum(self) -> Quorum | None:
        """None where the metadata is in another store."""
        ...

    @property
    def throttles(self) -> "Throttles": ...

    @property
    def producer_ids(self) -> "ProducerIds": ...

    @property
    def eligible(self) -> Collection[int]:
        """Brokers that are alive and not shutting down, as the controller reported."""

    @property
    def levels(self) -> Mapping[str, str]:
        """The levels of log lines that were set, by logger."""

    def set_levels(self, levels: Mapping[str, str]) -> None: ...

    def topic_config(self, topic: str) -> TopicConfig: ...

    def group_config(self, group: str) -> GroupConfig: ...

    def topic_name(self, topic_id: bytes) -> str | None:
        """The topic with this id, as far as this broker holds or knows it."""

    def check_controller(self, push: Push) -> ErrorCode:
        """Whether a request comes from the present controller, is meant for this life of the broker, and is newer than
        all that were taken; then it is taken."""

    def apply_assignments(self, request: LeaderAndIsrRequest, context: "Context") -> Pending:
        """Apply the roles once the configuration of every new topic is read."""

    def stop_replica(
        self, partition: TopicPartition, topic_id: bytes, leader_epoch: int, *, delete: bool
    ) -> ErrorCode: ...

    def answer_when_durable(
        self,
        context: "Context",
        partitions: Collection[TopicPartition],
        answer: Callable[[Collection[TopicPartition]], Any],
    ) -> Pending:
        """Answer with the result of `answer` once deletions of these replicas are durable: a power loss could bring
        them back unnoticed. It gets those whose folder failed."""

    def apply_metadata(self, request: UpdateMetadataRequest, now: Time) -> None: ...

    def move_replica(self, partition: TopicPartition, folder: str) -> None:
        """To another log folder of this broker, or, where it is not here yet, have it created there. ApiError with
        Kafka's code; DiskFailed."""

    def disk_failed(self, failure: DiskFailed) -> None:
        """A log folder failed: its partitions go offline or, if it is full, accept nothing for now."""

    def examine(self, partition: Partition, found: Unsound) -> ErrorCode:
        """A read may hit bit rot: NONE while it is being examined (the partition becomes dirty then), else the code to
        answer."""

    def propose(self, partition: TopicPartition, proposal: Proposal) -> None:
        """Request this change of the in-sync set from the controller."""

    def forward(self, context: "Context", request: Any) -> Pending:
        """Send the request to the controller, here or elsewhere, and reply to `context.token` with its answer."""


class Throttles(Protocol):
    """What replication may copy a second (KIP-73)."""

    @property
    def leader(self) -> Throttle: ...


class ProducerIds(Protocol):
    """Where ids of idempotent producers come from: blocks taken from the metadata tree."""

    def next_id(self) -> int | None:
        """The next id, or None while a block is being fetched; Signal(("producer-ids",)) comes when it is there."""

    def fetch_block(self) -> None:
        """Fetch a block, unless that is under way."""

    @property
    def is_ready(self) -> bool:
        """Whether `next_id` returns one now."""

    @property
    def waiting_ms(self) -> int:
        """How long a block has been needed and was not got; 0 if none is being fetched."""


class VerificationRequest(Protocol):
    """A request to a transaction's coordinator; Signal(("verified", producer id)) comes with its answer."""

    def code(self, partition: TopicPartition) -> ErrorCode:
        """The coordinator's code for the partition; NETWORK_EXCEPTION without an answer."""


class Verification(Protocol):
    """Whether partitions are in transactions (KIP-890), as their coordinators know."""

    def is_busy(self, producer_id: int) -> bool:
        """Whether a question about this producer is open; its requests wait, so that they keep their order."""

    def request(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        verify_only: bool,
    ) -> VerificationRequest:
        """Without `verify_only` the partitions are in the transaction from the answer on."""


class Computation(Protocol):
    """Work off the event loop; Signal(("computed", token)) comes with its result, which may be an ApiError."""

    @property
    def token(self) -> int: ...

    @property
    def is_done(self) -> bool: ...

    @property
    def result(self) -> Any: ...


class Computing(Protocol):
    """Work that would hold up the event loop and depends on its arguments only."""

    def submit(self, lane: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Computation:
        """Calls of equal `lane` keep their order."""


class Quotas(Protocol):
    """Quotas of clients. `stopwatch` returns nanoseconds; `are_set`: whether any client has a quota."""

    are_set: bool

    def stopwatch(self) -> int: ...

    def record_request(
        self, user: str, client: str, key: int, *, size: int, answer: int, spent_ns: int, now: int
    ) -> int:
        """Count one request; the milliseconds for which its connection is muted."""

    def max_fetch_bytes(self, user: str, client: str) -> int | None:
        """Bytes in one answer that do not lead to a throttle by themselves; None without a quota."""

    def record_mutation(self, user: str, client: str, cost: float, now: int, *, strict: bool) -> tuple[bool, int]:
        """(whether it may be done, milliseconds to wait)."""


class Access(Protocol):
    """What the principal of one connection may do, from its host, by the cluster's rules."""

    def allows(self, operation: AclOperation, resource_type: ResourceType, name: str, api: str = "") -> bool:
        """A denial is logged where `api` names the request; otherwise it only filters an answer."""

    def allows_any(self, operation: AclOperation, resource_type: ResourceType, api: str = "") -> bool:
        """Whether some resource of the type may be accessed so."""

    def audit(self, api: str, changes: Iterable[Any], response: Any) -> None:
        """Log who changed what (`change_audit.Change`), and with which result."""


class Authentication(Protocol):
    """Who is at the other end of one connection. `by_token`: it logged in with a delegation token."""

    by_token: bool

    def handshake(self, request: SaslHandshakeRequest, context: "Context") -> SaslHandshakeResponse: ...

    def authenticate(
        self, request: SaslAuthenticateRequest, context: "Context"
    ) -> SaslAuthenticateResponse | Deferred: ...


class Tokens(Protocol):
    """The mirror of the tree's delegation tokens."""

    @property
    def table(self) -> TokenTable: ...


class Configs(Protocol):
    """The mirror of the tree's `/config`: explicit values only, by entity."""

    def topic(self, name: str) -> dict[str, str]: ...

    def broker(self, broker_id: int | None) -> dict[str, str]:
        """The dynamic values of one broker, or the cluster-wide defaults for None."""

    def user(self, name: str) -> dict[str, str]:
        """SCRAM credentials by mechanism, and quotas."""

    def users(self) -> list[str]:
        """The users that have values."""

    def group(self, name: str) -> dict[str, str]: ...

    def groups(self) -> list[str]:
        """The groups that have values of their own."""

    def entities(self) -> list[str]:
        """The paths of all entities that have values."""

    def quota(self, path: str) -> tuple[Entity, Mapping[str, float]] | None:
        """The quotas of the entity at this path, if it is one that may have quotas."""


@dataclass(slots=True)
class Bill:
    """What one request of a client with quotas costs: kept beside the request until it is answered.

    `user` and `client_id` select the quotas that it is counted against. `started` is the stopwatch's time (nanoseconds)
    at the beginning of its handling, `spent_ns` what that took where the answer came later. `throttle_ms`: at least
    that long its connection is muted. `finish` completes the answer."""

    user: str
    client_id: str
    size: int
    started: int
    spent_ns: int = -1
    throttle_ms: int = 0
    finish: Callable[[Any], None] | None = None


@dataclass(slots=True)
class Context:
    """The context of one request. `token` identifies it until it is answered; `effects` collects what it causes."""

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
    bill: Bill | None = None
    """None unless a quota is set."""
    authentication: "Authentication | None" = None
    """Only on a listener with SASL."""
    access: "Access | None" = None
    """None where everything is allowed: without an authorizer, and to brokers."""
    finish: Finish | None = None
    """Completes an answer that comes later."""
    from_broker: bool = False
    """Another broker sent it, or this one to itself: for itself, or forwarded for a client."""
    blocks: int = 0
    """Not 0: nothing else of its connection is served while it waits, and it keeps so many bytes."""
