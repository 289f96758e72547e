"""MetadataWrite (10001): changes of the metadata tree for the quorum's leader. Not an API of Kafka's."""

from tidelog.wire.message import api, array, binary, int16, int32, string


@api(10001)
class MetadataWriteRequest:
    """`values` are records of the metadata log, in the order in which they are to be appended."""

    cluster_id: str = string()
    node_id: int = int32()
    leader_epoch: int = int32()
    values: list[bytes] = array(binary)


@api(10001)
class MetadataWriteResponse:
    """NONE: appended, and committed unless the leader loses its office. What each change did is decided when it is
    applied, on every node."""

    error_code: int = int16()
