"""The group coordinator of one broker: requests in, effects out.

A request is handed down with a token and, later or at once, answered by a `Reply`. Responses are of the newest
version's shape; `finish`, a function of the API's own file, gives them the shape of the request's version.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tidelog import effects
from tidelog.config.broker import BrokerConfig
from tidelog.coordinator.group import deletion
from tidelog.coordinator.group.loading import RULES
from tidelog.coordinator.group.machine import Entropy, GroupMachine
from tidelog.coordinator.group.requests import Caller, Requests
from tidelog.coordinator.placement import partition_for
from tidelog.coordinator.shard import Desk, Shard
from tidelog.coordinator.shards import Shards
from tidelog.effects import Effect
from tidelog.errors import ErrorCode
from tidelog.model import GROUP_TOPIC, Time
from tidelog.ports import Buffer

Finish = Callable[[Any], Any]


class GroupCoordinator:
    """All groups whose partition of `__consumer_offsets` this broker leads.

    Every input returns the effects to carry out in order. `Append` is answered by `appended` or `append_failed` first
    of all. After `loaded`, and whenever the high watermark moves, `committed` is called.
    """

    def __init__(self, config: BrokerConfig, *, entropy: Entropy) -> None:
        self.config = config
        self._entropy = entropy
        desk = Desk(config.offsets_commit_timeout_ms, config.offsets_topic_compression_codec)
        self._shards = Shards[GroupMachine](desk, GROUP_TOPIC, self._machine)
        self._requests = Requests(config, self._shards)
        self._finish: dict[int, Finish] = {}

    def __repr__(self) -> str:
        return f"<GroupCoordinator {self._shards!r}>"

    def _machine(self, shard: Shard) -> GroupMachine:
        return GroupMachine(shard, self.config, self._entropy, RULES)

    def partition_for(self, group_id: str, partitions: int = 0) -> int:
        """The partition of the group topic that holds the group, of so many, or of as many as it will be made with."""
        return partition_for(group_id, partitions or self.config.offsets_topic_num_partitions)

    def machines(self) -> list[GroupMachine]:
        """The machines of all partitions that are led here, for status and checks."""
        return [self._shards.machine(shard.partition.partition) for shard in self._shards]

    def handle(self, token: int, request: Any, caller: Caller, now: Time, finish: Finish | None = None) -> list[Effect]:
        """Any request of the group APIs except FindCoordinator; tokens are not negative. OffsetFetch comes in the form
        with groups, LeaveGroup with members, and topics with both name and id."""
        assert token >= 0
        if finish is not None:
            self._finish[token] = finish
        return self._input(now, self._requests.handle, token, request, caller)

    def elected(self, partition: int, epoch: int, now: Time) -> list[Effect]:
        """This broker leads the partition in this epoch: `load` and `loaded` follow."""
        return self._input(now, self._shards.elected, partition, epoch)

    def load(self, partition: int, batches: Iterable[Buffer], now: Time) -> list[Effect]:
        """The next whole batches of the partition's log, in order. CorruptLog or ApiError where they cannot be read."""
        return self._input(now, self._shards.load, partition, batches)

    def loaded(self, partition: int, now: Time) -> list[Effect]:
        """Everything below the end of the log was loaded."""
        return self._input(now, self._shards.loaded, partition)

    def resigned(self, partition: int, now: Time) -> list[Effect]:
        """This broker no longer leads the partition."""
        return self._input(now, self._shards.resigned, partition)

    def appended(self, token: int, base_offset: int, last_offset: int, now: Time) -> list[Effect]:
        return self._input(now, self._shards.appended, token, base_offset, last_offset)

    def append_failed(self, token: int, code: ErrorCode, now: Time) -> list[Effect]:
        return self._input(now, self._shards.append_failed, token, code)

    def transaction_ended(
        self, partition: int, offset: int, producer_id: int, now: Time, *, committed: bool
    ) -> list[Effect]:
        """A marker was appended to the partition at this offset, by its transaction's coordinator."""
        ended = partial(self._shards.transaction_ended, committed=committed)
        return self._input(now, ended, partition, offset, producer_id)

    def committed(self, partition: int, high_watermark: int, now: Time) -> list[Effect]:
        return self._input(now, self._shards.committed, partition, high_watermark)

    def topics_deleted(self, topics: Iterable[str], now: Time) -> list[Effect]:
        """Topics left the cluster: positions in them are forgotten."""
        names = list(topics)
        return self._input(now, self._forget, names)

    def _forget(self, topics: list[str]) -> None:
        for shard in self._shards:
            if not shard.is_loading:
                machine = self._shards.machine(shard.partition.partition)
                shard.execute(partial(deletion.forget_topics, machine, topics))

    @property
    def next_deadline(self) -> int | None:
        """Monotonic milliseconds before which `wake` has nothing to do."""
        return self._shards.next_deadline

    def wake(self, now: Time) -> list[Effect]:
        return self._input(now, self._shards.wake, now)

    def _input(self, now: Time, function: Callable[..., None], *arguments: Any) -> list[Effect]:
        self._shards.desk.now = now
        function(*arguments)
        return [drained for effect in self._shards.drain() if (drained := self._finished(effect)) is not None]

    def _finished(self, effect: Effect) -> Effect | None:
        """A part of an answer is kept until it is whole; a whole one gets its final shape."""
        if not isinstance(effect, effects.Reply):
            return effect
        token, response = effect.token, effect.response
        if token < 0:
            gathered = self._requests.gatherings.take(token, response)
            if gathered is None:
                return None
            token, response = gathered
        finish = self._finish.pop(token, None)
        return effects.Reply(token, response if finish is None else finish(response))
