"""ListGroups (key 16): the groups that a broker coordinates."""

from tidelog.wire.message import api, array, int16, int32, message, string


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
