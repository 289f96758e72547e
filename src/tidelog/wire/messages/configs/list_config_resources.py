"""ListConfigResources (key 74): the resources that have options."""

from tidelog.wire.message import api, array, int8, int16, int32, message, string


@api(74)
class ListConfigResourcesRequest:
    resource_types: list[int] = array(int8, "1+")


@message
class ConfigResource:
    resource_name: str = string()
    resource_type: int = int8("1+", default=16)


@api(74)
class ListConfigResourcesResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
