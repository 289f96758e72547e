"""What the controller pushes to brokers: one queue per broker, one request in flight, retried until answered.

A queue holds partitions, not requests: a request is built from the committed state when it leaves, so that later
changes are merged. Roles (LeaderAndIsr) go before metadata (UpdateMetadata), deletions (StopReplica) last, except that
a broker gets the full metadata before its first roles. A queue ends with its broker's epoch.

Metadata of many partitions leaves in parts (`Parts`), each with the states of its own moment; what changes behind the
parts that have left follows in the next push. The broker applies all parts together: clients would otherwise see a
topic that grows, and a full push also says what is gone.

A request that timed out may still arrive, on a connection that is closed by then. So each carries a number, higher than
all before; the broker rejects one that is older than the last it accepted.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeVar

from tidelog.controller.image import FULL, INCREMENTAL, SECURITY_NUMBERS
from tidelog.controller.state import ClusterState, LiveBroker, Partition, Topic
from tidelog.effects import PeerRequest
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition, earliest
from tidelog.wire.messages.cluster.controller_pushes import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataFeature,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

T = TypeVar("T")

RETRY_MS = 50
ROLES_PER_REQUEST, CREATIONS_PER_REQUEST = 50, 20
"""Partitions in one request, and where replicas are made or deleted, which takes a millisecond for each: a broker
serves others between two requests."""
PARTITIONS_PER_PART = 1000
"""Partitions in one part of the metadata: to build, encode or apply it takes some milliseconds."""
ROLES_A_COUNT = 10
"""Roles that are queued in the time of one item of a command's slice."""
PAUSE_MS = 1
"""After a request with that many partitions; a broker's requests to itself would be one turn otherwise."""
EPOCH_DURING_DELETE = -2
"""The leader epoch in a StopReplica that deletes the topic: above every epoch."""

Kind = Literal["roles", "metadata", "deletions"]


class Flight(NamedTuple):
    """The request in flight, with its partitions in case it must be sent again; `Parts` has those of metadata."""

    token: int
    kind: Kind
    partitions: Mapping[Partition, Any]


@dataclass(slots=True)
class Parts:
    """Metadata that leaves in parts: all of its partitions, and how many have left."""

    partitions: list[Partition]
    full: bool
    number: int = 0
    left: int = 0

    def take(self) -> list[Partition]:
        """The partitions of the next part."""
        taken = self.partitions[self.left : self.left + PARTITIONS_PER_PART]
        self.left += len(taken)
        return taken

    @property
    def has_more(self) -> bool:
        return self.left < len(self.partitions)


@dataclass(slots=True)
class Queue:
    """What one broker, in one broker epoch, has not received yet. Dicts are ordered sets; `deletions` has the leader
    epoch up to which the replica is deleted."""

    broker: int
    epoch: int
    roles: dict[Partition, None] = field(default_factory=dict)
    created: set[Partition] = field(default_factory=set)
    """Their roles are marked `is_new` until the broker confirms them: only then may it create an empty replica while
    one of its folders is offline."""
    metadata: dict[Partition, None] = field(default_factory=dict)
    deletions: dict[Partition, int] = field(default_factory=dict)
    full: bool = True
    """The full metadata is due. Nothing else is sent before it."""
    brokers: bool = True
    """The list of live brokers changed, so an UpdateMetadata is due even without partitions."""
    parts: Parts | None = None
    """The metadata of which a part has left and others have not."""
    metadata_at: int | None = None
    """Before this only a full metadata leaves (`pause_between_metadata_ms`)."""
    flight: Flight | None = None
    """At most one, so that the broker applies pushes in the order in which they were sent."""
    retry_at: int | None = None

    @property
    def idle(self) -> bool:
        return self.flight is None and self.next_kind() is None and not self.has_news

    @property
    def has_news(self) -> bool:
        """Whether metadata is due, now or after the pause."""
        return bool(self.metadata) or self.brokers

    def next_kind(self) -> Kind | None:
        if self.full or (self.parts is not None and self.parts.full):
            return "metadata"
        if self.roles:
            return "roles"
        if self.parts is not None or (self.has_news and self.metadata_at is None):
            return "metadata"
        return "deletions" if self.deletions else None

    @property
    def next_deadline(self) -> int | None:
        if self.flight is not None or self.retry_at is not None:
            return self.retry_at
        return self.metadata_at if self.has_news else None


class Answered(NamedTuple):
    """An answer: errors by partition. `failed`: the request must be sent again."""

    broker: int
    kind: Kind
    partitions: Collection[Partition]
    errors: dict[TopicPartition, int]
    failed: bool = False
    code: int = 0


class Pushes:
    """All queues of one term of a controller."""

    def __init__(self, broker_id: int, epoch: int, listeners: Sequence[str], cluster: ClusterState) -> None:
        self.broker_id = broker_id
        self.epoch = epoch
        self.listeners = listeners
        self.cluster = cluster
        self.queues: dict[int, Queue] = {}
        self.live_brokers: list[UpdateMetadataBroker] = []

    def __repr__(self) -> str:
        busy = [broker for broker, queue in self.queues.items() if not queue.idle]
        return f"Pushes(to {sorted(self.queues)}, busy {busy})"

    def set_brokers(self, brokers: Collection[LiveBroker]) -> None:
        """Set the live brokers: queues of others end, new lives get the full metadata, all get the list of brokers."""
        self.live_brokers = [_broker(broker) for broker in brokers]
        epochs = {broker.id: broker.epoch for broker in brokers}
        self.queues = {id_: queue for id_, queue in self.queues.items() if epochs.get(id_) == queue.epoch}
        for queue in self.queues.values():
            queue.brokers = True
        for broker, epoch in epochs.items():
            if broker not in self.queues:
                self.queues[broker] = Queue(broker, epoch)

    def push_roles(self, partitions: Iterable[Partition], *, only: int | None = None, created: bool = False) -> None:
        """Push the roles of these partitions to their live replicas, or to one of them."""
        for partition in partitions:
            for broker in partition.replicas:
                queue = self.queues.get(broker) if only in (None, broker) else None
                if queue is not None:
                    queue.roles[partition] = None
                    queue.deletions.pop(partition, None)  # it is back before it was deleted
                    if created:
                        queue.created.add(partition)

    def push_metadata(self, partitions: Iterable[Partition]) -> None:
        changed = dict.fromkeys(partitions)
        for queue in self.queues.values():
            if not queue.full:
                queue.metadata.update(changed)

    def push_features(self) -> None:
        """Every UpdateMetadata carries them."""
        for queue in self.queues.values():
            queue.brokers = True

    def push_deletion(self, broker: int, partitions: Iterable[Partition], epoch: int = EPOCH_DURING_DELETE) -> None:
        queue = self.queues.get(broker)
        if queue is not None:
            for partition in partitions:
                queue.roles.pop(partition, None)
                queue.deletions[partition] = epoch

    def push_removal(self, broker: int, partition: Partition) -> None:
        """A reassignment removed the replica, and raised the leader epoch: if the replica comes back, a late push must
        not delete it."""
        self.push_deletion(broker, [partition], partition.state.leader_epoch - 1)

    def take(self, now: int, token: int) -> list[PeerRequest]:
        """The requests that may leave now; they take tokens from `token` on. These are their push numbers, too: they
        keep ascending when a controller resigns and leads again in the same session, and so in the same epoch."""
        asks: list[PeerRequest] = []
        for queue in self.queues.values():
            if queue.flight is not None or (queue.retry_at is not None and now < queue.retry_at):
                continue
            queue.retry_at = None
            if queue.metadata_at is not None and now >= queue.metadata_at:
                queue.metadata_at = None
            kind = queue.next_kind()
            if kind is not None:
                asks.append(self._request(queue, kind, token + len(asks)))
        return asks

    @property
    def next_deadline(self) -> int | None:
        return earliest(*[queue.next_deadline for queue in self.queues.values()])

    def _request(self, queue: Queue, kind: Kind, number: int) -> PeerRequest:
        request: Any
        partitions: dict[Partition, Any]
        if kind == "roles":
            partitions, queue.roles = _split(queue.roles, CREATIONS_PER_REQUEST if queue.created else ROLES_PER_REQUEST)
            request = self._leader_and_isr(queue, number, partitions)
        elif kind == "metadata":
            request = self._update_metadata(queue, number)
            partitions = {}
        else:
            partitions, queue.deletions = _split(queue.deletions, CREATIONS_PER_REQUEST)
            request = self._stop_replica(queue, number, partitions)
        queue.flight = Flight(number, kind, partitions)
        return PeerRequest(queue.broker, request, "controller", number)

    def _leader_and_isr(self, queue: Queue, number: int, partitions: Iterable[Partition]) -> LeaderAndIsrRequest:
        leaders = {partition.state.leader for partition in partitions}
        return LeaderAndIsrRequest(
            controller_id=self.broker_id,
            controller_epoch=self.epoch,
            broker_epoch=queue.epoch,
            topic_states=[
                LeaderAndIsrTopicState(
                    topic_name=topic.name,
                    topic_id=topic.id,
                    partition_states=[partition.role(is_new=partition in queue.created) for partition in group],
                )
                for topic, group in _by_topic(partitions)
            ],
            live_leaders=[leader for leader in map(self._leader, sorted(leaders)) if leader is not None],
            push_number=number,
        )

    def _leader(self, broker: int) -> LeaderAndIsrLiveLeader | None:
        live = self.cluster.brokers.get(broker)
        endpoint = None if live is None else live.registration.reached_by(self.listeners)
        if endpoint is None:
            return None
        return LeaderAndIsrLiveLeader(broker_id=broker, host_name=endpoint.host, port=endpoint.port)

    def _metadata_parts(self, queue: Queue) -> Parts:
        """Those under way, or all that is due now: changes from now on are for the next push."""
        parts = queue.parts
        if parts is None or (queue.full and not parts.full):
            partitions = list(self.cluster.partitions() if queue.full else queue.metadata)
            parts = queue.parts = Parts(partitions, queue.full)
            queue.metadata, queue.full, queue.brokers = {}, False, False
        return parts

    def _update_metadata(self, queue: Queue, number: int) -> UpdateMetadataRequest:
        parts, lives = self._metadata_parts(queue), self.cluster.lives
        part = parts.number
        states = [
            UpdateMetadataTopicState(
                topic_name=topic.name,
                topic_id=topic.id,
                partition_states=[partition.metadata(lives) for partition in group],
            )
            for topic, group in _by_topic(parts.take())
        ]
        parts.number += 1
        return UpdateMetadataRequest(
            controller_id=self.broker_id,
            type=FULL if parts.full else INCREMENTAL,
            controller_epoch=self.epoch,
            broker_epoch=queue.epoch,
            topic_states=states,
            live_brokers=self.live_brokers,
            push_number=number,
            features=[UpdateMetadataFeature(name=name, level=level) for name, level in self.cluster.features.items()],
            features_epoch=max(0, self.cluster.features_version),
            part=part,
            has_more=parts.has_more,
        )

    def _stop_replica(self, queue: Queue, number: int, epochs: Mapping[Partition, int]) -> StopReplicaRequest:
        return StopReplicaRequest(
            controller_id=self.broker_id,
            controller_epoch=self.epoch,
            broker_epoch=queue.epoch,
            topic_states=[
                StopReplicaTopicState(
                    topic_name=topic.name,
                    partition_states=[
                        StopReplicaPartitionState(
                            partition_index=partition.index,
                            leader_epoch=epochs[partition],
                            delete_partition=True,
                        )
                        for partition in group
                    ],
                    topic_id=topic.id,
                )
                for topic, group in _by_topic(epochs)
            ],
            push_number=number,
        )

    def answered(self, token: int, response: Any, now: int) -> Answered | None:
        """Take in an answer (None: it cannot come). None for a flight that ended with its broker's epoch."""
        queue = next((queue for queue in self.queues.values() if queue.flight and queue.flight.token == token), None)
        if queue is None:
            return None
        flight, queue.flight = queue.flight, None
        assert flight is not None
        code = ErrorCode.NETWORK_EXCEPTION if response is None else response.error_code
        if code != ErrorCode.NONE:
            queue.retry_at = now + RETRY_MS
            _requeue(queue, flight)
            return Answered(queue.broker, flight.kind, flight.partitions, {}, failed=True, code=code)
        if flight.kind == "metadata":
            self._metadata_applied(queue, now)
        elif len(flight.partitions) >= CREATIONS_PER_REQUEST:
            queue.retry_at = now + PAUSE_MS
        errors = self._errors(flight, response)
        if flight.kind == "roles":
            refused = [p for p in flight.partitions if errors.get(p.name) == ErrorCode.INCONSISTENT_TOPIC_ID]
            queue.created.difference_update(p for p in flight.partitions if p not in refused)
            _push_full_metadata_first(queue, refused, now)
        return Answered(queue.broker, flight.kind, flight.partitions, errors)

    def _metadata_applied(self, queue: Queue, now: int) -> None:
        parts = queue.parts
        assert parts is not None
        if parts.has_more:
            queue.retry_at = now + PAUSE_MS
        else:
            queue.parts = None
            pause_ms = pause_between_metadata_ms(len(self.queues))
            queue.metadata_at = now + pause_ms if pause_ms else None
            if len(parts.partitions) >= CREATIONS_PER_REQUEST and not parts.full:
                queue.retry_at = now + PAUSE_MS

    def _errors(self, flight: Flight, response: Any) -> dict[TopicPartition, int]:
        if flight.kind == "metadata":
            return {}
        if flight.kind == "deletions":
            return {
                TopicPartition(error.topic_name, error.partition_index): error.error_code
                for error in response.partition_errors
                if error.error_code
            }
        names = {partition.topic.id: partition.topic.name for partition in flight.partitions}
        return {
            TopicPartition(names[topic.topic_id], error.partition_index): error.error_code
            for topic in response.topics
            if topic.topic_id in names
            for error in topic.partition_errors
            if error.error_code
        }


def pause_between_metadata_ms(brokers: int) -> int:
    """From one push of metadata to a broker until the next. Each registration and each change of an in-sync set
    concerns all brokers: in a start of a hundred each would get hundreds, one for every few changes. So a controller
    sends no more than a hundred thousand a second, divided by the number of brokers; up to nine need no pause."""
    return brokers * brokers // 100


def _requeue(queue: Queue, flight: Flight) -> None:
    """Put what the flight carried in front of what is due now. Roles of topics that are being deleted are not sent
    again, nor roles of replicas that were moved away meanwhile; a replica that came back is not deleted."""
    if flight.kind == "roles":
        kept = dict.fromkeys(p for p in flight.partitions if not p.deleted and queue.broker in p.replicas)
        queue.roles = kept | queue.roles
    elif flight.kind == "metadata":
        parts, queue.parts = queue.parts, None
        assert parts is not None
        queue.full = queue.full or parts.full
        queue.brokers = True
        queue.metadata = {} if queue.full else dict.fromkeys(parts.partitions) | queue.metadata
    else:
        gone = {p: epoch for p, epoch in flight.partitions.items() if p.deleted or queue.broker not in p.replicas}
        queue.deletions = gone | queue.deletions


def _push_full_metadata_first(queue: Queue, refused: list[Partition], now: int) -> None:
    """The broker holds replicas of an earlier topic of that name, and does not know yet that it was deleted."""
    roles = dict.fromkeys(p for p in refused if not p.deleted and queue.broker in p.replicas)
    if roles:
        queue.full, queue.retry_at = True, now + RETRY_MS
        queue.roles = roles | queue.roles


def _split(due: dict[Partition, T], most: int) -> tuple[dict[Partition, T], dict[Partition, T]]:
    """What one request carries, and the rest."""
    if len(due) <= most:
        return due, {}
    entries = iter(due.items())
    return dict(islice(entries, most)), dict(entries)


def _by_topic(partitions: Iterable[Partition]) -> list[tuple[Topic, list[Partition]]]:
    """By topic, not by name: a deleted topic and its successor may be in one request."""
    groups: dict[Topic, list[Partition]] = {}
    for partition in partitions:
        groups.setdefault(partition.topic, []).append(partition)
    return list(groups.items())


def _broker(broker: LiveBroker) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker.id,
        rack=broker.registration.rack,
        endpoints=[
            UpdateMetadataEndpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.listener,
                security_protocol=SECURITY_NUMBERS.get(endpoint.security, 0),
            )
            for endpoint in broker.registration.endpoints
        ],
    )
