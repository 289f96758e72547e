"""The records of `__consumer_offsets`, in Kafka's formats, so that Kafka's tools can read them.

A key begins with the type of its record (0 and 1: a committed offset, 2: a classic group, 3 to 8 and 16: the parts of a
consumer group), a value with its version. Kafka writes committed offsets in version 4 (1 if the request named a
retention time), groups in version 3, and the others in version 0.
"""

import struct
from typing import Any

from tidelog.coordinator.contract import Change
from tidelog.coordinator.group.classic.group import (
    LOADED,
    ClassicGroup,
    ClassicGroupState,
    ClassicMember,
    MemberProtocol,
)
from tidelog.coordinator.group.consumer.records import VALUES as CONSUMER_VALUES
from tidelog.errors import CorruptLog, ProtocolViolation
from tidelog.wire import codec
from tidelog.wire.messages.groups.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

NO_EXPIRY = -1
NO_TIME = -1

_TYPE = struct.Struct(">h")
_CONSUMER_KEYS: dict[int, type[Any]] = {cls.__key__: cls for cls in CONSUMER_VALUES}
_OFFSET_TYPES = (0, 1)
_GROUP_TYPE = 2
_OFFSET_VERSION = 4
_OFFSET_VERSION_WITH_EXPIRY = 1
_GROUP_VERSION = 3


def encode(change: Change) -> tuple[bytes, bytes | None]:
    """Key and value of the record."""
    if type(change.key) in CONSUMER_VALUES:
        key = _TYPE.pack(change.key.__key__) + codec.encode(change.key, 0)
        return key, None if change.value is None else _TYPE.pack(0) + codec.encode(change.value, 0)
    if isinstance(change.key, OffsetCommitKey):
        key = _TYPE.pack(_OFFSET_TYPES[-1]) + codec.encode(change.key, 0)
        return key, None if change.value is None else _offset_value(change.value)
    key = _TYPE.pack(_GROUP_TYPE) + codec.encode(change.key, 0)
    return key, None if change.value is None else _group_value(change.value)


def _offset_value(value: OffsetCommitValue) -> bytes:
    version = _OFFSET_VERSION if value.expire_timestamp == NO_EXPIRY else _OFFSET_VERSION_WITH_EXPIRY
    return _TYPE.pack(version) + codec.encode(value, version)


def _group_value(value: GroupMetadataValue) -> bytes:
    return _TYPE.pack(_GROUP_VERSION) + codec.encode(value, _GROUP_VERSION)


def decode(key: bytes, value: bytes | None) -> Change | None:
    """The change that a record describes; None for record types of other group protocols. Raises CorruptLog if it
    cannot be read."""
    try:
        kind = _TYPE.unpack_from(key)[0]
        if kind in _OFFSET_TYPES:
            return Change(codec.decode(OffsetCommitKey, 0, key[2:]), _value(OffsetCommitValue, value))
        if kind == _GROUP_TYPE:
            return Change(codec.decode(GroupMetadataKey, 0, key[2:]), _value(GroupMetadataValue, value))
        cls = _CONSUMER_KEYS.get(kind)
        if cls is not None:
            return Change(codec.decode(cls, 0, key[2:]), _value(CONSUMER_VALUES[cls], value))
    except (ProtocolViolation, struct.error) as error:
        raise CorruptLog(f"a record of the group topic cannot be read: {error}") from error
    return None


def _value(cls: type[object], value: bytes | None) -> object:
    return None if value is None else codec.decode(cls, _TYPE.unpack_from(value)[0], value[2:])


def group_change(group: ClassicGroup, assignments: dict[str, bytes]) -> Change:
    """The present state of the group, with these assignments. If the group has no leader, a coordinator that loads it
    starts a rebalance."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.state_timestamp,
        members=[_member_metadata(member, group.protocol, assignments) for member in group.members.values()],
    )
    return Change(GroupMetadataKey(group=group.group_id), value)


def new_group_change(group: ClassicGroup) -> Change:
    """A group that has no members yet."""
    value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=group.state_timestamp)
    return Change(GroupMetadataKey(group=group.group_id), value)


def _member_metadata(member: ClassicMember, protocol: str | None, assignments: dict[str, bytes]) -> MemberMetadata:
    assert protocol is not None, "a generation with members has a protocol"
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=assignments.get(member.member_id, b""),
    )


def group_tombstone(group_id: str) -> Change:
    return Change(GroupMetadataKey(group=group_id), None)


def offset_tombstone(group_id: str, topic: str, partition: int) -> Change:
    return Change(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def group_from(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group in the state that a failover restores: stable, or empty."""
    group = ClassicGroup(group_id, value.current_state_timestamp, LOADED)
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol = value.protocol
    for saved in value.members:
        group.add(_member_from(value, saved))
    if value.leader in group.members:
        group.leader = value.leader
    group.has_no_leader_on_record = value.leader is None and bool(group.members)
    group.state = ClassicGroupState.STABLE if group.members else ClassicGroupState.EMPTY
    group.update_subscribed_topics()
    return group


def _member_from(value: GroupMetadataValue, saved: MemberMetadata) -> ClassicMember:
    return ClassicMember(
        member_id=saved.member_id,
        instance_id=saved.group_instance_id,
        client_id=saved.client_id,
        client_host=saved.client_host,
        rebalance_timeout_ms=saved.session_timeout if saved.rebalance_timeout == -1 else saved.rebalance_timeout,
        session_timeout_ms=saved.session_timeout,
        protocol_type=value.protocol_type,
        protocols=[MemberProtocol(value.protocol or "", saved.subscription)],
        assignment=saved.assignment,
    )
