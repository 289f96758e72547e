"""Elections: on brokers that come and go, on failed log folders, on request, and by preference every few minutes."""

from collections.abc import Iterable, Mapping, Sequence

from tidelog.controller import tree
from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.journal import Slices, Steps
from tidelog.controller.leaders import Election, elect, elect_by_logs, elect_preferred
from tidelog.controller.state import Partition
from tidelog.controller.tree import LeadershipState
from tidelog.effects import PeerRequest
from tidelog.errors import ErrorCode
from tidelog.model import NO_EPOCH, NO_LEADER
from tidelog.ports import Delete, Node, Read
from tidelog.wire.messages.records.offsets import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.wire.messages.topics.reassignments import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from tidelog.wire.refusals import refuse

PREFERRED, UNCLEAN = 0, 1
LOG_END_QUERY = -3
"""The replica id in an OffsetForLeaderEpoch by which the controller asks any replica for (last epoch, LEO)."""
LATEST_EPOCH = 2**31 - 1
RETRY_MS = 100

Changes = dict[Partition, LeadershipState]


class LogEnds:
    """Partitions whose ISR members are all back, but none of them counts: their log ends are requested.

    An answer holds for one life of a broker only: the one that was asked, and that the answer names. When the
    candidates of a partition change, they are asked again. A replica answers only if it knows the epoch without a
    leader: one that still led or followed could append behind its answer. A broker that misses a log directory may not
    have the replica: then it is `lacking`, and nobody waits for it as long as another broker has one. `flights`: token
    → the broker, and its life by partition.
    """

    def __init__(self) -> None:
        self.wanted: dict[Partition, dict[int, int]] = {}
        self.known: dict[Partition, dict[int, tuple[int, int]]] = {}
        self.lacking: dict[Partition, set[int]] = {}
        self._may_lack: dict[Partition, set[int]] = {}
        self.flights: dict[int, tuple[int, dict[Partition, int]]] = {}
        self.retry_at: int | None = None

    def __repr__(self) -> str:
        return f"<LogEnds of {list(self.wanted)}>"

    def set(self, term: ControllerTerm, partition: Partition, candidates: Sequence[int]) -> None:
        """Request the log ends of these brokers; with none, the partition is dropped."""
        lives = term.cluster.lives
        epochs = {broker: lives[broker].epoch for broker in candidates}
        if not epochs:
            for each in (self.wanted, self.known, self.lacking, self._may_lack):
                each.pop(partition, None)
        elif self.wanted.get(partition) != epochs:
            recorded = partition.state.recorded
            self.wanted[partition] = epochs
            self.known[partition], self.lacking[partition] = {}, set()
            self._may_lack[partition] = {b for b in candidates if not lives[b].holds(recorded.get(b, NO_EPOCH))}

    def is_known(self, partition: Partition, candidates: Iterable[int]) -> bool:
        """Whether all of them answered, and at least one has a replica."""
        known = self.known.get(partition, {})
        return bool(known) and {*candidates} == known.keys() | self.lacking[partition]

    def take(self, now: int, token: int) -> list[PeerRequest]:
        """One request to each broker whose answer is missing and that has no request under way."""
        if self.retry_at is not None and now < self.retry_at:
            return []
        self.retry_at = None
        busy = {broker for broker, _ in self.flights.values()}
        due: dict[int, dict[Partition, int]] = {}
        for partition, epochs in self.wanted.items():
            if partition.state.leader != NO_LEADER:  # that it lost its leader is being written yet
                continue
            for broker in epochs.keys() - self.known[partition].keys() - busy:
                due.setdefault(broker, {})[partition] = epochs[broker]
        requests: list[PeerRequest] = []
        for broker, partitions in sorted(due.items()):
            self.flights[token + len(requests)] = broker, partitions
            requests.append(PeerRequest(broker, _log_end_request(partitions), "controller", token + len(requests)))
        return requests

    def answered(self, token: int, response: object, now: int) -> list[Partition]:
        """Take in an answer; the partitions about which all is known now."""
        broker, partitions = self.flights.pop(token)
        requested = {partition.name: partition for partition in partitions}
        speaks_for = getattr(response, "broker_epoch", NO_EPOCH)  # absent in earlier versions
        for topic in getattr(response, "topics", ()):
            for end in topic.partitions:
                partition = requested.get((topic.topic, end.partition))  # type: ignore[call-overload]
                life = self.wanted.get(partition, {}).get(broker) if partition is not None else None
                if partition is None or life != partitions[partition] or speaks_for not in (life, NO_EPOCH):
                    continue
                if not end.error_code:
                    self.known[partition][broker] = end.leader_epoch, end.end_offset
                    self.lacking[partition].discard(broker)
                elif end.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and broker in self._may_lack[partition]:
                    self.lacking[partition].add(broker)
        if any(broker in self.wanted.get(each, ()) and broker not in self.known[each] for each in partitions):
            self.retry_at = now + RETRY_MS
        return [p for p in partitions if p in self.wanted and self.is_known(p, self.wanted[p])]


def _log_end_request(partitions: Iterable[Partition]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, list[OffsetForLeaderPartition]] = {}
    for partition in partitions:
        known = partition.state.leader_epoch
        entry = OffsetForLeaderPartition(
            partition=partition.index, current_leader_epoch=known, leader_epoch=LATEST_EPOCH
        )
        topics.setdefault(partition.topic.name, []).append(entry)
    return OffsetForLeaderEpochRequest(
        replica_id=LOG_END_QUERY,
        topics=[OffsetForLeaderTopic(topic=name, partitions=entries) for name, entries in topics.items()],
    )


def judge(term: ControllerTerm, partition: Partition, *, unclean: bool = False) -> Election:
    """Rule 8 for one partition, unclean if its topic's configuration or the caller allows it. If a member counts that
    is shutting down, `elect` waits for it even then: it lost nothing, and an unclean election would lose records."""
    cluster, min_in_sync = term.cluster, term.min_in_sync(partition)
    election = elect(
        partition.state,
        partition.replicas,
        cluster.lives,
        offline=partition.offline,
        unclean=unclean,
        min_in_sync=min_in_sync,
    )
    state = election.state or partition.state
    if state.leader != NO_LEADER or unclean or election.candidates:
        return election
    allowed = term.topic_config(partition.topic.name).unclean_leader_election_enable
    return judge(term, partition, unclean=True) if allowed else election


def elect_where_due(term: ControllerTerm, logs: LogEnds, partitions: Iterable[Partition], why: str) -> Steps[None]:
    """Give each partition the leader and ISR that the living brokers call for."""
    changes: Changes = {}
    slices = Slices()
    for partition in partitions:
        yield from slices.count()
        election = judge(term, partition)
        logs.set(term, partition, election.candidates)
        if election.state is not None:
            changes[partition] = election.state
            report_kind(term, partition, election)
    yield from term.commit(list(changes.items()), why)


def report_kind(term: ControllerTerm, partition: Partition, election: Election) -> None:
    """Report an election that took no member of the ISR."""
    if election.state is None:
        return
    if election.unclean:
        report_unclean(term, partition, election.state.leader)
    elif election.eligible:
        topic, index = partition.name
        term.report("partition.eligible", topic=topic, partition=index, leader=election.state.leader)


def report_unclean(term: ControllerTerm, partition: Partition, leader: int) -> None:
    term.report(
        "partition.unclean",
        "warning",
        topic=partition.topic.name,
        partition=partition.index,
        leader=leader,
        previous_isr=list(partition.state.recorded),
    )


def elect_most_complete(term: ControllerTerm, logs: LogEnds, partitions: Sequence[Partition]) -> Steps[None]:
    """All candidates reported their log ends: the most complete one leads."""
    changes: Changes = {}
    slices = Slices()
    for partition in term.cluster.current(partitions):
        yield from slices.count()
        candidates = judge(term, partition).candidates
        if candidates and logs.is_known(partition, candidates):
            known, lives = logs.known[partition], term.cluster.lives
            state = elect_by_logs(partition.state, partition.replicas, lives, known, term.min_in_sync(partition))
            changes[partition] = state
            logs.set(term, partition, ())
    yield from term.commit(list(changes.items()), "most complete log")


def elect_on_request(term: ControllerTerm, logs: LogEnds, request: ElectLeadersRequest) -> Steps[ElectLeadersResponse]:
    """ElectLeaders (KIP-460): preferred, or unclean if there is no leader."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        refusal: ElectLeadersResponse = refuse(
            request, ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}."
        )
        return refusal
    wanted = request.topic_partitions
    requested = (
        [(topic.name, sorted(topic.partitions)) for topic in term.cluster.topics.values() if not topic.deleted]
        if wanted is None
        else [(topic.topic, topic.partitions) for topic in wanted]
    )
    slices = Slices()
    changes: Changes = {}
    results = []
    for topic, indexes in requested:
        result = ReplicaElectionResult(topic=topic)
        results.append(result)
        for index in indexes:
            code = _elect_requested(term, topic, index, request.election_type, changes)
            if wanted is not None or code != ErrorCode.ELECTION_NOT_NEEDED:
                result.partition_result.append(_result(topic, index, code))
            yield from slices.count()
    for partition in changes:
        logs.set(term, partition, ())
        yield from slices.count()
    yield from term.commit(
        list(changes.items()), "unclean on wish" if request.election_type == UNCLEAN else "preferred on wish"
    )
    return ElectLeadersResponse(replica_election_results=results)


def _result(topic: str, index: int, code: ErrorCode) -> PartitionResult:
    message = {
        ErrorCode.NONE: None,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: f"There is no partition {topic}-{index}.",
        ErrorCode.ELECTION_NOT_NEEDED: "The partition already has such a leader.",
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader is not in sync and alive.",
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "No replica that could lead is alive.",
    }[code]
    return PartitionResult(partition_id=index, error_code=code, error_message=message)


def _elect_requested(term: ControllerTerm, topic: str, index: int, kind: int, changes: Changes) -> ErrorCode:
    partition = term.cluster.partition(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    leader, lives = partition.state.leader, term.cluster.lives
    if leader == partition.replicas[0] if kind == PREFERRED else leader != NO_LEADER:
        return ErrorCode.ELECTION_NOT_NEEDED
    if kind == PREFERRED:
        state = elect_preferred(partition.state, partition.replicas, lives, offline=partition.offline)
        failure = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        election = judge(term, partition, unclean=True)
        state = election.state
        failure = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        report_kind(term, partition, election)
    if state is not None:
        changes[partition] = state
    return failure if state is None or state.leader == NO_LEADER else ErrorCode.NONE


def rebalance(term: ControllerTerm) -> Steps[None]:
    """Every leader.imbalance.check.interval.seconds: in-sync first replicas lead again, for brokers that miss more than
    leader.imbalance.per.broker.percentage of their leaderships. Partitions under reassignment wait."""
    of: dict[int, list[Partition]] = {}
    slices = Slices()
    for partition in list(term.cluster.partitions()):
        yield from slices.count()
        of.setdefault(partition.replicas[0], []).append(partition)
    percentage = term.broker_config().leader_imbalance_per_broker_percentage
    changes: Changes = {}
    for broker, own in of.items():
        away = [partition for partition in own if partition.state.leader != broker and not partition.is_moving]
        if len(away) * 100 <= percentage * len(own):
            continue
        for partition in away:
            yield from slices.count()
            state = elect_preferred(partition.state, partition.replicas, term.cluster.lives, offline=partition.offline)
            if state is not None:
                changes[partition] = state
    yield from term.commit(list(changes.items()), "preferred")


def elect_as_written(term: ControllerTerm, logs: LogEnds) -> Steps[None]:
    """Elect the preferred leaders that `/admin/preferred_replica_election` names, as Kafka's tool of that name wrote
    it, as far as they can lead; a malformed node is removed, too."""
    (node,) = yield [Read(tree.PREFERRED_ELECTION)]
    if not isinstance(node, Node):
        return
    topics: Mapping[str, Sequence[int]] = {}
    try:
        topics = tree.parse_preferred_election(node.data)
    except (ValueError, TypeError, KeyError) as error:
        term.report("election.unreadable", "warning", reason=f"{type(error).__name__}: {error}")
    wanted = [TopicPartitions(topic=topic, partitions=list(indexes)) for topic, indexes in topics.items()]
    yield from elect_on_request(term, logs, ElectLeadersRequest(election_type=PREFERRED, topic_partitions=wanted))
    yield [Delete(tree.PREFERRED_ELECTION, node.version)]
