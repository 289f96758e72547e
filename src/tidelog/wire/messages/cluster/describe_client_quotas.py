"""DescribeClientQuotas (key 48): quotas of clients and users."""

from tidelog.wire.message import api, array, boolean, float64, int8, int16, int32, message, string


@message
class ComponentData:
    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable="0+")


@api(48)
class DescribeClientQuotasRequest:
    components: list[ComponentData] = array(ComponentData)
    strict: bool = boolean()


@message
class EntityData:
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@message
class ValueData:
    key: str = string()
    value: float = float64()


@message
class EntryData:
    entity: list[EntityData] = array(EntityData)
    values: list[ValueData] = array(ValueData)


@api(48)
class DescribeClientQuotasResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entries: list[EntryData] | None = array(EntryData, nullable="0+")
