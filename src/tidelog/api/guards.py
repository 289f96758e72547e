"""How a request is refused as a whole, or for some of its entries: what the guards of all APIs are made of.

A guard looks at the request and gives a `Verdict`: the request may be served as it is (None), it is refused as a whole,
or it is served for a part of what it names, and its answer is completed with the refusals of the rest. Guards use
`wire.refusals`, which lists for each list of a request the list of the response that answers it.
"""

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, NamedTuple

from tidelog.api.context import Access, Context, Finish
from tidelog.errors import ErrorCode
from tidelog.model import NO_ID
from tidelog.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.slices import Sliced, ended
from tidelog.wire.message import key_of
from tidelog.wire.refusals import ENTRIES, Entries, refuse, refused

REFUSED_WITH = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
NO_IDS = 32_767
"""More than any version."""


class Verdict(NamedTuple):
    """`refusal` is the answer; or `request` is what may be served, and `finish` completes the answer to it."""

    refusal: Any = None
    request: Any = None
    finish: Finish | None = None


def in_turn(first: Finish, second: Finish | None) -> Finish:
    """Both, each of which may take slices."""

    def finish(response: Any) -> Sliced[None]:
        yield from ended(first(response))
        if second is not None:
            yield from ended(second(response))

    return finish


class Caller:
    """A request's context, and what its principal may do."""

    __slots__ = ("access", "api", "context")

    def __init__(self, context: Context, access: Access, api: str) -> None:
        self.context = context
        self.access = access
        self.api = api

    def may(self, operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
        return self.access.allows(operation, resource_type, name, self.api)

    def sees(self, operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """As `may`, for what only filters an answer: a denial is nothing to log."""
        return self.access.allows(operation, resource_type, name)

    def topic(self, name: str | None, topic_id: bytes, ids_since: int = NO_IDS) -> str | None:
        """The topic's name; None for an id that is not known here: the handler refuses it. From version `ids_since` on
        there are only ids."""
        if topic_id != NO_ID:
            return self.context.broker.topic_name(topic_id)
        return name if self.context.version < ids_since else None


Guard = Callable[[Any, Caller], Verdict | None]
Test = Callable[[Any, Caller], ErrorCode]
"""The code with which an entry is refused, or NONE."""


def whole(*needs: tuple[AclOperation, ResourceType, str]) -> Guard:
    """Each need is an operation on the resource that this field of the request names; "" is the cluster."""

    def guard(request: Any, caller: Caller) -> Verdict | None:
        for operation, resource_type, field in needs:
            if not caller.may(operation, resource_type, getattr(request, field) if field else CLUSTER_NAME):
                return Verdict(refuse(request, REFUSED_WITH[resource_type]))
        return None

    return guard


def each_entry(test: Test, message: str | None = None) -> Guard:
    """Every entry of the request's lists passes the test, or is refused."""

    def guard(request: Any, caller: Caller) -> Verdict | None:
        return split(request, [test(entry, caller) for entry in listed(request)], message)

    return guard


def both(*guards: Guard) -> Guard:
    """The first that objects decides; all but the last refuse as a whole."""

    def guard(request: Any, caller: Caller) -> Verdict | None:
        return next((verdict for each in guards if (verdict := each(request, caller)) is not None), None)

    return guard


def listed(request: Any) -> list[Any]:
    return [entry for entries in ENTRIES[key_of(request)] for entry in getattr(request, entries.requested) or ()]


def split(request: Any, codes: list[ErrorCode], message: str | None = None) -> Verdict | None:
    """`codes` are those of `listed`, in its order."""
    if not any(codes):
        return None
    allowed = copy(request)
    refusals: list[tuple[Entries, list[Any]]] = []
    left = iter(codes)
    for entries in ENTRIES[key_of(request)]:
        requested = getattr(request, entries.requested)
        if not requested:
            continue
        judged = list(zip(requested, left, strict=False))
        setattr(allowed, entries.requested, [entry for entry, code in judged if not code])
        for code in dict.fromkeys(code for _, code in judged if code):
            part = copy(request)
            setattr(part, entries.requested, [entry for entry, its in judged if its == code])
            refusals.append((entries, refused(part, entries, code, message)))
    if all(codes):
        response = refuse(allowed, ErrorCode.NONE)
        _complete(refusals, response)
        return Verdict(response)
    return Verdict(request=allowed, finish=partial(_complete, refusals))


def _complete(refusals: list[tuple[Entries, list[Any]]], response: Any) -> None:
    for entries, answers in refusals:
        getattr(response, entries.answers).extend(answers)


def emptied(request: Any, field: str) -> Any:
    """Without the entries of this list, which the refusal as a whole does not answer."""
    emptied = copy(request)
    setattr(emptied, field, [])
    return emptied


def named(operation: AclOperation, resource_type: ResourceType, field: str = "name") -> Test:
    """The entry's field names a resource; "" where the entry is the name."""
    code = REFUSED_WITH[resource_type]

    def test(entry: Any, caller: Caller) -> ErrorCode:
        name = getattr(entry, field) if field else entry
        return ErrorCode.NONE if caller.may(operation, resource_type, name) else code

    return test


def of_topic(operation: AclOperation, ids_since: int) -> Test:
    """The entry is a topic by its name, from this version on by its id."""

    def test(entry: Any, caller: Caller) -> ErrorCode:
        name = caller.topic(entry.name, entry.topic_id, ids_since)
        allowed = name is None or caller.may(operation, ResourceType.TOPIC, name)
        return ErrorCode.NONE if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED

    return test


def on_cluster(operation: AclOperation) -> Guard:
    return whole((operation, ResourceType.CLUSTER, ""))


def of_group(operation: AclOperation) -> Guard:
    return whole((operation, ResourceType.GROUP, "group_id"))
