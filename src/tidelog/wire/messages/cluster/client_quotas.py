"""Quotas of clients and users.

- DescribeClientQuotas (key 48): the quotas of entities that match.
- AlterClientQuotas (key 49): setting and removing quotas.
"""

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
class DescribedEntry:
    entity: list[EntityData] = array(EntityData)
    values: list[ValueData] = array(ValueData)


@api(48)
class DescribeClientQuotasResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entries: list[DescribedEntry] | None = array(DescribedEntry, nullable="0+")


@message
class OpData:
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@message
class EntryData:
    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


@api(49)
class AlterClientQuotasRequest:
    entries: list[EntryData] = array(EntryData)
    validate_only: bool = boolean()


@message
class EntryDataResponse:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entity: list[EntityData] = array(EntityData)


@api(49)
class AlterClientQuotasResponse:
    throttle_time_ms: int = int32()
    entries: list[EntryDataResponse] = array(EntryDataResponse)
