"""What brokers receive and answer, taken from the bytes on the wire: no broker's own account is trusted.

`WireTap` is a `world.Witness`. It matches responses to requests by connection and correlation ID. It keeps what
followers requested for rules 1 and 3, keeps what was answered to clients until the step is over, and knows the source
of a response while a follower takes it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, NamedTuple, cast

from tidelog.model import INTER_BROKER_LISTENER, TopicPartition
from tidelog.partition.partition import Partition
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.host import Host
from tidelog.sim.network import End, Link
from tidelog.wire.codec import decode_request, decode_response
from tidelog.wire.records import BatchHeader, header

PRODUCE, FETCH, LIST_OFFSETS, CONTROLLED_SHUTDOWN, EPOCHS, ELECT_LEADERS = 0, 1, 2, 7, 23, 43
PUSHES = {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata"}
OBSERVED = frozenset({PRODUCE, FETCH, LIST_OFFSETS, CONTROLLED_SHUTDOWN, EPOCHS, ELECT_LEADERS, *PUSHES})
PREFIX = 4
_INT16, _INT32 = Struct(">h"), Struct(">i")
TOPIC_IDS_SINCE = {PRODUCE: 13, FETCH: 13}
REPLICA_STATE_SINCE = 15
ACKS_ALL = -1
LATEST = -1
UNCLEAN = 1
CLOSING = -1


class FetchPosition(NamedTuple):
    """A follower's fetch as its leader received it: the fetch offset, and the epoch of the record below it."""

    offset: int
    last_epoch: int


class ResponseSource(NamedTuple):
    """The broker that sent a response to a follower.

    `epoch` is the leader epoch of that broker when it sent the response, `before` the one at the beginning of that
    step. Within a step nobody can tell which of the two counted.
    """

    broker: int
    epoch: int
    before: int = -1

    def is_from_epoch(self, epoch: int) -> bool:
        return epoch in (self.epoch, self.before)


class AckedBatch(NamedTuple):
    """A successful acks=all response: the base offset it reports, and the batch as it was sent."""

    name: TopicPartition
    base: int
    sent: BatchHeader


class ServedRecords(NamedTuple):
    """Records returned to a consumer, and the offset that they must lie below."""

    name: TopicPartition
    records: Any
    limit: int


class AnsweredPush(NamedTuple):
    """A controller's push and the response to it. `known` is the newest controller epoch that the broker knew when the
    push arrived.
    """

    api: str
    epoch: int
    number: int
    known: int
    code: int = 0

    def __repr__(self) -> str:
        return f"{self.api} {self.number} of controller epoch {self.epoch}"


class LatestOffset(NamedTuple):
    """A ListOffsets response for the latest offset."""

    name: TopicPartition
    offset: int
    epoch: int


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A request without a response yet. `names` are the partitions that a follower requests, with the epoch it believes
    in; `epochs` are the leader's (current, before) epochs when it answered.
    """

    key: int
    version: int
    request: Any
    follower: int = -1
    names: dict[TopicPartition, int] = field(default_factory=dict)
    epochs: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)


@dataclass(slots=True)
class FetchSession:
    """The partitions that a follower fetches on a connection: epoch and position of each.

    A session ends with its connection; requests under way on an older one may arrive later.
    """

    broker_epoch: int = -1
    names: dict[TopicPartition, tuple[int, FetchPosition]] = field(default_factory=dict)


def partition_of(host: Host, name: TopicPartition) -> Partition | None:
    node: Any = host.node
    return None if node is None else node.replicas.get(*name)


def epoch_known_to(host: Host) -> int:
    """Return the newest controller epoch that the store has reported to the broker."""
    broker = getattr(host.node, "broker", None)
    known: Any = () if broker is None else (broker.controller.known_epoch, broker.pushes.confirmed)
    return max(known, default=-1)


class WireTap:
    """Observe requests and responses of brokers on the wire.

    `fetched[leader, partition]` maps (leader epoch, follower, broker epoch) to the positions requested. `sources` says
    who sent the data that the broker of the current step takes. `epoch_before(broker, partition)` is the leader epoch
    as of the last step. `unclean_requested`: whether anybody requested an unclean election.
    """

    def __init__(self, ghosts: Ghosts, epoch_before: Callable[[int, TopicPartition], int]) -> None:
        self._ghosts = ghosts
        self._epoch_before = epoch_before
        self.fetched: dict[tuple[int, TopicPartition], dict[tuple[int, int, int], list[FetchPosition]]] = {}
        self.sources: dict[TopicPartition, ResponseSource] = {}
        self.acked_batches: list[AckedBatch] = []
        self.served: list[ServedRecords] = []
        self.latest_offsets: list[LatestOffset] = []
        self.unassigned: list[str] = []
        self.pushes: list[AnsweredPush] = []
        self.unclean_requested = False
        self._handlers: dict[int, Callable[[Host, PendingRequest, Any], None]] = {
            PRODUCE: self._produced,
            FETCH: self._fetched,
            LIST_OFFSETS: self._listed,
            CONTROLLED_SHUTDOWN: self._shutdown_allowed,
            **dict.fromkeys(PUSHES, self._pushed),
        }
        self._pending: dict[tuple[Link, int], PendingRequest] = {}
        self._sessions: dict[Link, FetchSession] = {}

    def __repr__(self) -> str:
        return f"WireTap({len(self._pending)} unanswered)"

    def forget(self, broker: int) -> None:
        """Drop what a broker received in a life that is over."""
        for key in [key for key in self.fetched if key[0] == broker]:
            del self.fetched[key]

    def step_over(self) -> None:
        self.sources.clear()
        self.acked_batches.clear()
        self.served.clear()
        self.latest_offsets.clear()
        self.unassigned.clear()
        self.pushes.clear()

    # world.Witness.

    def starting(self, host: Host) -> None:
        """The content of the disk does not matter here."""

    def received(self, host: Host, end: End, frames: Sequence[memoryview]) -> None:
        if not end.listener:
            for frame in frames:
                pending = self._pending.pop((end.link, _INT32.unpack_from(frame)[0]), None)
                for name, epochs in pending.epochs.items() if pending is not None else ():
                    self.sources[name] = ResponseSource(int(end.other.party.name.rpartition("-")[2]), *epochs)
            return
        for frame in frames:
            if _INT16.unpack_from(frame)[0] in OBSERVED:
                self._requested(host, end, frame)

    def _requested(self, host: Host, end: End, frame: memoryview) -> None:
        head, request = decode_request(frame)
        pending = PendingRequest(head.api_key, head.api_version, request)
        if head.api_key == FETCH:
            by_state = head.api_version >= REPLICA_STATE_SINCE
            follower = request.replica_state.replica_id if by_state else request.replica_id
            if follower >= 0:
                pending.follower = follower
                pending.names = self._record_fetch(host, end, pending)
        elif head.api_key == PRODUCE:
            if request.acks != ACKS_ALL:
                return
            self._reduce_to_headers(pending)
        elif head.api_key == EPOCHS:
            pending.follower = request.replica_id
            names = (TopicPartition(t.topic, p.partition) for t in request.topics for p in t.partitions)
            pending.names = dict.fromkeys(names, -1)
        elif head.api_key in PUSHES:
            known = epoch_known_to(host)
            pending.request = AnsweredPush(PUSHES[head.api_key], request.controller_epoch, request.push_number, known)
        elif head.api_key == ELECT_LEADERS:
            self.unclean_requested = self.unclean_requested or request.election_type == UNCLEAN
            return
        self._pending[end.link, head.correlation_id] = pending

    def _reduce_to_headers(self, pending: PendingRequest) -> None:
        """Keep only batch headers: the frame's buffer is reused."""
        for topic in pending.request.topic_data:
            for data in topic.partition_data:
                data.records = header(data.records) if data.records and len(data.records) > 60 else None

    def _record_fetch(self, host: Host, end: End, pending: PendingRequest) -> dict[TopicPartition, int]:
        """Record a follower's positions; return all partitions of its session with the epoch it believes in."""
        request, by_id = pending.request, pending.version >= TOPIC_IDS_SINCE[FETCH]
        if request.session_epoch == CLOSING and not request.topics:
            return {}
        session = self._sessions.get(end.link)
        if session is None or request.session_epoch <= 0:
            session = self._sessions[end.link] = FetchSession()
        named: list[TopicPartition] = []
        for topic in request.topics:
            for part in topic.partitions:
                name = self._name(host, topic, part.partition, by_id=by_id)
                if name is not None:
                    named.append(name)
                    position = FetchPosition(part.fetch_offset, part.last_fetched_epoch)
                    session.names[name] = part.current_leader_epoch, position
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                name = self._name(host, topic, index, by_id=by_id)
                if name is not None:
                    session.names.pop(name, None)
        broker_epoch = request.replica_state.replica_epoch
        if broker_epoch != session.broker_epoch:
            session.broker_epoch = broker_epoch
            named = list(session.names)
        self._record_positions(host, pending.follower, session, named, is_late=not end.link.open)
        return {name: epoch for name, (epoch, _) in session.names.items()}

    def _record_positions(
        self, host: Host, follower: int, session: FetchSession, named: list[TopicPartition], *, is_late: bool
    ) -> None:
        """Record the positions of a fetch.

        A fetch on an abandoned link may be older or newer than the last one, because a follower that truncated goes
        back. So both are kept, and the leader may use either.
        """
        for name in named:
            epoch, position = session.names.get(name, (-1, None))
            if position is None:
                continue
            if epoch < 0:  # generations before fencing: whatever epoch the leader is in
                partition = partition_of(host, name)
                epoch = partition.epoch if partition is not None else -1
            found = self.fetched.setdefault((host.broker_id, name), {})
            key = epoch, follower, session.broker_epoch
            found[key] = [*found.get(key, ()), position] if is_late else [position]

    def _name(self, host: Host, topic: Any, index: int, *, by_id: bool) -> TopicPartition | None:
        if by_id:
            name = cast("Any", host.node).replicas.topic_name(topic.topic_id)
        else:
            name = getattr(topic, "topic", "") or topic.name
        return None if name is None else TopicPartition(name, index)

    def sent(self, host: Host, end: End, data: bytes) -> None:
        if not end.listener:
            return
        position = 0
        while position < len(data):
            start = position + PREFIX
            position = start + _INT32.unpack_from(data, position)[0]
            key = (end.link, _INT32.unpack_from(data, start)[0])
            pending = self._pending.get(key)
            if pending is None:
                continue
            if pending.names and pending.follower >= 0:
                pending.epochs = {
                    name: (partition.epoch, self._epoch_before(host.broker_id, name))
                    for name in pending.names
                    if (partition := partition_of(host, name)) is not None
                }
            else:
                del self._pending[key]
            self._answered(host, end, pending, memoryview(data)[start:position])

    def _answered(self, host: Host, end: End, pending: PendingRequest, frame: memoryview) -> None:
        if pending.key == FETCH and pending.follower >= 0:
            if end.listener != INTER_BROKER_LISTENER or any(self._mismatched(host, pending)):
                self._check_fetch_response(host, pending, frame)
        elif pending.key != EPOCHS:
            _, response = decode_response(pending.key, pending.version, frame)
            self._handlers[pending.key](host, pending, response)

    # Followers.

    def _mismatched(self, host: Host, pending: PendingRequest) -> Iterator[TopicPartition]:
        """Yield the partitions that this follower must not be answered for: it is not assigned, or one of the two
        believes in another epoch.
        """
        for name, epoch in pending.names.items():
            partition = partition_of(host, name)
            known = (-1, partition.epoch, self._epoch_before(host.broker_id, name)) if partition is not None else ()
            if partition is None or pending.follower not in partition.replicas or epoch not in known:
                yield name

    def _check_fetch_response(self, host: Host, pending: PendingRequest, frame: memoryview) -> None:
        _, response = decode_response(FETCH, pending.version, frame)
        by_id = pending.version >= TOPIC_IDS_SINCE[FETCH]
        mismatched = set(self._mismatched(host, pending))
        for topic in response.responses:
            for data in topic.partitions:
                name = self._name(host, topic, data.partition_index, by_id=by_id)
                if name in mismatched and not data.error_code:
                    self.unassigned.append(
                        f"{host.name} answers broker {pending.follower}, which asks in epoch {pending.names[name]}, "
                        f"about {partition_of(host, name)!r}"
                    )

    # Clients.

    def _produced(self, host: Host, pending: PendingRequest, response: Any) -> None:
        by_id = pending.version >= TOPIC_IDS_SINCE[PRODUCE]
        sent = {
            (topic.topic_id if by_id else topic.name, data.index): data.records
            for topic in pending.request.topic_data
            for data in topic.partition_data
        }
        for topic in response.responses:
            for answer in topic.partition_responses:
                batch = sent.get((topic.topic_id if by_id else topic.name, answer.index))
                name = self._name(host, topic, answer.index, by_id=by_id)
                if not answer.error_code and batch is not None and name is not None:
                    self.acked_batches.append(AckedBatch(name, answer.base_offset, batch))

    def _fetched(self, host: Host, pending: PendingRequest, response: Any) -> None:
        by_id = pending.version >= TOPIC_IDS_SINCE[FETCH]
        for topic in response.responses:
            for data in topic.partitions:
                name = self._name(host, topic, data.partition_index, by_id=by_id)
                partition = partition_of(host, name) if name is not None else None
                if data.records and partition is not None and name is not None:
                    limit = partition.high_watermark
                    if pending.request.isolation_level:
                        limit = min(limit, partition.last_stable_offset)
                    self.served.append(ServedRecords(name, bytes(data.records), limit))

    def _listed(self, host: Host, pending: PendingRequest, response: Any) -> None:
        if pending.request.replica_id >= 0 or pending.request.replica_id < -1:
            return
        latest = {
            TopicPartition(topic.name, part.partition_index)
            for topic in pending.request.topics
            for part in topic.partitions
            if part.timestamp == LATEST
        }
        for topic in response.topics:
            for part in topic.partitions:
                name = TopicPartition(topic.name, part.partition_index)
                partition = partition_of(host, name)
                if name in latest and not part.error_code and partition is not None:
                    self.latest_offsets.append(LatestOffset(name, part.offset, partition.epoch))

    def _shutdown_allowed(self, host: Host, pending: PendingRequest, response: Any) -> None:
        """Record that a controller agreed to a broker's shutdown."""
        if not response.error_code:
            key = (pending.request.broker_id, self._ghosts.controller_epoch)
            self._ghosts.leaving.setdefault(key, (pending.request.broker_epoch, host.world.trace.step))

    def _pushed(self, host: Host, pending: PendingRequest, response: Any) -> None:
        self.pushes.append(pending.request._replace(code=response.error_code))
