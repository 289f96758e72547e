"""The group coordinator of one broker. Responses are of the newest version's shape."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tidelog.config.broker import BrokerConfig
from tidelog.config.group import GroupConfig
from tidelog.coordinator.coordinator import Coordinator, Finish
from tidelog.coordinator.group import deletion
from tidelog.coordinator.group.consumer import subscriptions
from tidelog.coordinator.group.consumer.topics import Cluster, NoTopics
from tidelog.coordinator.group.loading import RULES
from tidelog.coordinator.group.machine import Entropy, GroupMachine
from tidelog.coordinator.group.requests import Caller, Requests
from tidelog.coordinator.placement import partition_for
from tidelog.coordinator.shard import Shard, ShardContext
from tidelog.effects import Effect
from tidelog.model import GROUP_TOPIC, Time


class GroupCoordinator(Coordinator[GroupMachine]):
    """All groups whose partition of `__consumer_offsets` this broker leads."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        entropy: Entropy,
        cluster: Cluster | None = None,
        group_config: Callable[[str], GroupConfig] | None = None,
    ) -> None:
        """`cluster` is read whenever a consumer group's subscriptions are looked at, `group_config` tells a group's
        options, as they are now."""
        self.config = config
        self._group_config = group_config or (lambda _: GroupConfig({}, config))
        self._cluster: Cluster = NoTopics() if cluster is None else cluster
        self._entropy = entropy
        context = ShardContext(config.offsets_commit_timeout_ms, config.offsets_topic_compression_codec)
        super().__init__(context, GROUP_TOPIC, self._machine)
        self._requests = Requests(config, self._shards)

    def _machine(self, shard: Shard) -> GroupMachine:
        return GroupMachine(shard, self.config, self._entropy, RULES, self._cluster, self._group_config)

    def partition_for(self, group_id: str, partitions: int = 0) -> int:
        """The partition of the group topic that holds the group, of so many, or of as many as it will be made with."""
        return partition_for(group_id, partitions or self.config.offsets_topic_num_partitions)

    def handle(self, token: int, request: Any, caller: Caller, now: Time, finish: Finish | None = None) -> list[Effect]:
        """Any request of the group APIs except FindCoordinator; tokens are not negative. OffsetFetch comes in the form
        with groups, LeaveGroup with members, and topics with both name and id."""
        return self._handle(now, finish, token, request, caller)

    def transaction_ended(
        self, partition: int, offset: int, producer_id: int, now: Time, *, committed: bool
    ) -> list[Effect]:
        """A marker was appended to the partition at this offset, by its transaction's coordinator."""
        ended = partial(self._shards.transaction_ended, committed=committed)
        return self._input(now, ended, partition, offset, producer_id)

    def topics_changed(self, topics: Iterable[str], now: Time) -> list[Effect]:
        """Topics appeared, changed or left the cluster: consumer groups that subscribe to them look again."""
        return self._input(now, self._look_again, set(topics))

    def _look_again(self, topics: set[str]) -> None:
        for shard in self._shards:
            if not shard.is_loading:
                subscriptions.topics_changed(self._shards.machine(shard.partition.partition), topics)

    def topics_deleted(self, topics: Iterable[str], now: Time) -> list[Effect]:
        """Topics left the cluster, or others have their names now: positions in them are forgotten."""
        names = list(topics)
        return self._input(now, self._forget, names)

    def _forget(self, topics: list[str]) -> None:
        for shard in self._shards:
            machine = self._shards.machine(shard.partition.partition)
            shard.execute_once_loaded(partial(deletion.forget_topics, machine, topics))
