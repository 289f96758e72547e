"""Replication throttles (KIP-73): so many bytes a second for replicas that catch up, over all throttled partitions.

Credit grows with time, up to a second's worth, and what is copied is taken from it; a batch that is larger than the
credit makes a debt that is waited for. So the rate holds over any long span for those that wait, whatever the batches
are. What replicas in sync fetch of throttled partitions counts, too, as in Kafka, but is never held back: their debt
ends at `MOST_DEBT_MS`, and what they copy beyond it is above the rate.
"""

from collections.abc import Callable, Collection

from tidelog.alarms import Alarm
from tidelog.config.broker import BrokerConfig
from tidelog.config.topic import TopicConfig
from tidelog.model import Time, TopicPartition
from tidelog.partition.partition import Partition

NO_LIMIT = 2**63 - 1
"""The rate where no throttle is set."""
MOST_CREDIT_MS = 1000
MOST_DEBT_MS = 10_000
"""What replicas in sync copy without credit makes no larger debt: about Kafka's window of eleven seconds."""
PORTION = 10
"""One answer is given this part of a second's bytes, if there is credit for less."""
ALL: Collection[int] = range(2**31)


class Throttle:
    """One direction of one broker. `listed`: which option of a topic names its throttled replicas. `held` are the
    partitions that were left out of an answer; their readers must be told when there is credit again."""

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
        """Whether the partition's replica here is throttled."""
        if self.rate == NO_LIMIT:
            return False
        topic, config = partition.name.topic, partition.config
        known = self._known.get(topic)
        if known is None or known[0] is not config:
            known = self._known[topic] = config, self._partitions(self._listed(config))
        return partition.name.partition in known[1]

    def _partitions(self, entries: Collection[str]) -> Collection[int]:
        """`*`, `none`, or `partition:broker` of which this broker's are taken."""
        if "*" in entries:
            return ALL
        pairs = (entry.partition(":") for entry in entries if ":" in entry)
        return frozenset(int(partition) for partition, _, broker in pairs if int(broker) == self._broker)

    def set_rate(self, rate: int, now: int) -> None:
        """From now on; a debt made at another rate is forgiven."""
        if rate != self.rate:
            self.rate = rate
            self._credit, self._at = 0.0, now
            self._set_alarm()

    def room(self, now: int, spent: int = 0) -> int:
        """How many bytes may be copied now, `spent` being spoken for already; 0 while there is none."""
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
        """The partition was left out of an answer."""
        self.held[partition] = None
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self.held:
            self.alarm.set(self.next_deadline)

    @property
    def free_at(self) -> int | None:
        """From when on there is room, as of the last question for it; None where there was some, or never will be."""
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
        """The partitions that were held, once there is room; also where the throttle was taken away meanwhile."""
        if not self.held or not self.room(now):
            return []
        freed, self.held = list(self.held), {}
        self.alarm.set(None)
        return freed


class ReplicationThrottles:
    """A broker's, as its options say: `leader` for what others copy from it, `follower` for what it copies."""

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
        """The leader's. (Fetching looks after itself.)"""
        return self.leader.alarm

    @property
    def next_deadline(self) -> int | None:
        return self.leader.next_deadline

    def wake(self, now: Time) -> None:
        """Followers hear of what was held back from them."""
        for name in self.leader.release(now.mono):
            partition = self._find(*name)
            if partition is not None:
                partition.mark_dirty()


def _leaders(config: TopicConfig) -> Collection[str]:
    return config.leader_replication_throttled_replicas


def _followers(config: TopicConfig) -> Collection[str]:
    return config.follower_replication_throttled_replicas
