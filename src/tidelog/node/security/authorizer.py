"""Whether a principal may do something: `authorizer.class.name`, `super.users`, and the cluster's rules.

The rules come from the metadata store; until they have come, only super users are allowed anything. Decisions are
remembered until the rules change, so a request pays for a lookup in a dictionary, however many rules there are.
"""

from collections.abc import Callable, Iterable
from typing import Any

from tidelog.api.change_audit import Change
from tidelog.config.broker import BrokerConfig
from tidelog.config.families.security_options import principals_of
from tidelog.effects import Effect, Event
from tidelog.errors import ErrorCode
from tidelog.model import Time
from tidelog.node.event_log import LineLimit
from tidelog.security.acls import (
    CLUSTER_NAME,
    DEFAULT_ALLOW,
    DEFAULT_DENY,
    NOT_READY,
    SUPER_USER,
    WILDCARD,
    AclIndex,
    AclOperation,
    Decision,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from tidelog.wire.refusals import codes_in

MAX_REMEMBERED = 100_000
LONGEST_REMEMBERED = 255
"""Characters of a name; topics have at most 249. Clients choose the names that they ask for, of up to 32 KiB each, so
the memory of decisions must be bounded."""

_Question = tuple[str, str, AclOperation, ResourceType, str]
_Known = dict[tuple[int, str], Decision]
"""By operation and type in one number, because enums are hashed by Python code, and the resource's name; under the
negative number whether any resource is allowed."""


class Authorizer:
    """`is_debugging`: lines of level DEBUG, which name what is allowed, are written too."""

    def __init__(self, config: BrokerConfig, effects: list[Effect], now: Callable[[], Time]) -> None:
        self._super_users = frozenset(principals_of(config.super_users))
        self._default = DEFAULT_ALLOW if config.allow_everyone_if_no_acl_found else DEFAULT_DENY
        self._effects = effects
        self._now = now
        self.is_debugging = False
        self._index: AclIndex | None = None
        self.generation = 0
        """What was remembered in an older generation is forgotten."""
        self._known: dict[tuple[str, str], _Known] = {}
        self._remembered = 0
        self._lines = LineLimit()

    def __repr__(self) -> str:
        return f"<Authorizer {self._index}>"

    def update(self, index: AclIndex) -> None:
        """The cluster's rules are known, or have changed: `index` is that of the broker's mirror."""
        self._index = index
        self._forget()

    def _forget(self) -> None:
        self.generation += 1
        self._known = {}
        self._remembered = 0

    def access(self, principal: str, host: str) -> "PrincipalAccess":
        return PrincipalAccess(self, principal, host)

    def known(self, principal: str, host: str) -> _Known:
        """The decisions about this principal, shared by its connections."""
        self._remembered += 1
        return self._known.setdefault((principal, host), {})

    def is_broker(self, principal: str, host: str) -> bool:
        """Whether the principal may do what brokers do among themselves, forwarding others' requests included."""
        return self.decide((principal, host, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)).allowed

    def decide(self, question: _Question) -> Decision:
        principal, host, operation, resource_type, name = question
        self._remembered += 1
        if self._remembered > MAX_REMEMBERED:
            self._forget()
        if principal in self._super_users:
            return SUPER_USER
        if self._index is None:
            return NOT_READY
        return self._index.decide(principal, host, operation, resource_type, name, default=self._default)

    def allows_any(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        if self.decide((principal, host, operation, resource_type, "")).allowed:
            return True
        return self._index is not None and self._index.allows_any(principal, host, operation, resource_type)

    def log(self, question: _Question, api: str, decision: Decision) -> None:
        """As Kafka's `kafka.authorizer.logger`: denials at INFO, the others at DEBUG."""
        principal, host, operation, resource_type, name = question
        if not self._lines.allows(principal, self._now().mono):  # a request can name a million topics
            return
        fields = {
            "principal": principal,
            "operation": operation.name,
            "host": host,
            "resource": str(ResourcePattern(resource_type, name, PatternType.LITERAL)),
            "request": api,
            "rule": decision.rule,
            **self._lines.note_omitted(),
        }
        kind, level = ("access.allowed", "debug") if decision.allowed else ("access.denied", "info")
        self._effects.append(Event(kind, fields, level=level))

    def report_change(self, principal: str, host: str, api: str, change: Change, result: str) -> None:
        fields = {"principal": principal, "host": host, "request": api, **change._asdict(), "result": result}
        self._effects.append(Event("audit.changed", fields))


def may_be_broker(config: BrokerConfig, principal: str, index: AclIndex) -> bool:
    """Whether these rules let the principal do, from some host, what brokers do among themselves."""
    if principal in principals_of(config.super_users):
        return True
    default = DEFAULT_ALLOW if config.allow_everyone_if_no_acl_found else DEFAULT_DENY
    question = (AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    hosts = {WILDCARD, *(acl.host for _, acl in index.about(ResourceType.CLUSTER, CLUSTER_NAME))}
    return any(index.decide(principal, host, *question, default=default).allowed for host in hosts)


class PrincipalAccess:
    """What one principal may do from one host (`api.context.Access`)."""

    __slots__ = ("_authorizer", "_generation", "_host", "_is_broker", "_known", "principal")

    def __init__(self, authorizer: Authorizer, principal: str, host: str) -> None:
        self._authorizer = authorizer
        self._host = host
        self.principal = principal
        self._generation = -1
        self._known: _Known = {}
        self._is_broker = False

    def __repr__(self) -> str:
        return f"PrincipalAccess({self.principal} from {self._host})"

    def _catch_up(self) -> None:
        """Forget what an older generation of the authorizer decided."""
        authorizer = self._authorizer
        self._generation = authorizer.generation
        self._known = authorizer.known(self.principal, self._host)
        self._is_broker = authorizer.is_broker(self.principal, self._host)

    @property
    def is_broker(self) -> bool:
        if self._generation != self._authorizer.generation:
            self._catch_up()
        return self._is_broker

    def allows(self, operation: AclOperation, resource_type: ResourceType, name: str, api: str = "") -> bool:
        authorizer = self._authorizer
        if self._generation != authorizer.generation:
            self._catch_up()
        key = (operation << 8 | resource_type, name)
        decision = self._known.get(key)
        if decision is None:
            decision = authorizer.decide((self.principal, self._host, operation, resource_type, name))
            if len(name) <= LONGEST_REMEMBERED:
                self._known[key] = decision
        if api and (authorizer.is_debugging or not decision.allowed):
            authorizer.log((self.principal, self._host, operation, resource_type, name), api, decision)
        return decision.allowed

    def allows_any(self, operation: AclOperation, resource_type: ResourceType, api: str = "") -> bool:
        authorizer = self._authorizer
        if self._generation != authorizer.generation:
            self._catch_up()
        key = (-(operation << 8 | resource_type), "")
        decision = self._known.get(key)
        if decision is None:
            allowed = authorizer.allows_any(self.principal, self._host, operation, resource_type)
            decision = self._known[key] = DEFAULT_ALLOW if allowed else DEFAULT_DENY
        if api and not decision.allowed:
            authorizer.log((self.principal, self._host, operation, resource_type, "*"), api, decision)
        return decision.allowed

    def audit(self, api: str, changes: Iterable[Change], response: Any) -> None:
        """The result is NONE, or the codes that the response has beside."""
        codes = sorted({ErrorCode(code).name for code in codes_in(response)} - {ErrorCode.NONE.name})
        result = ",".join(codes) or ErrorCode.NONE.name
        for change in changes:
            self._authorizer.report_change(self.principal, self._host, api, change, result)
