"""Which list of a response answers which list of its request, and the response to a request that is refused.

The code stands at the top of a response, in each of its entries, or in both. `refuse` fills it in everywhere. An API
whose request has entries can also be refused for some of them: the response to those is added to that for the others
(`Entries.answers`).
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tidelog.errors import ErrorCode
from tidelog.wire.message import fields, key_of
from tidelog.wire.messages import SCHEMAS

ITSELF = ""
"""Of an entry that is a name or a number."""


class Entries(NamedTuple):
    """`requested` and `answers` are the fields with the lists; `dirs.topics` are the topics of all dirs. `named` are
    pairs of a field of a requested entry and the field of its answer with the same content; `fixed` are fields that a
    refusal sets beside the code."""

    requested: str
    answers: str
    named: tuple[tuple[str, str], ...]
    inner: "Entries | None" = None
    code: str = "error_code"
    fixed: tuple[tuple[str, Any], ...] = ()


def entries_of(requested: str, answers: str, *names: str, inner: Entries | None = None, **more: Any) -> Entries:
    """A name is that of the field in both, or `ours=theirs`."""
    pairs = tuple((name.partition("=")[0], name.partition("=")[2] or name) for name in names)
    return Entries(requested, answers, pairs, inner, **more)


def numbers_of(requested: str = "partitions", answers: str = "partitions", name: str = "partition_index") -> Entries:
    """Partitions that are requested by their numbers alone."""
    return entries_of(requested, answers, f"{ITSELF}={name}")


_OFFSETS = entries_of("partitions", "partitions", "partition_index")
_RESOURCES = entries_of("resources", "responses", "resource_type", "resource_name")
_TRANSACTION = entries_of(
    "topics",
    "topic_results",
    "name",
    inner=entries_of("partitions", "results_by_partition", f"{ITSELF}=partition_index", code="partition_error_code"),
)

ENTRIES: dict[int, tuple[Entries, ...]] = {
    0: (
        entries_of(
            "topic_data",
            "responses",
            "name",
            "topic_id",
            inner=entries_of("partition_data", "partition_responses", "index", fixed=(("base_offset", -1),)),
        ),
    ),
    1: (
        entries_of(
            "topics",
            "responses",
            "topic",
            "topic_id",
            inner=entries_of(
                "partitions",
                "partitions",
                "partition=partition_index",
                fixed=(("high_watermark", -1), ("records", b"")),  # librdkafka rejects null
            ),
        ),
    ),
    2: (entries_of("topics", "topics", "name", inner=_OFFSETS),),
    8: (entries_of("topics", "topics", "name", "topic_id", inner=_OFFSETS),),
    10: (
        entries_of(
            "coordinator_keys",
            "coordinators",
            f"{ITSELF}=key",
            fixed=(("node_id", -1), ("port", -1)),
        ),
    ),
    15: (entries_of("groups", "groups", f"{ITSELF}=group_id"),),
    19: (entries_of("topics", "topics", "name"),),
    20: (
        entries_of("topics", "responses", "name", "topic_id"),
        entries_of("topic_names", "responses", f"{ITSELF}=name"),
    ),
    21: (
        entries_of(
            "topics",
            "topics",
            "name",
            inner=entries_of("partitions", "partitions", "partition_index", fixed=(("low_watermark", -1),)),
        ),
    ),
    23: (entries_of("topics", "topics", "topic", inner=entries_of("partitions", "partitions", "partition")),),
    24: (
        entries_of("transactions", "results_by_transaction", "transactional_id", inner=_TRANSACTION),
        _TRANSACTION._replace(requested="v3_and_below_topics", answers="results_by_topic_v3_and_below"),
    ),
    27: (
        entries_of(
            "markers",
            "markers",
            "producer_id",
            inner=entries_of("topics", "topics", "name", inner=numbers_of("partition_indexes")),
        ),
    ),
    28: (entries_of("topics", "topics", "name", inner=_OFFSETS),),
    30: (entries_of("creations", "results"),),
    31: (entries_of("filters", "filter_results"),),
    32: (entries_of("resources", "results", "resource_type", "resource_name"),),
    33: (_RESOURCES,),
    34: (entries_of("dirs.topics", "results", "name=topic_name", inner=numbers_of()),),
    37: (entries_of("topics", "results", "name"),),
    42: (entries_of("groups_names", "results", f"{ITSELF}=group_id"),),
    43: (
        entries_of(
            "topic_partitions",
            "replica_election_results",
            "topic",
            inner=numbers_of("partitions", "partition_result", "partition_id"),
        ),
    ),
    44: (_RESOURCES,),
    45: (entries_of("topics", "responses", "name", inner=_OFFSETS),),
    47: (entries_of("topics", "topics", "name", inner=_OFFSETS),),
    49: (entries_of("entries", "entries", inner=entries_of("entity", "entity", "entity_type", "entity_name")),),
    50: (entries_of("users", "results"),),
    51: (
        entries_of("deletions", "results", "name=user"),
        entries_of("upsertions", "results", "name=user"),
    ),
    61: (entries_of("topics", "topics", "name", inner=numbers_of("partition_indexes")),),
    65: (entries_of("transactional_ids", "transaction_states", f"{ITSELF}=transactional_id"),),
    69: (entries_of("group_ids", "groups", f"{ITSELF}=group_id"),),
    75: (entries_of("topics", "topics", "name"),),
}
"""By API key. What is missing has its code at the top only, or is refused by its handler."""

_FIXED: dict[int, dict[str, Any]] = {10: {"node_id": -1, "port": -1}, 22: {"producer_id": -1, "producer_epoch": -1}}
"""Fields at the top that a refusal sets beside the code."""


def refuse(request: Any, code: ErrorCode, message: str | None = None) -> Any:
    """The response to the request with this code wherever a code can be."""
    key = key_of(request)
    response = SCHEMAS[key].response(**_FIXED.get(key, {}))
    _set_code(response, "error_code", code, message)
    for entries in ENTRIES.get(key, ()):
        getattr(response, entries.answers).extend(refused(request, entries, code, message))
    return response


def refused(request: Any, entries: Entries, code: ErrorCode, message: str | None = None) -> list[Any]:
    """The answers to the entries of this request, or of this entry of one."""
    answer = _element(SCHEMAS[key_of(request)].response, entries.answers)
    return [_refused(each, entries, answer, code, message) for each in _requested(request, entries)]


def _requested(request: Any, entries: Entries) -> Sequence[Any]:
    found: Sequence[Any] = (request,)
    for field in entries.requested.split("."):
        found = [each for parent in found for each in getattr(parent, field) or ()]
    return found


def _refused(requested: Any, entries: Entries, answer: type[Any], code: ErrorCode, message: str | None) -> Any:
    made = answer(
        **{theirs: getattr(requested, ours) if ours else requested for ours, theirs in entries.named},
        **dict(entries.fixed),
    )
    _set_code(made, entries.code, code, message)
    inner = entries.inner
    if inner is not None:
        element = _element(answer, inner.answers)
        found = [_refused(each, inner, element, code, message) for each in getattr(requested, inner.requested)]
        setattr(made, inner.answers, found)
    return made


def _set_code(answer: Any, field: str, code: ErrorCode, message: str | None) -> None:
    if hasattr(answer, field):
        setattr(answer, field, code)
    if hasattr(answer, "error_message"):
        answer.error_message = message


def _element(of: type[Any], name: str) -> type[Any]:
    """The class of the entries in this list."""
    found: type[Any] = next(field.element for field in fields(of) if field.name == name)
    return found


def codes_in(answer: Any) -> Iterator[int]:
    """Every code in a response, at any depth."""
    for field in fields(answer):
        value = getattr(answer, field.name)
        if field.name in ("error_code", "partition_error_code"):
            yield value
        elif isinstance(value, list) and isinstance(field.element, type):
            for each in value:
                yield from codes_in(each)


def is_from_no_controller(response: Any) -> bool:
    """Whether the request came to a broker that is not the controller (any more): it may be retried."""
    parts = (
        getattr(response, name, None) or () for name in ("topics", "results", "filter_results", "responses", "entries")
    )
    codes = {getattr(response, "error_code", 0), *(getattr(part, "error_code", 0) for found in parts for part in found)}
    return ErrorCode.NOT_CONTROLLER in codes
