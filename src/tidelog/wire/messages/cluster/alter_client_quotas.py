"""AlterClientQuotas (key 49): changing quotas."""

from tidelog.wire.message import api, array, boolean, float64, int16, int32, message, string


@message
class EntityData:
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


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
class EntityDataResponse:
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@message
class EntryDataResponse:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entity: list[EntityDataResponse] = array(EntityDataResponse)


@api(49)
class AlterClientQuotasResponse:
    throttle_time_ms: int = int32()
    entries: list[EntryDataResponse] = array(EntryDataResponse)
