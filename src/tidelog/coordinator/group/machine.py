"""The state machine of one shard of the group coordinator.

Durable state, changed only by replay: `saved` has the last record of each classic group, `consumers` the consumer
groups, `offsets` the committed offsets, and `pending_offsets` those of open transactions. Soft state, which a failover
loses: `groups`, the running classic groups, rebuilt from `saved` and `offsets` when a shard is loaded. A group is
either classic or a consumer group.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.config.group import GroupConfig
from tidelog.coordinator.contract import Change, Result, Run
from tidelog.coordinator.group import records
from tidelog.coordinator.group.classic.group import (
    LOADED,
    ClassicGroup,
    ClassicGroupState,
    ClassicMember,
    join_error,
    sync_error,
)
from tidelog.coordinator.group.consumer.group import ConsumerGroups
from tidelog.coordinator.group.consumer.topics import Cluster
from tidelog.coordinator.group.offset_table import OffsetTable, PendingOffsets, committed_from
from tidelog.coordinator.shard import Shard
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition, id_text
from tidelog.wire.messages.groups.classic_group import JoinGroupResponse, SyncGroupResponse
from tidelog.wire.messages.groups.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey

Entropy = Callable[[int], bytes]
TimerKey = tuple[str, str, str]


def session_key(group_id: str, member_id: str) -> TimerKey:
    return ("session", group_id, member_id)


def join_key(group_id: str) -> TimerKey:
    return ("join", group_id, "")


def sync_key(group_id: str) -> TimerKey:
    return ("sync", group_id, "")


class GroupHooks(NamedTuple):
    """What the machine calls by itself: the first operations after loading, and the operation at the end of a
    session."""

    on_loaded: "Callable[[GroupMachine], Iterable[Run]]"
    on_session_expired: "Callable[[GroupMachine, ClassicGroup, str], Result]"


class GroupMachine:
    """The groups of one partition of `__consumer_offsets`. Its rules are functions in the modules next to it."""

    confirmation: Change | None = None

    def __init__(
        self,
        shard: Shard,
        config: BrokerConfig,
        entropy: Entropy,
        hooks: GroupHooks,
        cluster: Cluster,
        group_config: Callable[[str], GroupConfig],
    ) -> None:
        self.shard = shard
        self.config = config
        self.cluster = cluster
        self.group_config = group_config
        self._entropy = entropy
        self._hooks = hooks
        self.saved: dict[str, GroupMetadataValue] = {}
        self.offsets = OffsetTable()
        self.pending_offsets = PendingOffsets()
        self.groups: dict[str, ClassicGroup] = {}
        self.consumers = ConsumerGroups()

    def __repr__(self) -> str:
        return f"<GroupMachine {len(self.groups)} classic groups, {self.consumers!r} on {self.shard!r}>"

    # For the rules.

    @property
    def wall(self) -> int:
        return self.shard.now.wall

    def check_topics_known(self) -> None:
        """Raises ApiError COORDINATOR_LOAD_IN_PROGRESS while this broker's metadata may lack topics: a group must not
        get a new assignment only because a topic that it subscribes to is not known yet."""
        if not self.cluster.has_epoch_of(self.shard.partition, self.shard.epoch):
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def group(self, group_id: str) -> ClassicGroup:
        """Raises ApiError GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def is_visible(self, group: ClassicGroup) -> bool:
        """Whether readers may see the group: the record that created it is committed."""
        return group.created_offset is not None and group.created_offset < self.shard.high_watermark

    def create_group(self, group_id: str, created_offset: int | None = None) -> ClassicGroup:
        group = self.groups[group_id] = ClassicGroup(group_id, self.wall, created_offset)
        return group

    def remove_group(self, group: ClassicGroup, code: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE) -> None:
        """The group is deleted: cancel its timers and answer its waiting requests."""
        for member_id in [*group.members, *group.pending_members]:
            self.cancel_session(group, member_id)
        self.shard.cancel_timer(join_key(group.group_id))
        self.shard.cancel_timer(sync_key(group.group_id))
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]
        self.terminate_group(group, code)

    def terminate_group(self, group: ClassicGroup, code: ErrorCode) -> None:
        """Answer all waiting requests of the group with the code, and make the group dead."""
        for member in group.members.values():
            self.reply_join(member, join_error(member.member_id, code))
            self.reply_sync(member, sync_error(code))
        group.transition(ClassicGroupState.DEAD, self.wall)

    def reply_join(self, member: ClassicMember, response: JoinGroupResponse) -> bool:
        """Answer the member's waiting JoinGroup; returns whether there was one."""
        token, member.join_token = member.join_token, None
        if token is not None:
            self.shard.reply(token, response)
        return token is not None

    def reply_sync(self, member: ClassicMember, response: SyncGroupResponse) -> bool:
        """Answer the member's waiting SyncGroup; returns whether there was one."""
        token, member.sync_token = member.sync_token, None
        if token is not None:
            self.shard.reply(token, response)
        return token is not None

    def renew_session(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """The member sent a request: its session now ends after this time unless it sends another one."""
        expire = partial(self._hooks.on_session_expired, self, group, member_id)
        self.shard.set_timer(session_key(group.group_id, member_id), timeout_ms, expire)

    def cancel_session(self, group: ClassicGroup, member_id: str) -> None:
        self.shard.cancel_timer(session_key(group.group_id, member_id))

    def new_member_id(self, name: str) -> str:
        """The client's or the instance's name and a random UUID, the format of Kafka's member IDs."""
        raw = bytearray(self._entropy(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        text = raw.hex()
        return f"{name}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def new_uuid(self) -> str:
        """A member ID in the format of the consumer protocol."""
        return id_text(self._entropy(16))

    # For the shard.

    def encode(self, change: Change) -> tuple[bytes, bytes | None]:
        return records.encode(change)

    def decode(self, key: bytes, value: bytes | None) -> Change | None:
        return records.decode(key, value)

    def replay(self, offset: int, change: Change) -> None:
        if isinstance(change.key, OffsetCommitKey):
            self._replay_offset(offset, change)
        elif not isinstance(change.key, GroupMetadataKey):
            self._replay_consumer(offset, change)
        elif change.value is None:
            self._replay_group_tombstone(change.key.group)
        else:
            self._replay_group(offset, change.key.group, change.value)

    def _replay_offset(self, offset: int, change: Change) -> None:
        """A commit to an unknown group creates one without members: a simple consumer group."""
        key = change.key
        partition = TopicPartition(key.topic, key.partition)
        committed = None if change.value is None else committed_from(change.value, offset)
        self.offsets.set(key.group, partition, committed, offset)
        if committed is None:
            self.pending_offsets.drop(key.group, partition)
        else:
            self._ensure_group(key.group, offset)

    def _ensure_group(self, group_id: str, offset: int) -> None:
        if group_id not in self.groups and group_id not in self.consumers.newest:
            self.create_group(group_id, LOADED if self.shard.is_loading else offset)

    def replay_pending(self, offset: int, change: Change, producer_id: int) -> None:
        """Only offsets are committed in transactions; any other record takes effect at once."""
        if not isinstance(change.key, OffsetCommitKey) or change.value is None:
            self.replay(offset, change)
            return
        key = change.key
        where = TopicPartition(key.topic, key.partition)
        self.pending_offsets.add(producer_id, key.group, where, committed_from(change.value, offset))
        self._ensure_group(key.group, offset)

    def replay_end(self, offset: int, producer_id: int, *, committed: bool) -> None:
        """A commit makes the producer's offsets valid, unless a later offset was written in the meantime."""
        positions = self.pending_offsets.take(producer_id)
        if not committed:
            return
        for (group_id, partition), position in positions.items():
            newest = self.offsets.newest(group_id).get(partition)
            if newest is None or newest.record_offset < position.record_offset:
                self.offsets.set(group_id, partition, position, offset)

    def _replay_group_tombstone(self, group_id: str) -> None:
        self.saved.pop(group_id, None)
        group = self.groups.get(group_id)
        if group is not None:
            self.remove_group(group)

    def _replay_group(self, offset: int, group_id: str, value: GroupMetadataValue) -> None:
        self.saved[group_id] = value
        if self.shard.is_loading:
            self.groups[group_id] = records.group_from(group_id, value)
            return
        group = self.groups.get(group_id)
        if group is None:
            self._replay_downgraded_group(offset, group_id, value)
        elif group.created_offset is None:
            group.created_offset = offset

    def _replay_downgraded_group(self, offset: int, group_id: str, value: GroupMetadataValue) -> None:
        """A consumer group became a classic group."""
        group = self.groups[group_id] = records.group_from(group_id, value)
        group.created_offset = offset
        for member in group.members.values():
            self.renew_session(group, member.member_id, member.session_timeout_ms)

    def _replay_consumer(self, offset: int, change: Change) -> None:
        """Replaces a classic group that exists only because of a commit."""
        classic = self.groups.get(change.key.group_id)
        if classic is not None and change.value is not None:
            self.remove_group(classic)
        self.consumers.replay(offset, change)

    def commit(self, high_watermark: int) -> None:
        self.offsets.commit(high_watermark)
        self.consumers.commit(high_watermark)

    def loaded(self) -> Iterable[Run]:
        return self._hooks.on_loaded(self)

    def resigned(self) -> None:
        for group in self.groups.values():
            self.terminate_group(group, ErrorCode.NOT_COORDINATOR)

    def check_invariants(self) -> None:
        """Invariants between two inputs; raises AssertionError."""
        for group in self.groups.values():
            group.check_invariants()
        self.consumers.check_invariants()
        assert not self.groups.keys() & self.consumers.newest.keys()
        for group_id, saved in self.saved.items():
            assert self.groups[group_id].generation >= saved.generation, group_id
