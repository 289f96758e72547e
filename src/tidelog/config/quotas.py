"""Client quotas (KIP-13, 124, 257, 599, 612): names, bounds, entities; and replication throttles (KIP-73).

An entity maps Kafka's entity types to names, with None for the default of a type:
`{"user": "alice", "client-id": None}`. Its quotas are stored below `/config` where Kafka stores them: `users/alice`,
`users/alice/clients/<default>`, `clients/c`, `ips/10.0.0.1`, with the names of users and clients percent-encoded.
"""

import re
from collections.abc import Mapping
from enum import IntEnum
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import quote, unquote

from tidelog.errors import ApiError, ErrorCode

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCE, FETCH, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATION, CONNECTION = "controller_mutation_rate", "connection_creation_rate"
DEFAULT = "<default>"

LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LISTS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
RATES = (LEADER_RATE, FOLLOWER_RATE)
"""The options that throttle replication: of a topic, lists of replicas; of a broker, bytes per second."""

Entity = Mapping[str, str | None]

_HOST = re.compile(r"(?=.{1,253}$)[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}\.?)*")


class Match(IntEnum):
    """How a filter matches entities, by its number in DescribeClientQuotas."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class QuotaBounds(NamedTuple):
    """`whole`: fractions are not allowed; `most` is the largest value."""

    whole: bool
    most: float


Allowed = Mapping[str, QuotaBounds]

CLIENT_QUOTAS: Allowed = {
    PRODUCE: QuotaBounds(True, float(1 << 63)),
    FETCH: QuotaBounds(True, float(1 << 63)),
    REQUEST: QuotaBounds(False, float("inf")),
    MUTATION: QuotaBounds(False, float("inf")),
}
IP_QUOTAS: Allowed = {CONNECTION: QuotaBounds(True, (1 << 31) - 1)}
"""The quotas of users and client IDs, and those of addresses."""


def check_entity(entity: Entity) -> Allowed:
    """The quotas that the entity can have; INVALID_REQUEST if it is not a valid entity."""
    if not entity:
        raise ApiError(ErrorCode.INVALID_REQUEST, "An entity must have a user, a client ID or an IP address.")
    for kind, name in entity.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{kind!r} is not an entity type with quotas.")
        if name == "":
            raise ApiError(ErrorCode.INVALID_REQUEST, f"The name of a {kind} must not be empty.")
    if IP not in entity:
        return CLIENT_QUOTAS
    if len(entity) > 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, "An IP address cannot be combined with users or client IDs.")
    if not is_address(entity[IP]):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{entity[IP]!r} is neither an IP address nor a host name.")
    return IP_QUOTAS


def check_value(allowed: Allowed, name: str, value: float) -> None:
    """Raises INVALID_REQUEST if the entity has no such quota or the value is out of bounds."""
    quota = allowed.get(name)
    if quota is None:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"{name} is not a quota of this entity; expected one of {', '.join(allowed)}."
        )
    if value <= 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} must be greater than 0, not {value:g}.")
    if value > quota.most:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} must be at most {quota.most:.0f}, not {value:g}.")
    if quota.whole and value % 1.0 > 1e-6:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} must be a whole number, not {value:g}.")


def is_address(name: str | None) -> bool:
    """Whether it is an IP address or can be a host name; no name server is asked."""
    if name is None:
        return True
    try:
        ip_address(name)
    except ValueError:
        return _HOST.fullmatch(name) is not None and not re.fullmatch(r"[0-9.]+", name)
    return True


def show(name: str, value: float) -> str:
    """The value as it is stored: without a fraction if the quota is whole."""
    return str(round(value)) if {**CLIENT_QUOTAS, **IP_QUOTAS}[name].whole else repr(value)


def node_name(name: str | None) -> str:
    """A name as that of a node: percent-encoded, so that it has no slash and is not `.`, `..` or `<default>`."""
    if name is None:
        return DEFAULT
    encoded = quote(name, safe="").replace("~", "%7E")
    return encoded.replace(".", "%2E") if name in (".", "..") else encoded


def entity_path(entity: Entity) -> str:
    """Where the entity's quotas are stored below `/config`."""
    if IP in entity:
        return f"ips/{entity[IP] or DEFAULT}"
    parts = [f"{folder}/{node_name(entity[kind])}" for kind, folder in _FOLDERS if kind in entity]
    return "/".join(parts)


def entity_at(path: str) -> dict[str, str | None]:
    """The inverse of `entity_path`; {} for a path without quotas."""
    folder, _, rest = path.partition("/")
    if not rest:
        return {}
    if folder == "ips":
        return {IP: None if rest == DEFAULT else rest}
    if folder == "clients":
        return {CLIENT_ID: _name(rest)}
    if folder != "users":
        return {}
    user, _, client = rest.partition("/clients/")
    found = {USER: _name(user)}
    return {**found, CLIENT_ID: _name(client)} if client else found


_FOLDERS = ((USER, "users"), (CLIENT_ID, "clients"))


def _name(text: str) -> str | None:
    return None if text == DEFAULT else unquote(text)
