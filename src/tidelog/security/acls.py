"""Access control lists (KIP-11, 290, 679) and the rules of Kafka's StandardAuthorizer.

- A rule for a resource matches its name exactly (LITERAL), any name (LITERAL `*`), or the names that begin with its
  name (PREFIXED). What a request asks for is always one resource.
- A matching DENY decides, whatever else matches. A matching ALLOW allows; to read, write, delete or alter something
  includes to describe it, to alter options includes to describe them. A DENY includes nothing else.
- Where a rule exists for the resource and none matches the caller, access is denied. `allow.everyone.if.no.acl.found`
  is for resources that no rule names.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from tidelog.model import canonical_host

WILDCARD = "*"
ANYBODY = "User:*"
CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


class ResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    @property
    def title(self) -> str:
        """As it is written in the metadata store and in Kafka's log lines: TransactionalId."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class PatternType(IntEnum):
    """ANY and MATCH occur in filters only: MATCH finds every rule that is about the named resource."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15

    @property
    def title(self) -> str:
        """As it is written in the metadata store: DescribeConfigs."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3

    @property
    def title(self) -> str:
        return self.name.capitalize()


_IMPLIED_BY = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS}),
}


class ResourcePattern(NamedTuple):
    resource_type: ResourceType
    name: str
    pattern_type: PatternType

    def __str__(self) -> str:
        return f"{self.resource_type.title}:{self.pattern_type.name}:{self.name}"


class Acl(NamedTuple):
    """`principal` is `User:name` or `User:*`; `host` an IP address or `*`."""

    principal: str
    host: str
    operation: AclOperation
    permission: Permission

    def is_about(self, principal: str, host: str) -> bool:
        if self.principal not in (principal, ANYBODY):
            return False
        return self.host in (host, WILDCARD) or canonical_host(self.host) == canonical_host(host)

    def grants(self, operation: AclOperation) -> bool:
        """Whether it allows the operation, or denies it."""
        if self.operation in (AclOperation.ALL, operation):
            return True
        return self.permission == Permission.ALLOW and self.operation in _IMPLIED_BY.get(operation, ())


class Binding(NamedTuple):
    """One rule."""

    pattern: ResourcePattern
    acl: Acl


class BindingFilter(NamedTuple):
    """None, and ANY, match everything."""

    resource_type: ResourceType
    name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: AclOperation
    permission: Permission

    def matches(self, binding: Binding) -> bool:
        acl = binding.acl
        return (
            self.matches_pattern(binding.pattern)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type != PatternType.MATCH:
            return self.name == pattern.name
        if pattern.pattern_type == PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name in (self.name, WILDCARD)


class Decision(NamedTuple):
    """`rule` says which rule decided, as Kafka's authorizer logs it."""

    allowed: bool
    rule: str
    binding: Binding | None = None


SUPER_USER = Decision(True, "SuperUser")
NOT_READY = Decision(False, "AuthorizerNotReady")
DEFAULT_DENY = Decision(False, "DefaultDeny")
DEFAULT_ALLOW = Decision(True, "DefaultAllow")


class _Rules:
    """The rules for one type of resource, by name."""

    def __init__(self) -> None:
        self.literal: dict[str, tuple[Acl, ...]] = {}
        self.prefixed: dict[str, tuple[Acl, ...]] = {}
        self.lengths: Counter[int] = Counter()
        """Of the names in `prefixed`: a lookup takes one step for each length, however many rules there are."""

    def replace(self, pattern: ResourcePattern, acls: tuple[Acl, ...]) -> None:
        is_prefixed = pattern.pattern_type == PatternType.PREFIXED
        named, name = self.prefixed if is_prefixed else self.literal, pattern.name
        if is_prefixed and (name in named) != bool(acls):
            self.lengths[len(name)] += 1 if acls else -1
            if not self.lengths[len(name)]:
                del self.lengths[len(name)]
        if acls:
            named[name] = acls
        else:
            named.pop(name, None)


class AclIndex:
    """All rules of a cluster, resource by resource."""

    def __init__(self, bindings: Iterable[Binding] = ()) -> None:
        self._by_type: dict[ResourceType, _Rules] = {}
        found: dict[ResourcePattern, list[Acl]] = {}
        for pattern, acl in bindings:
            found.setdefault(pattern, []).append(acl)
        for pattern, acls in found.items():
            self.replace(pattern, acls)

    def __repr__(self) -> str:
        sizes = [len(rules.literal) + len(rules.prefixed) for rules in self._by_type.values()]
        return f"<AclIndex of {sum(sizes)} resources>"

    def replace(self, pattern: ResourcePattern, acls: Iterable[Acl]) -> None:
        """These are the resource's rules now; none removes it."""
        self._by_type.setdefault(pattern.resource_type, _Rules()).replace(pattern, tuple(acls))

    def about(self, resource_type: ResourceType, name: str) -> Iterator[Binding]:
        """Every rule that is about the resource, whoever asks."""
        rules = self._by_type.get(resource_type)
        if rules is None:
            return
        for literal in dict.fromkeys((name, WILDCARD)):
            pattern = ResourcePattern(resource_type, literal, PatternType.LITERAL)
            yield from (Binding(pattern, acl) for acl in rules.literal.get(literal, ()))
        for length in [length for length in rules.lengths if length <= len(name)]:
            pattern = ResourcePattern(resource_type, name[:length], PatternType.PREFIXED)
            yield from (Binding(pattern, acl) for acl in rules.prefixed.get(pattern.name, ()))

    def decide(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        default: Decision = DEFAULT_DENY,
    ) -> Decision:
        """`default` is for a resource that no rule is about."""
        allowing = None
        found = False
        for binding in self.about(resource_type, name):
            found = True
            acl = binding.acl
            if acl.is_about(principal, host) and acl.grants(operation):
                if acl.permission == Permission.DENY:
                    return Decision(False, _matching(binding), binding)
                allowing = allowing or binding
        if allowing is not None:
            return Decision(True, _matching(allowing), allowing)
        return DEFAULT_DENY if found else default

    def allows_any(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether some resource of the type is allowed: an ALLOW that no DENY takes back (KIP-679)."""
        rules = self._by_type.get(resource_type)
        if rules is None:
            return False

        def names(named: Mapping[str, Iterable[Acl]], permission: Permission) -> set[str]:
            return {
                name
                for name, acls in named.items()
                if any(
                    acl.permission == permission and acl.is_about(principal, host) and acl.grants(operation)
                    for acl in acls
                )
            }

        denied = names(rules.literal, Permission.DENY)
        denied_prefixes = tuple(names(rules.prefixed, Permission.DENY))
        if WILDCARD in denied:
            return False
        allowed = names(rules.literal, Permission.ALLOW) - denied
        return WILDCARD in allowed or any(
            not name.startswith(denied_prefixes) for name in (*allowed, *names(rules.prefixed, Permission.ALLOW))
        )


def _matching(binding: Binding) -> str:
    pattern, acl = binding
    return (
        f"MatchingAcl(acl=StandardAcl(resourceType={pattern.resource_type.name}, resourceName={pattern.name}, "
        f"patternType={pattern.pattern_type.name}, principal={acl.principal}, host={acl.host}, "
        f"operation={acl.operation.name}, permissionType={acl.permission.name}))"
    )
