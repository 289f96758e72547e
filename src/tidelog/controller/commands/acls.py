"""ACLs described, created and deleted (APIs 29 to 31). What is stored decides, not an image of it: changes are rare,
and Kafka 3's tool may write beside this controller.

A resource that changes is written together with the notification that makes every broker read it again. A malformed
node counts as no ACLs here: creating an ACL for its resource replaces it.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

from tidelog.controller import acl_tree, tree
from tidelog.controller.controller_term import LOUD, ControllerTerm
from tidelog.controller.journal import CHUNK, Group, Slices, Steps, read_all
from tidelog.errors import ErrorCode
from tidelog.ports import Children, Create, Delete, Node, Operation, Read, Write
from tidelog.security.acls import (
    CLUSTER_NAME,
    Acl,
    AclOperation,
    Binding,
    BindingFilter,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tidelog.wire.messages.security.acls import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from tidelog.wire.refusals import refuse

Number = TypeVar("Number", bound=IntEnum)

NOTIFICATIONS = 100
"""Notifications of each kind that are kept; older ones go when new ones come."""
MOST_BYTES = 512 * 1024
"""Of one resource's ACLs, and of one multi: ZooKeeper limits the size of a message (jute.maxbuffer)."""


class Stored(NamedTuple):
    """The ACLs of one resource, and their node if there is one."""

    node: Node | None
    acls: tuple[Acl, ...]


Changed = Mapping[ResourcePattern, tuple[Stored, tuple[Acl, ...]]]
"""Resources as they are stored, and the ACLs that they shall have."""


# Requests.


def describe_acls(request: DescribeAclsRequest) -> Steps[DescribeAclsResponse]:
    wanted = _filter(request)
    slices = Slices()
    patterns = []
    for pattern in (yield from _candidates([wanted])):
        yield from slices.count()
        if wanted.matches_pattern(pattern):
            patterns.append(pattern)
    stored = yield from _read(patterns)
    response = DescribeAclsResponse()
    for pattern, (_, acls) in stored.items():
        yield from slices.count(1 + len(acls))
        found = [acl for acl in acls if wanted.matches(Binding(pattern, acl))]
        if found:
            response.resources.append(_description(pattern, found))
    return response


def _description(pattern: ResourcePattern, acls: Iterable[Acl]) -> DescribeAclsResource:
    return DescribeAclsResource(
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        acls=[
            AclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
            )
            for acl in acls
        ],
    )


def create_acls(term: ControllerTerm, request: CreateAclsRequest) -> Steps[CreateAclsResponse]:
    """Valid ones are created, whatever the others are; but nothing is, as in Kafka, if one says ANY or MATCH."""
    slices = Slices()
    bindings = []
    for creation in request.creations:
        yield from slices.count()
        bindings.append(_binding(creation))
    if not all(_is_specific(binding) for binding in bindings):
        refusal: CreateAclsResponse = refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR)
        return refusal
    faults = {binding: _fault(binding) for binding in bindings}
    added: dict[ResourcePattern, list[Acl]] = {}
    for (pattern, acl), fault in faults.items():
        if fault is None:
            added.setdefault(pattern, []).append(acl)
    stored = yield from _read(added)
    changed = {}
    for pattern, before in stored.items():
        yield from slices.count()
        after = tuple(dict.fromkeys((*before.acls, *added[pattern])))
        if len(acl_tree.format_acls(after)) > MOST_BYTES:
            faults |= {Binding(pattern, acl): f"The ACLs of {pattern} are too many" for acl in added[pattern]}
        elif after != before.acls:
            changed[pattern] = before, after
    yield from _write(term, changed)
    return CreateAclsResponse(results=[_result(faults[binding]) for binding in bindings])


def _result(fault: str | None) -> AclCreationResult:
    if fault is None:
        return AclCreationResult()
    return AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message=fault)


def delete_acls(term: ControllerTerm, request: DeleteAclsRequest) -> Steps[DeleteAclsResponse]:
    """A rule that several filters match is returned for each."""
    filters = [_filter(each) for each in request.filters]
    stored = yield from _read((yield from _candidates(filters)))
    slices = Slices()
    matching: dict[BindingFilter, list[Binding]] = {}
    for each in dict.fromkeys(each for each in filters if _is_known(each)):
        found = matching[each] = []
        named = _named(each)
        for pattern in stored if named is None else (named,):
            yield from slices.count(1 + len(stored[pattern].acls))
            found += [binding for acl in stored[pattern].acls if each.matches(binding := Binding(pattern, acl))]
    deleted: dict[ResourcePattern, set[Acl]] = {}
    for found in matching.values():
        for pattern, acl in found:
            yield from slices.count()
            deleted.setdefault(pattern, set()).add(acl)
    changed = {}
    for pattern, acls in deleted.items():
        yield from slices.count(1 + len(acls))
        before = stored[pattern]
        changed[pattern] = before, tuple(acl for acl in before.acls if acl not in acls)
    yield from _write(term, changed)
    response = DeleteAclsResponse()
    for each in filters:
        if each not in matching:
            result = DeleteAclsFilterResult(error_code=ErrorCode.INVALID_REQUEST, error_message="Unknown filter.")
        else:
            result = DeleteAclsFilterResult()
            for binding in matching[each]:
                yield from slices.count()
                result.matching_acls.append(_matching(binding))
        response.filter_results.append(result)
    return response


def _matching(binding: Binding) -> DeleteAclsMatchingAcl:
    (resource_type, name, pattern_type), (principal, host, operation, permission) = binding
    return DeleteAclsMatchingAcl(
        resource_type=resource_type,
        resource_name=name,
        pattern_type=pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


# What they name.


def _filter(named: DescribeAclsRequest | DeleteAclsFilter) -> BindingFilter:
    return BindingFilter(
        _known(ResourceType, named.resource_type_filter),
        named.resource_name_filter,
        _known(PatternType, named.pattern_type_filter),
        named.principal_filter,
        named.host_filter,
        _known(AclOperation, named.operation),
        _known(Permission, named.permission_type),
    )


def _known(kind: type[Number], number: int) -> Number:
    """UNKNOWN for a number that means nothing."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)


def _is_known(wanted: BindingFilter) -> bool:
    return 0 not in (wanted.resource_type, wanted.pattern_type, wanted.operation, wanted.permission)


def _binding(creation: AclCreation) -> Binding:
    resource_type, pattern_type = creation.resource_type, creation.resource_pattern_type
    pattern = ResourcePattern(
        _known(ResourceType, resource_type), creation.resource_name, _known(PatternType, pattern_type)
    )
    operation, permission = creation.operation, creation.permission_type
    acl = Acl(creation.principal, creation.host, _known(AclOperation, operation), _known(Permission, permission))
    return Binding(pattern, acl)


def _is_specific(binding: Binding) -> bool:
    pattern, acl = binding
    return (
        pattern.resource_type != ResourceType.ANY
        and pattern.pattern_type not in (PatternType.ANY, PatternType.MATCH)
        and acl.operation != AclOperation.ANY
        and acl.permission != Permission.ANY
    )


def _fault(binding: Binding) -> str | None:
    """Kafka's words. It checks neither hosts nor the names of topics, nor which operations a resource has."""
    pattern, acl = binding
    if pattern.resource_type == ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not pattern.name:
        return "Invalid empty resource name"
    numbers = (pattern.resource_type, pattern.pattern_type, acl.operation, acl.permission)
    for what, number in zip(("resourceType", "patternType", "operation", "permissionType"), numbers, strict=True):
        if number == 0:
            return f"Invalid {what} UNKNOWN"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    return None


# The store.


def _candidates(filters: Sequence[BindingFilter]) -> Steps[Iterable[ResourcePattern]]:
    """The resources that the filters can match: those named, or all there are."""
    named = dict.fromkeys(_named(each) for each in filters)
    found = {pattern: None for pattern in named if pattern is not None}
    if None not in named:
        return found
    lists = yield [Children(acl_tree.type_path(*place)) for place in acl_tree.PLACES]
    slices = Slices()
    every: dict[ResourcePattern, None] = {}
    for pattern in acl_tree.patterns_at(acl_tree.PLACES, lists):
        yield from slices.count()
        every[pattern] = None
    return every | found


def _named(each: BindingFilter) -> ResourcePattern | None:
    """The one resource that the filter can match, if it names one."""
    if not each.name or each.pattern_type not in acl_tree.ROOTS or each.resource_type == ResourceType.ANY:
        return None
    return ResourcePattern(each.resource_type, each.name, each.pattern_type)


def _read(patterns: Iterable[ResourcePattern]) -> Steps[dict[ResourcePattern, Stored]]:
    listed = list(patterns)
    slices = Slices()
    queries = []
    for pattern in listed:
        yield from slices.count()
        queries.append(Read(acl_tree.pattern_path(pattern)))
    nodes = yield from read_all(queries)
    found: dict[ResourcePattern, Stored] = {}
    for pattern, node in zip(listed, nodes, strict=True):
        found[pattern] = Stored(node, _acls(node))
        yield from slices.count(1 + len(found[pattern].acls))
    return found


def _acls(node: Any) -> tuple[Acl, ...]:
    if not isinstance(node, Node):
        return ()
    try:
        return acl_tree.parse_acls(node.data)
    except tree.UNREADABLE:
        return ()


def _write(term: ControllerTerm, changed: Changed) -> Steps[None]:
    """Write these resources, each with its notification, and forget the oldest notifications."""
    if not changed:
        return
    skeleton = acl_tree.skeleton()
    *nodes, literal, prefixed = yield [
        *(Read(path) for path in skeleton),
        *(Children(acl_tree.CHANGES[each]) for each in (PatternType.LITERAL, PatternType.PREFIXED)),
    ]
    yield [Create(path) for path, node in zip(skeleton, nodes, strict=True) if node is None]
    numbers = {
        PatternType.LITERAL: acl_tree.change_numbers(literal or ()),
        PatternType.PREFIXED: acl_tree.change_numbers(prefixed or ()),
    }
    groups: list[Group] = []
    slices = Slices()
    for pattern, (stored, acls) in changed.items():
        yield from slices.count()
        known = numbers[pattern.pattern_type]
        known.append(known[-1] + 1 if known else 0)
        notification = Create(acl_tree.change_path(pattern.pattern_type, known[-1]), acl_tree.format_change(pattern))
        groups.append([_change(pattern, stored.node, acls), notification])
    for pattern_type, known in numbers.items():
        groups += [[Delete(acl_tree.change_path(pattern_type, old))] for old in known[:-NOTIFICATIONS]]
    for part in _parts(groups):
        _ = yield part
    if len(changed) > LOUD:
        term.report("acls.changed", resources=len(changed))
        return
    for pattern, (_, acls) in changed.items():
        term.report("acls.changed", resource=str(pattern), count=len(acls))


def _change(pattern: ResourcePattern, node: Node | None, acls: tuple[Acl, ...]) -> Write | Create | Delete:
    path = acl_tree.pattern_path(pattern)
    if not acls:
        assert node is not None, "what has no ACLs has no node"
        return Delete(path, node.version)
    data = acl_tree.format_acls(acls)
    return Create(path, data) if node is None else Write(path, data, node.version)


def _parts(groups: Iterable[Group]) -> Iterable[Sequence[Operation]]:
    """The groups in order, as many to one multi as its limits allow; none is split."""
    part: list[Operation] = []
    size = 0
    for group in groups:
        own = sum(len(each.path) + len(getattr(each, "data", b"")) for each in group)
        if part and (len(part) + len(group) > CHUNK or size + own > MOST_BYTES):
            yield part
            part, size = [], 0
        part += group
        size += own
    if part:
        yield part
