"""What a principal may do with a resource, by the cluster's ACLs: which ACL decides, and which one would help."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from shlex import quote
from typing import Any, NamedTuple

from tidelog.cli.acl_actions import SUPPORTED, acl_text
from tidelog.cli.options import usage_error
from tidelog.explain.core.finding import Advice, Finding, Subject
from tidelog.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclIndex,
    AclOperation,
    Binding,
    Permission,
    ResourceType,
)

NO_ACL = "No ACL is about it. Then access is denied, unless the brokers have allow.everyone.if.no.acl.found=true."
NO_MATCH = "ACLs are about it, but none matches this principal, host and operation."
SUPER_USERS = "Super users (option super.users of the brokers) may do everything; brokers do not report who they are."
OPTIONS = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
}


class Question(NamedTuple):
    """`host` is an address, or `*` for one that no ACL names."""

    principal: str
    host: str
    resource_type: ResourceType
    name: str

    @property
    def resource(self) -> str:
        kind = self.resource_type.name.lower().replace("_", " ")
        return "the cluster" if self.resource_type == ResourceType.CLUSTER else f"{kind} {self.name}"

    @property
    def options(self) -> str:
        """The resource as options of `tidelog acls`."""
        option = OPTIONS.get(self.resource_type)
        return "--cluster" if option is None else f"{option} {quote(self.name)}"


def questions(given: Mapping[str, Any]) -> list[Question]:
    """What the options of `tidelog explain access` ask."""
    named = [
        (resource_type, name)
        for resource_type, option in OPTIONS.items()
        for name in given[option.removeprefix("--").replace("-", "_")]
    ]
    if given["cluster"]:
        named.append((ResourceType.CLUSTER, CLUSTER_NAME))
    if not named:
        raise usage_error("a resource is required: --topic, --group, --transactional-id or --cluster.")
    return [Question(given["principal"], given["host"], resource_type, name) for resource_type, name in named]


def access_findings(
    bindings: Iterable[Binding], questions: Iterable[Question], wanted: Collection[AclOperation]
) -> Iterator[Finding]:
    """One finding for each operation that the resource has, or that is wanted of it."""
    index = AclIndex(bindings)
    for question in questions:
        operations = [each for each in SUPPORTED[question.resource_type] if not wanted or each in wanted]
        for operation in operations:
            yield _finding(index, question, operation)
        yield from _elsewhere(index, question)
    yield Finding("note", "access.super_users", Subject("access", "super users"), SUPER_USERS)


def _finding(index: AclIndex, question: Question, operation: AclOperation) -> Finding:
    principal, host, resource_type, name = question
    decision = index.decide(principal, host, operation, resource_type, name)
    if (resource_type, operation) == (ResourceType.TOPIC, AclOperation.CREATE) and not decision.allowed:
        every = index.decide(principal, host, operation, ResourceType.CLUSTER, CLUSTER_NAME)
        decision = (
            every if every.allowed else decision
        )  # to create any topic includes this one, even where it is denied
    about = Subject("access", f"{principal} {operation.name} {question.resource}")
    if decision.allowed and decision.binding is not None:
        return Finding("note", "access.allowed", about, "allowed", [f"by {_text(decision.binding)}"])
    add = f"acls --add --allow-principal {quote(principal)} --operation {operation.title} {question.options}"
    if decision.binding is not None:
        helps = [Advice("", _removal(decision.binding)), Advice("", add)]
        if (
            index_without(index, question, decision.binding)
            .decide(principal, host, operation, resource_type, name)
            .allowed
        ):
            helps = helps[:1]
        return Finding("error", "access.denied", about, "denied", [f"by {_text(decision.binding)}"], helps)
    because = NO_MATCH if any(index.about(resource_type, name)) else NO_ACL
    return Finding("error", "access.denied", about, "denied", [because], [Advice("", add)])


def index_without(index: AclIndex, question: Question, removed: Binding) -> AclIndex:
    """What is about the resource, but for one ACL."""
    return AclIndex(each for each in index.about(question.resource_type, question.name) if each != removed)


def _text(binding: Binding) -> str:
    return f"{acl_text(binding.acl)} on {binding.pattern}"


def _removal(binding: Binding) -> str:
    """The command that removes the ACL."""
    pattern, acl = binding
    word = "deny" if acl.permission == Permission.DENY else "allow"
    host = "" if acl.host == WILDCARD else f" --{word}-host {quote(acl.host)}"
    resource = Question(acl.principal, acl.host, pattern.resource_type, pattern.name).options
    return (
        f"acls --remove --{word}-principal {quote(acl.principal)}{host} --operation {acl.operation.title} {resource} "
        f"--resource-pattern-type {pattern.pattern_type.name.lower()}"
    )


def _elsewhere(index: AclIndex, question: Question) -> Iterator[Finding]:
    """ACLs of the principal that hold on other hosts only."""
    about = index.about(question.resource_type, question.name)
    others = [each for each in about if _is_elsewhere(each.acl, question)]
    if others:
        says = "These ACLs hold only on the hosts that they name."
        subject = Subject("access", question.resource)
        yield Finding("note", "access.other_hosts", subject, says, [_text(each) for each in others])


def _is_elsewhere(acl: Acl, question: Question) -> bool:
    principal = question.principal
    return acl.is_about(principal, acl.host) and not acl.is_about(principal, question.host)
