"""Client quotas changed (AlterClientQuotas, KIP-546): checked by `config.quotas`, written where Kafka had them.

Entities are answered one by one, each once; one that is refused keeps no other from changing.
"""

from collections import Counter
from collections.abc import Iterable

from tidelog.config import quotas
from tidelog.controller.commands.configs import Alteration, Current, carry_out
from tidelog.controller.commands.elections import LogEnds
from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.journal import Steps
from tidelog.errors import ApiError, ErrorCode
from tidelog.wire.messages.cluster.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityDataResponse,
    EntryData,
    EntryDataResponse,
    OpData,
)

ENTITY = 0
"""An entity of quotas is no resource with a number of its own."""


def alter_quotas(
    term: ControllerTerm, logs: LogEnds, request: AlterClientQuotasRequest
) -> Steps[AlterClientQuotasResponse]:
    named = [(tuple(sorted(_entity(entry).items(), key=lambda part: part[0])), entry) for entry in request.entries]
    counted = Counter(name for name, _ in named)
    done = {name: _judge(term, dict(name), entry.ops, counted[name]) for name, entry in named}
    yield from carry_out(term, logs, list(done.values()), validate_only=request.validate_only)
    return AlterClientQuotasResponse(
        entries=[
            EntryDataResponse(
                error_code=each.code,
                error_message=each.message,
                entity=[EntityDataResponse(entity_type=kind, entity_name=word) for kind, word in name],
            )
            for name, each in done.items()
        ]
    )


def _entity(entry: EntryData) -> dict[str, str | None]:
    return {part.entity_type: part.entity_name for part in entry.entity}


def _judge(term: ControllerTerm, entity: quotas.Entity, ops: Iterable[OpData], times: int) -> Alteration:
    try:
        allowed = quotas.check_entity(entity)
        if times > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, "An entity may be named once in a request.")
        place = quotas.place(entity)
        return Alteration(ENTITY, "", place, _altered(term.cluster.configs.get(place, {}), list(ops), allowed))
    except ApiError as error:
        return Alteration(ENTITY, "", error=error)


def _altered(current: Current, ops: list[OpData], allowed: quotas.Allowed) -> Current:
    if len({op.key for op in ops}) < len(ops):
        raise ApiError(ErrorCode.INVALID_REQUEST, "A quota may be named once for an entity.")
    altered = dict(current)
    for op in ops:
        if op.remove:
            altered.pop(op.key, None)
        else:
            quotas.check_value(allowed, op.key, op.value)
            altered[op.key] = quotas.show(op.key, op.value)
    return altered
