"""CreateAcls (key 30): adding access rules."""

from tidelog.wire.message import api, array, int8, int16, int32, message, string


@message
class AclCreation:
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@api(30)
class CreateAclsRequest:
    creations: list[AclCreation] = array(AclCreation)


@message
class AclCreationResult:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@api(30)
class CreateAclsResponse:
    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)
