"""What `tidelog acls` does, and prints as kafka-acls does."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click

from tidelog.cli.options import CommandFailed, usage_error
from tidelog.client.admin import ANY
from tidelog.client.results import code_of
from tidelog.errors import ApiError, ErrorCode
from tidelog.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclOperation,
    Binding,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tidelog.shell.transport import Admin
from tidelog.wire.messages.security.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)

READ, WRITE, CREATE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DESCRIBE
_OF_CONFIGS = (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
SUPPORTED: Mapping[ResourceType, Sequence[AclOperation]] = {
    ResourceType.TOPIC: (READ, WRITE, CREATE, AclOperation.DELETE, AclOperation.ALTER, DESCRIBE, *_OF_CONFIGS),
    ResourceType.GROUP: (READ, AclOperation.DELETE, DESCRIBE, *_OF_CONFIGS),
    ResourceType.CLUSTER: (
        *(CREATE, AclOperation.ALTER, DESCRIBE, AclOperation.CLUSTER_ACTION),
        *(*_OF_CONFIGS, AclOperation.IDEMPOTENT_WRITE),
    ),
    ResourceType.TRANSACTIONAL_ID: (WRITE, DESCRIBE, AclOperation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""The operations that a resource has; an ACL for any other one would mean nothing."""
OPTIONS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "delegation_token": ResourceType.DELEGATION_TOKEN,
    "user_principal": ResourceType.USER,
}
CLUSTER = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)

Wanted = dict[ResourcePattern, list[Acl]]
"""ACLs by resource; with the pattern types ANY and MATCH the resources are filters."""


def pattern_text(pattern: ResourcePattern) -> str:
    resource_type, name, pattern_type = pattern
    return f"ResourcePattern(resourceType={resource_type.name}, name={name}, patternType={pattern_type.name})"


def acl_text(acl: Acl) -> str:
    operation, permission = acl.operation.name, acl.permission.name
    return f"(principal={acl.principal}, host={acl.host}, operation={operation}, permissionType={permission})"


# What the options name.


def resources(given: Mapping[str, Any]) -> list[ResourcePattern]:
    pattern_type = PatternType[given["resource_pattern_type"].upper()]
    found = [
        ResourcePattern(resource_type, name.strip(), pattern_type)
        for option, resource_type in OPTIONS.items()
        for name in given[option]
    ]
    if pattern_type == PatternType.LITERAL and (given["cluster"] or given["idempotent"]):
        found.append(CLUSTER)
    return list(dict.fromkeys(found))


def _required_resources(given: Mapping[str, Any]) -> list[ResourcePattern]:
    found = resources(given)
    if not found:
        raise usage_error("a resource is required: --topic, --group, --cluster, --transactional-id, …")
    return found


def _entries(given: Mapping[str, Any], operations: Iterable[AclOperation]) -> list[Acl]:
    return [
        Acl(principal, host.strip(), operation, permission)
        for permission, word in ((Permission.ALLOW, "allow"), (Permission.DENY, "deny"))
        for principal in given[f"{word}_principal"]
        for operation in operations
        for host in given[f"{word}_host"] or (WILDCARD,)
    ]


def wanted_acls(given: Mapping[str, Any]) -> Wanted:
    """The ACLs that the options describe, by resource."""
    found: Wanted = {}

    def add(patterns: Iterable[ResourcePattern], *operations: AclOperation) -> None:
        for pattern in patterns:
            known = found.setdefault(pattern, [])
            known += [acl for acl in _entries(given, operations) if acl not in known]

    named = _required_resources(given)
    topics, groups, transactional_ids = (
        [pattern for pattern in named if pattern.resource_type == kind]
        for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
    )
    if given["producer"]:
        add(topics, WRITE, DESCRIBE, CREATE)
        add(transactional_ids, WRITE, DESCRIBE)
        if given["idempotent"]:
            add([CLUSTER], AclOperation.IDEMPOTENT_WRITE)
    if given["consumer"]:
        add(topics, READ, DESCRIBE)
        add(groups, READ)
    if not given["producer"] and not given["consumer"]:
        add(named, *(given["operation"] or (AclOperation.ALL,)))
    _check_operations(found)
    return found


def _check_operations(wanted: Wanted) -> None:
    for pattern, acls in wanted.items():
        supported = SUPPORTED[pattern.resource_type]
        if any(acl.operation not in (AclOperation.ALL, *supported) for acl in acls):
            names = ", ".join(each.name for each in (*supported, AclOperation.ALL))
            raise usage_error(f"--operation: a {pattern.resource_type.name} supports only {names}.")


# Requests.


def described(admin: Admin, pattern: ResourcePattern | None = None) -> list[Binding]:
    """The ACLs that this finds; all without it."""
    resource_type, name, pattern_type = pattern or (ResourceType.ANY, None, PatternType.ANY)
    request = DescribeAclsRequest(
        resource_type_filter=resource_type,
        resource_name_filter=name,
        pattern_type_filter=pattern_type,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=Permission.ANY,
    )
    answer = _ask(admin, request)
    _check(answer)
    return [
        Binding(
            ResourcePattern(
                ResourceType(resource.resource_type), resource.resource_name, PatternType(resource.pattern_type)
            ),
            Acl(acl.principal, acl.host, AclOperation(acl.operation), Permission(acl.permission_type)),
        )
        for resource in answer.resources
        for acl in resource.acls
    ]


def _ask(admin: Admin, request: Any) -> Any:
    """Brokers without security do not offer these requests."""
    try:
        return admin.ask(request, ANY)
    except ApiError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            raise CommandFailed("The brokers have no ACLs: their option authorizer.class.name is not set.") from None
        raise


def _check(answer: Any) -> None:
    if answer.error_code:
        raise ApiError(code_of(answer.error_code), answer.error_message)


def add_acls(admin: Admin, given: Mapping[str, Any]) -> None:
    wanted = wanted_acls(given)
    if given["resource_pattern_type"] not in ("literal", "prefixed"):
        kind = given["resource_pattern_type"]
        raise usage_error(f"--add requires --resource-pattern-type literal or prefixed, not {kind}.")
    if not all(wanted.values()):
        raise usage_error("--add requires --allow-principal or --deny-principal.")
    for pattern, acls in wanted.items():
        existing = {acl for _, acl in described(admin, pattern)}
        for acl in acls:
            if acl in existing:
                click.echo(f"Acl (pattern={pattern_text(pattern)}, entry={acl_text(acl)}) already exists.")
        missing = [acl for acl in acls if acl not in existing]
        if missing:
            click.echo(f"Adding ACLs for resource `{pattern_text(pattern)}`: \n {_lines(missing)}\n")
            create(admin, pattern, missing)


def create(admin: Admin, pattern: ResourcePattern, acls: Iterable[Acl]) -> None:
    """Add these ACLs to the resource; ApiError at the first that is refused."""
    request = CreateAclsRequest(creations=[_creation(pattern, acl) for acl in acls])
    for result in _ask(admin, request).results:
        _check(result)


def _lines(acls: Iterable[Acl]) -> str:
    return "\n".join(f"\t{acl_text(acl)}" for acl in acls)


def _creation(pattern: ResourcePattern, acl: Acl) -> AclCreation:
    return AclCreation(
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        resource_pattern_type=pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def remove_acls(admin: Admin, given: Mapping[str, Any]) -> None:
    for pattern, acls in wanted_acls(given).items():
        question = (
            f"Are you sure you want to remove ACLs: \n {_lines(acls)}\n from resource filter `{pattern_text(pattern)}`?"
            if acls
            else f"Are you sure you want to delete all ACLs for resource filter `{pattern_text(pattern)}`?"
        )
        if given["force"] or _confirmed(question):
            delete(admin, pattern, acls or (None,))


def delete(admin: Admin, pattern: ResourcePattern, acls: Iterable[Acl | None]) -> None:
    """Remove these ACLs from the resources that the pattern finds, all with None; ApiError at the first that fails."""
    filters = [_filter(pattern, acl) for acl in acls]
    for result in _ask(admin, DeleteAclsRequest(filters=filters)).filter_results:
        _check(result)
        for matching in result.matching_acls:
            _check(matching)


def _confirmed(question: str) -> bool:
    click.echo(f"{question} (y/n)")
    return sys.stdin.readline().strip().lower() == "y"


def _filter(pattern: ResourcePattern, acl: Acl | None) -> DeleteAclsFilter:
    resource_type, name, pattern_type = pattern
    principal, host, operation, permission = acl or (None, None, AclOperation.ANY, Permission.ANY)
    return DeleteAclsFilter(
        resource_type_filter=resource_type,
        resource_name_filter=name,
        pattern_type_filter=pattern_type,
        principal_filter=principal,
        host_filter=host,
        operation=operation,
        permission_type=permission,
    )


def list_acls(admin: Admin, given: Mapping[str, Any]) -> None:
    filters = resources(given)
    found = [binding for each in filters for binding in described(admin, each)] if filters else described(admin)
    by_resource: Wanted = {}
    for pattern, acl in dict.fromkeys(sorted(found)):
        by_resource.setdefault(pattern, []).append(acl)
    if not given["principal"]:
        _print(by_resource)
    for principal in dict.fromkeys(given["principal"]):
        click.echo(f"ACLs for principal `{principal}`")
        own = {pattern: [acl for acl in acls if acl.principal == principal] for pattern, acls in by_resource.items()}
        _print({pattern: acls for pattern, acls in own.items() if acls})


def _print(by_resource: Wanted) -> None:
    for pattern, acls in by_resource.items():
        click.echo(f"Current ACLs for resource `{pattern_text(pattern)}`:\n{_lines(acls)}\n")


RUN: dict[str, Callable[[Admin, Mapping[str, Any]], None]] = {
    "add": add_acls,
    "remove": remove_acls,
    "list": list_acls,
}
