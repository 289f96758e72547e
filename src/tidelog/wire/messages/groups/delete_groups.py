"""DeleteGroups (key 42): deleting empty groups."""

from tidelog.wire.message import api, array, int16, int32, message, string


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
