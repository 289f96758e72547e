"""Quotas, users and ACLs. A cluster that has none of them says why."""

from http import HTTPStatus
from typing import Any

from tidelog.cli import acl_actions
from tidelog.cli.admin_requests import describe_error
from tidelog.cli.config_actions import QUOTA_ENTITY_TYPES, alter_quotas, quota_entries
from tidelog.cli.options import CommandFailed
from tidelog.cli.security import scram_users
from tidelog.config.quotas import CLIENT_QUOTAS, IP_QUOTAS
from tidelog.console.console import Console, Query, Refused, unsupported
from tidelog.console.routes_topics import confirm
from tidelog.errors import ApiError
from tidelog.security.acls import Acl, AclOperation, PatternType, Permission, ResourcePattern, ResourceType
from tidelog.security.scram import MECHANISMS, MIN_ITERATIONS

KINDS = {entity: kind for kind, entity in QUOTA_ENTITY_TYPES.items()}
DEFAULT = "<default>"


async def quotas(console: Console, _query: Query) -> Any:
    entries = await console.blocking(quota_entries, console.bridged, [])
    rows = [
        {
            "entity": [
                {"kind": KINDS.get(part.entity_type, part.entity_type), "name": part.entity_name}
                for part in sorted(entry.entity, key=lambda part: part.entity_type, reverse=True)
            ],
            "values": {each.key: each.value for each in entry.values},
        }
        for entry in entries
    ]
    return {"rows": rows, "client_quotas": list(CLIENT_QUOTAS), "ip_quotas": list(IP_QUOTAS)}


async def set_quota(console: Console, query: Query) -> Any:
    """Set quotas of an entity, or remove those whose value is null."""
    entities = [_entity(each) for each in query.sequence("entity")]
    if not entities:
        raise Refused(HTTPStatus.BAD_REQUEST, "entity: expected a user, a client ID or an address.")
    confirm(query, ", ".join(name or DEFAULT for _, name in entities))
    given = query.mapping("values")
    try:
        set_ = {str(name): str(float(value)) for name, value in given.items() if value is not None}
    except (TypeError, ValueError):
        raise Refused(HTTPStatus.BAD_REQUEST, "values: expected numbers.") from None
    remove = [str(name) for name, value in given.items() if value is None]
    await console.blocking(alter_quotas, console.bridged, entities, set_=set_, remove=remove)
    return {}


def _entity(given: Any) -> tuple[str, str | None]:
    """A kind and a name; '' is the default of the kind."""
    if not isinstance(given, dict) or given.get("kind") not in QUOTA_ENTITY_TYPES:
        raise Refused(HTTPStatus.BAD_REQUEST, f"entity: expected a kind of {', '.join(QUOTA_ENTITY_TYPES)}.")
    name = given.get("name")
    return str(given["kind"]), "" if name is None else str(name)


async def users(console: Console, _query: Query) -> Any:
    try:
        found = await console.blocking(scram_users.known, console.bridged)
    except ApiError as error:
        return _absent(error)
    return {
        "supported": True,
        "mechanisms": list(MECHANISMS),
        "rows": [
            {
                "name": user,
                "credentials": [{"mechanism": each.mechanism, "iterations": each.iterations} for each in own],
            }
            for user, own in sorted(found.items())
        ],
    }


def _absent(error: ApiError) -> Any:
    if not unsupported(error):
        raise error
    return {"supported": False, "why": describe_error(error.code, error.message), "rows": []}


async def set_user(console: Console, query: Query) -> Any:
    """Add a user, or set the password of a mechanism. The password itself goes no further than the console."""
    name, mechanism = query.text("name"), _mechanism(query)
    password = query.text("password")
    iterations = query.number("iterations", MIN_ITERATIONS, least=MIN_ITERATIONS, most=16_384)
    if not name or not password:
        raise Refused(HTTPStatus.BAD_REQUEST, "A user needs a name and a password.")
    entry = await console.blocking(scram_users.upsertion, name, mechanism, password, iterations)
    await console.blocking(scram_users.alter, console.bridged, upsertions=[entry])
    return {}


def _mechanism(query: Query) -> str:
    found = query.text("mechanism")
    if found not in MECHANISMS:
        raise Refused(HTTPStatus.BAD_REQUEST, f"mechanism: {found!r} is not one of {', '.join(MECHANISMS)}.")
    return found


async def remove_user(console: Console, query: Query) -> Any:
    name = query.text("name")
    confirm(query, name)
    deletion = scram_users.deletion(name, _mechanism(query))
    await console.blocking(scram_users.alter, console.bridged, deletions=[deletion])
    return {}


async def acls(console: Console, query: Query) -> Any:
    try:
        found = await console.blocking(acl_actions.described, console.bridged)
    except CommandFailed as failed:
        return {"supported": False, "why": failed.message, "rows": []}
    except ApiError as error:
        return _absent(error)
    find = query.text("find", "").lower()
    rows = [_row(pattern, acl) for pattern, acl in sorted(found)]
    return {
        "supported": True,
        "rows": [row for row in rows if any(find in str(value).lower() for value in row.values())][:1000],
        "operations": {kind.name: [each.name for each in own] for kind, own in acl_actions.SUPPORTED.items()},
    }


def _row(pattern: ResourcePattern, acl: Acl) -> dict[str, str]:
    return {
        "resource": ResourceType(pattern.resource_type).name,
        "name": pattern.name,
        "pattern": PatternType(pattern.pattern_type).name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission": acl.permission.name,
    }


def _binding(query: Query) -> tuple[ResourcePattern, Acl]:
    try:
        pattern = ResourcePattern(
            ResourceType[query.text("resource")], query.text("name"), PatternType[query.text("pattern")]
        )
        acl = Acl(
            query.text("principal"),
            query.text("host"),
            AclOperation[query.text("operation")],
            Permission[query.text("permission")],
        )
    except KeyError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"{error} is not known.") from None
    return pattern, acl


async def add_acl(console: Console, query: Query) -> Any:
    pattern, acl = _binding(query)
    await console.blocking(acl_actions.create, console.bridged, pattern, [acl])
    return {}


async def remove_acl(console: Console, query: Query) -> Any:
    pattern, acl = _binding(query)
    confirm(query, acl.principal)
    await console.blocking(acl_actions.delete, console.bridged, pattern, [acl])
    return {}
