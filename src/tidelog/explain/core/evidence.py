"""What is known of a cluster at one time, as plain data. None means unknown.

Brokers of Apache Kafka answer all of this but what is marked as "Tidelog": that comes from the reports of our brokers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidelog.client.group.described import GroupMember, GroupState
from tidelog.errors import ErrorCode
from tidelog.explain.core import HANGING_AFTER_MINUTES
from tidelog.model import NO_LEADER, TopicPartition

MINUTE_MS = 60_000


class BrokerEvent(NamedTuple):
    """One event from a broker's event log (Tidelog)."""

    wall_ms: int
    broker: int
    number: int
    kind: str
    level: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory. `growth_per_s` is the growth of its replicas while it was watched, in bytes per second;
    `trouble` is why it is offline; `is_full`: nothing can be appended."""

    path: str
    trouble: str | None = None
    total_bytes: int = -1
    usable_bytes: int = -1
    growth_per_s: float = 0
    is_full: bool = False


class View(NamedTuple):
    """A partition as one broker shows it to clients."""

    leader: int
    epoch: int
    isr: Sequence[int]


@dataclass(slots=True)
class BrokerEvidence:
    """A broker of the cluster.

    `error` is why it does not answer. `facts` are from its report, empty if it is not a Tidelog broker. `ahead_ms` is
    how far its clock is ahead of the asker's, between two bounds (Tidelog). `views` are the partitions whose leader
    epochs it showed at both looks, and that did not change. `options` are its dynamic options. `loading` are the kinds
    of coordinators ("groups", "transactions") that answered both times that they load their partition. `refused` is
    why the controller refuses its registration (Tidelog).
    """

    id: int
    address: str = ""
    answers: bool = False
    error: ErrorCode = ErrorCode.NONE
    folders: list[LogDir] = field(default_factory=list)
    facts: Mapping[str, Any] = field(default_factory=dict)
    dropped_events: int = 0
    ahead_ms: tuple[int, int] | None = None
    views: Mapping[TopicPartition, View] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    loading: Sequence[str] = ()
    refused: str = ""
    report_error: ErrorCode = ErrorCode.NONE
    """Why there are no facts; UNSUPPORTED_VERSION of Apache Kafka."""


class OpenTransaction(NamedTuple):
    """An open transaction in a partition. `age_ms` is the time since its last record. `transactional_id` is None if no
    coordinator knows the transaction, or that it includes this partition; then nothing will end it."""

    partition: TopicPartition
    producer: Any
    """`ProducerState` of DescribeProducers."""
    age_ms: int
    transactional_id: str | None

    def hangs(self, after_minutes: int = HANGING_AFTER_MINUTES) -> bool:
        return self.transactional_id is None and self.age_ms > after_minutes * MINUTE_MS


class OngoingReassignment(NamedTuple):
    """A reassignment in progress; `replicas` includes those being added and removed."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]

    @property
    def sources(self) -> list[int]:
        return [broker for broker in self.replicas if broker not in self.adding]


@dataclass(slots=True)
class PartitionEvidence:
    """A partition, as the broker with the highest leader epoch shows it.

    `elr` are its eligible leader replicas, `last_known` those that were (KIP-966). `sizes`, `rates` and `folders`
    are bytes, bytes per second and log directory of each replica. `min_insync` is min.insync.replicas.
    `leader_error` is what its leader answered at both looks. `transactions` are those that have been open for long.
    """

    name: TopicPartition
    leader: int
    epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    min_insync: int = 1
    unclean: bool = False
    sizes: dict[int, int] = field(default_factory=dict)
    rates: dict[int, float] = field(default_factory=dict)
    folders: dict[int, str] = field(default_factory=dict)
    leader_error: ErrorCode = ErrorCode.NONE
    transactions: list[OpenTransaction] = field(default_factory=list)
    elr: Sequence[int] = ()
    last_known: Sequence[int] = ()

    @property
    def holders(self) -> Sequence[int]:
        """The replicas one of which must lead next, as nobody leads: only they have every acknowledged record."""
        return [*self.isr, *self.elr] or self.last_known

    @property
    def out_of_sync(self) -> list[int]:
        """Assigned replicas outside the ISR."""
        return [replica for replica in self.replicas if replica not in self.isr]


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """A group's committed offset in one partition and the log end offset, at two times; `stable` is the last stable
    offset."""

    partition: TopicPartition
    position_before: int
    position: int
    start: int
    end_before: int
    end: int
    stable: int
    member: GroupMember | None

    @property
    def lag(self) -> int:
        return max(0, self.end - self.position)

    @property
    def lag_before(self) -> int:
        return max(0, self.end_before - self.position_before)

    @property
    def moved(self) -> bool:
        return self.position != self.position_before

    @property
    def is_stuck(self) -> bool:
        """Whether records were waiting all the time, and none was committed."""
        return self.lag_before > 0 and not self.moved


@dataclass(frozen=True, slots=True)
class GroupEvidence:
    """A consumer group, watched for `watched_ms`. `unread` are assigned partitions without a committed offset, and how
    many records they have, None if unknown. `was_rebalancing`: also at the first look."""

    state: GroupState
    coordinator: int
    positions: list[GroupPosition] = field(default_factory=list)
    unread: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    watched_ms: int = 0
    was_rebalancing: bool = False


class VoterLag(NamedTuple):
    """How far a voter of the metadata quorum is behind its leader: records, and the milliseconds since it had all that
    the leader had, None if that is unknown."""

    voter: int
    records: int
    behind_ms: int | None


@dataclass(slots=True)
class Evidence:
    """What the rules judge; `brokers` has every broker that is registered or is assigned a replica.

    `controller_error` is what a request came to that only the controller can answer. `unanswered` are sentences about
    what could not be asked. `throttled` are the options that throttle replication of topics, by topic.
    """

    now_ms: int
    cluster_id: str
    controller: int
    brokers: dict[int, BrokerEvidence]
    partitions: dict[TopicPartition, PartitionEvidence]
    events: list[BrokerEvent] = field(default_factory=list)
    deleting: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Topics marked for deletion, and the brokers that have not confirmed it (Tidelog)."""
    moves: Mapping[TopicPartition, OngoingReassignment] = field(default_factory=dict)
    controller_error: ErrorCode = ErrorCode.NONE
    throttled: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    groups: Mapping[str, GroupEvidence] = field(default_factory=dict)
    silent_groups: dict[str, ErrorCode] = field(default_factory=dict)
    """Groups that their coordinators did not describe, although they may exist."""
    unanswered: list[str] = field(default_factory=list)
    voters: Sequence[int] = ()
    """Of the metadata quorum (Tidelog)."""
    quorum_leader: int = NO_LEADER
    """The voter that described the metadata quorum as its leader; it need not be a broker."""
    voter_lags: Sequence[VoterLag] = ()
    """The voters besides the leader, as it describes them."""

    def is_alive(self, broker: int) -> bool:
        return broker in self.brokers and self.brokers[broker].answers

    def of_topic(self, topic: str) -> Iterator[PartitionEvidence]:
        return (partition for name, partition in sorted(self.partitions.items()) if name.topic == topic)

    def follower_facts(self, partition: PartitionEvidence, replica: int) -> Mapping[str, Any]:
        """What the leader reports about a replica outside its ISR; empty if it reports nothing."""
        facts = self.brokers[partition.leader].facts if partition.leader in self.brokers else {}
        found: Mapping[str, Any] = facts.get("behind", {}).get(str(partition.name), {}).get(str(replica), {})
        return found

    def last_event(self, *kinds: str, **fields: Any) -> BrokerEvent | None:
        """The newest event of one of these kinds with these fields."""
        event: BrokerEvent
        for event in reversed(self.events):
            if event.kind in kinds and all(event.fields.get(name) == value for name, value in fields.items()):
                return event
        return None

    def gone_for_ms(self, broker: int) -> int | None:
        """How long ago the controller lost the broker; None if it has not lost it, or only an earlier life of it."""
        last = self.last_event("broker.gone", "broker.registered", broker=broker)
        is_registered = broker in self.brokers and bool(self.brokers[broker].address)
        if last is None or last.kind != "broker.gone" or is_registered:
            return None
        return max(0, self.now_ms - last.wall_ms)

    def isr_departure(self, partition: PartitionEvidence, replica: int) -> BrokerEvent | None:
        """The newest event by which the controller removed the replica from the ISR."""
        topic, index = partition.name
        event: BrokerEvent
        for event in reversed(self.events):
            fields = event.fields
            if event.kind in ("isr.change", "partition.elected") and fields.get("topic") == topic:
                left = replica in fields.get("previous_isr", ()) and replica not in fields.get("isr", ())
                if fields.get("partition") == index and left:
                    return event
        return None
