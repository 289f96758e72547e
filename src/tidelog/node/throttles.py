"""This broker's replication throttles, as its options say; and who is told when they let go (KIP-73)."""

from collections.abc import Collection

from tidelog.config.broker import BrokerConfig
from tidelog.config.topic import TopicConfig
from tidelog.node.replicas import HeldReplicas
from tidelog.partition.throttle import Throttle


class ReplicationThrottles:
    """`leader` for what others copy from here, `follower` for what is copied to here."""

    def __init__(self, broker_id: int, replicas: HeldReplicas) -> None:
        self.leader = Throttle(broker_id, _leaders)
        self.follower = Throttle(broker_id, _followers)
        self._replicas = replicas

    def __repr__(self) -> str:
        return f"<ReplicationThrottles leader={self.leader} follower={self.follower}>"

    def configure(self, config: BrokerConfig, now: int) -> None:
        self.leader.set_rate(config.leader_replication_throttled_rate, now)
        self.follower.set_rate(config.follower_replication_throttled_rate, now)

    def wake(self, now: int) -> None:
        """Followers hear of what was held back from them. (Fetching looks after itself.)"""
        for name in self.leader.release(now):
            partition = self._replicas.get(*name)
            if partition is not None:
                partition.mark_news()

    @property
    def next_deadline(self) -> int | None:
        return self.leader.next_deadline


def _leaders(config: TopicConfig) -> Collection[str]:
    return config.leader_replication_throttled_replicas


def _followers(config: TopicConfig) -> Collection[str]:
    return config.follower_replication_throttled_replicas
