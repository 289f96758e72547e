"""What is known of a cluster at one time, as plain data. None means unknown."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidelog.cli.replicas.replica_requests import OngoingReassignment
from tidelog.cli.transaction_actions import OpenTransaction
from tidelog.model import TopicPartition


class BrokerEvent(NamedTuple):
    """One event from a broker's event log."""

    wall_ms: int
    broker: int
    number: int
    kind: str
    level: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory; `growth_per_s` is the growth of its replicas while it was watched, in bytes per second."""

    path: str
    trouble: str | None = None
    total_bytes: int = -1
    usable_bytes: int = -1
    growth_per_s: float = 0


@dataclass(slots=True)
class BrokerEvidence:
    """A broker of the cluster; `facts` are from its report, empty if it is not a Tidelog broker."""

    id: int
    address: str = ""
    answers: bool = False
    folders: list[LogDir] = field(default_factory=list)
    facts: Mapping[str, Any] = field(default_factory=dict)
    dropped_events: int = 0


@dataclass(slots=True)
class PartitionEvidence:
    """A partition. `sizes` and `rates` are bytes and bytes per second of each replica, `min_insync` is
    min.insync.replicas, and `transactions` are those that have been open for long."""

    name: TopicPartition
    leader: int
    epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    min_insync: int = 1
    unclean: bool = False
    sizes: dict[int, int] = field(default_factory=dict)
    rates: dict[int, float] = field(default_factory=dict)
    transactions: list[OpenTransaction] = field(default_factory=list)

    @property
    def out_of_sync(self) -> list[int]:
        """Assigned replicas outside the ISR."""
        return [replica for replica in self.replicas if replica not in self.isr]


@dataclass(slots=True)
class Evidence:
    """What the rules judge; `brokers` has every broker that is registered or is assigned a replica."""

    now_ms: int
    cluster_id: str
    controller: int
    brokers: dict[int, BrokerEvidence]
    partitions: dict[TopicPartition, PartitionEvidence]
    events: list[BrokerEvent] = field(default_factory=list)
    deleting: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Topics marked for deletion, and the brokers that have not confirmed it."""
    moves: Mapping[TopicPartition, OngoingReassignment] = field(default_factory=dict)

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
