"""Replication throttles (KIP-73): a limit in bytes per second for replicas that catch up, over all throttled
partitions.

Credit grows with time, up to one second's worth, and copied bytes are subtracted; a batch larger than the credit leaves
a debt. The rate therefore holds over any long period, whatever the batch sizes. Fetches of throttled partitions by
in-sync replicas count too, as in Kafka, but are never delayed: their debt is limited by `MOST_DEBT_MS`, and what they
copy beyond it exceeds the rate.
"""

from collections.abc import Callable, Collection

from tidelog.alarms import Alarm
from tidelog.config.broker import BrokerConfig
from tidelog.config.topic import TopicConfig
from tidelog.model import Time, TopicPartition
from tidelog.partition.partition import Partition

NO_LIMIT = 2**63 - 1
"""The rate if no throttle is set."""
MOST_CREDIT_MS = 1000
MOST_DEBT_MS = 10_000
"""In-sync replicas without credit create no larger debt: about Kafka's window of eleven seconds."""
PORTION = 10
"""If there is less credit, a response still gets this fraction of one second's bytes."""
ALL: Collection[int] = range(2**31)


class Throttle:
    """One direction of one broker. `listed` returns the topic option that names throttled replicas. `held` are
    partitions that were left out of a response; their readers must be notified when there is credit again."""

    def __init__(self, broker: int, listed: Callable[[TopicConfig], Collection[str]]) -> None:
        self.rate = NO_LIMIT
        self.held: dict[TopicPartition, None] = {}
        self.alarm = Alarm()
        self._broker = broker
        self._listed = listed
        self._known: dict[str, tuple[TopicConfig, Collection[int]]] = {}
        self._credit = 0.0
        self._at = 0

    def __repr__(self) -> str:
        return f"<Throttle {self.rate} B/s, credit {self._credit:.0f}>"

    def covers(self, partition: Partition) -> bool:
        """Whether the local replica of the partition is throttled."""
        if self.rate == NO_LIMIT:
            return False
        topic, config = partition.name.topic, partition.config
        known = self._known.get(topic)
        if known is None or known[0] is not config:
            known = self._known[topic] = config, self._partitions(self._listed(config))
        return partition.name.partition in known[1]

    def _partitions(self, entries: Collection[str]) -> Collection[int]:
        """`*`, `none`, or `partition:broker` entries, of which this broker's are used."""
        if "*" in entries:
            return ALL
        pairs = (entry.partition(":") for entry in entries if ":" in entry)
        return frozenset(int(partition) for partition, _, broker in pairs if int(broker) == self._broker)

    def set_rate(self, rate: int, now: int) -> None:
        """The new rate applies from now on; a debt at the old rate is dropped."""
        if rate != self.rate:
            self.rate = rate
            self._credit, self._at = 0.0, now
            self._set_alarm()

    def room(self, now: int, spent: int = 0) -> int:
        """The number of bytes that may be copied now, with `spent` already used; 0 if there is no credit."""
        if self.rate == NO_LIMIT:
            return NO_LIMIT
        self._earn(now)
        left = self._credit - spent
        return 0 if left < 0 or self.rate == 0 else max(1, int(left), self.rate // PORTION)

    def spend(self, count: int, now: int) -> None:
        if count and self.rate != NO_LIMIT:
            self._earn(now)
            before, floor = self._credit, -self.rate * MOST_DEBT_MS / 1000
            self._credit = before - count if before >= 0 else max(before - count, min(before, floor))
            self._set_alarm()

    def _earn(self, now: int) -> None:
        earned = (now - self._at) * self.rate / 1000
        self._credit = min(self._credit + earned, self.rate * MOST_CREDIT_MS / 1000)
        self._at = now
        if self.held:
            self._set_alarm()

    def hold(self, partition: TopicPartition) -> None:
        """The partition was left out of a response."""
        self.held[partition] = None
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self.held:
            self.alarm.set(self.next_deadline)

    @property
    def free_at(self) -> int | None:
        """When there is credit again, as of the last call of `room`; None if there was some, or there never will be."""
        if self._credit >= 0 or self.rate in (0, NO_LIMIT):
            return None
        return self._at - int(self._credit * 1000 // self.rate)

    @property
    def next_deadline(self) -> int | None:
        """When `release` is due."""
        if not self.held or self.rate == 0:
            return None
        return self._at if self.free_at is None else self.free_at

    def release(self, now: int) -> list[TopicPartition]:
        """The held partitions, once there is credit, or once the throttle was removed."""
        if not self.held or not self.room(now):
            return []
        freed, self.held = list(self.held), {}
        self.alarm.set(None)
        return freed


class ReplicationThrottles:
    """A broker's throttles: `leader` for what others copy from it, `follower` for what it copies."""

    def __init__(self, broker_id: int, find: Callable[[str, int], Partition | None]) -> None:
        self.leader = Throttle(broker_id, _leaders)
        self.follower = Throttle(broker_id, _followers)
        self._find = find

    def __repr__(self) -> str:
        return f"<ReplicationThrottles leader={self.leader} follower={self.follower}>"

    def configure(self, config: BrokerConfig, now: int) -> None:
        self.leader.set_rate(config.leader_replication_throttled_rate, now)
        self.follower.set_rate(config.follower_replication_throttled_rate, now)

    @property
    def alarm(self) -> Alarm:
        """The leader's alarm. (Fetching handles the follower's.)"""
        return self.leader.alarm

    @property
    def next_deadline(self) -> int | None:
        return self.leader.next_deadline

    def wake(self, now: Time) -> None:
        """Notify followers of partitions that were held back."""
        for name in self.leader.release(now.mono):
            partition = self._find(*name)
            if partition is not None:
                partition.mark_dirty()


def _leaders(config: TopicConfig) -> Collection[str]:
    return config.leader_replication_throttled_replicas


def _followers(config: TopicConfig) -> Collection[str]:
    return config.follower_replication_throttled_replicas
