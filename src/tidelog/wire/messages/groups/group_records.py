"""Records of `__consumer_offsets` for committed positions and classic groups."""

from tidelog.wire.message import array, binary, data, int32, int64, message, string, uuid


@data("0", record=1)
class OffsetCommitKey:
    group: str = string()
    topic: str = string()
    partition: int = int32()


@data("0-4", flexible="4+")
class OffsetCommitValue:
    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1)
    topic_id: bytes = uuid("4+", tag=0)


@data("0", record=2)
class GroupMetadataKey:
    group: str = string()


@message
class MemberMetadata:
    member_id: str = string()
    group_instance_id: str | None = string("3+", default=None, nullable="0+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1)
    session_timeout: int = int32()
    subscription: bytes = binary()
    assignment: bytes = binary()


@data("0-4", flexible="4+")
class GroupMetadataValue:
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1)
    members: list[MemberMetadata] = array(MemberMetadata)
