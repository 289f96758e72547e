"""DescribeClientQuotas (48): the quotas whose entities match every component of a filter (KIP-546, 612)."""

from collections.abc import Mapping

from tidelog.api.context import Context
from tidelog.config.quotas import CLIENT_ID, IP, USER, Entity, Match
from tidelog.errors import ApiError, ErrorCode
from tidelog.slices import Sliced, made_of
from tidelog.wire.messages.cluster.client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribedEntry,
    EntityData,
    ValueData,
)

_KINDS = (USER, CLIENT_ID, IP)


def handle(request: DescribeClientQuotasRequest, context: Context) -> Sliced[DescribeClientQuotasResponse]:
    try:
        _check(request.components)
    except ApiError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    configs = context.broker.configs
    entries = yield from made_of(configs.entities(), lambda path: _entry(configs.quota(path), request))
    return DescribeClientQuotasResponse(entries=entries)


def _entry(
    found: tuple[Entity, Mapping[str, float]] | None, request: DescribeClientQuotasRequest
) -> DescribedEntry | None:
    """None if the entity has no quotas, or is not wanted."""
    if found is None or not found[1] or not _matches(found[0], request):
        return None
    entity, values = found
    return DescribedEntry(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        values=[ValueData(key=name, value=value) for name, value in sorted(values.items())],
    )


def _check(components: list[ComponentData]) -> None:
    kinds = [component.entity_type for component in components]
    for number, component in enumerate(components):
        kind, match_type = component.entity_type, component.match_type
        if not kind:
            raise ApiError(ErrorCode.INVALID_REQUEST, "A filter component needs an entity type.")
        if kind in kinds[:number]:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Entity type {kind} appears more than once in the filter.")
        if kind not in _KINDS:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION, f"Unknown entity type {kind!r}; expected user, client-id or ip."
            )
        if match_type not in set(Match):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown match type {match_type}.")
        if (component.match is None) is (match_type == Match.EXACT):
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "An exact match needs a name; other match types must not have one."
            )
    if IP in kinds and len(kinds) > 1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "IP entities cannot be combined with users or client IDs in one filter."
        )


def _matches(entity: Entity, request: DescribeClientQuotasRequest) -> bool:
    if request.strict and len(entity) != len(request.components):
        return False
    return all(
        component.entity_type in entity
        and (component.match_type == Match.ANY or entity[component.entity_type] == component.match)
        for component in request.components
    )
