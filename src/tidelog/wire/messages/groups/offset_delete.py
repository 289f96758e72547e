"""OffsetDelete (key 47): deleting committed positions."""

from tidelog.wire.message import api, array, int16, int32, message, string


@message
class OffsetDeleteRequestPartition:
    partition_index: int = int32()


@message
class OffsetDeleteRequestTopic:
    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@api(47)
class OffsetDeleteRequest:
    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@message
class OffsetDeleteResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()


@message
class OffsetDeleteResponseTopic:
    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@api(47)
class OffsetDeleteResponse:
    error_code: int = int16()
    throttle_time_ms: int = int32()
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
