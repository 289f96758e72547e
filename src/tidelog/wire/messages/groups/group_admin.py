"""Administration of groups.

- ListGroups (key 16): the groups that a broker coordinates.
- DescribeGroups (key 15): state and members of classic groups.
- DeleteGroups (key 42): deleting empty groups.
"""

from tidelog.wire.message import api, array, binary, boolean, int16, int32, message, string


@api(16)
class ListGroupsRequest:
    states_filter: list[str] = array(string, "4+")
    types_filter: list[str] = array(string, "5+")


@message
class ListedGroup:
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+")
    group_type: str = string("5+")


@api(16)
class ListGroupsResponse:
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)


@api(15)
class DescribeGroupsRequest:
    groups: list[str] = array(string)
    include_authorized_operations: bool = boolean("3+")


@message
class DescribedGroupMember:
    member_id: str = string()
    group_instance_id: str | None = string("4+", default=None, nullable="0+")
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = binary()
    member_assignment: bytes = binary()


@message
class DescribedGroup:
    error_code: int = int16()
    error_message: str | None = string("6+", default=None, nullable="0+")
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-2147483648)


@api(15)
class DescribeGroupsResponse:
    throttle_time_ms: int = int32("1+")
    groups: list[DescribedGroup] = array(DescribedGroup)


@api(42)
class DeleteGroupsRequest:
    groups_names: list[str] = array(string)


@message
class DeletableGroupResult:
    group_id: str = string()
    error_code: int = int16()


@api(42)
class DeleteGroupsResponse:
    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
