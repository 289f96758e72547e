"""`tidelog acls`, with the flags of kafka-acls."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from tidelog.cli.options import (
    Function,
    ParamType,
    check_applicable,
    cluster_options,
    flag,
    is_given,
    single_action,
    usage_error,
)

ACTIONS = ("add", "remove", "list")
PATTERNS = ("literal", "prefixed", "any", "match")
CHANGES = ("add", "remove")
ACTIONS_OF_OPTION = {
    **dict.fromkeys(("producer", "consumer", "idempotent", "operation"), CHANGES),
    **dict.fromkeys(("allow-principal", "deny-principal", "allow-host", "deny-host"), CHANGES),
    "principal": ("list",),
}


class Principal(ParamType):
    """`User:alice`."""

    name = "type:name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if ":" not in str(value):
            self.fail(f"{value!r} is not a principal; expected TYPE:NAME, such as User:alice.", param, ctx)
        return str(value).strip()


class Operation(ParamType):
    """`DescribeConfigs`, `describe_configs` or `DESCRIBE_CONFIGS`."""

    name = "operation"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from tidelog.security.acls import AclOperation

        known = {each.title.lower(): each for each in AclOperation if each > AclOperation.ANY}
        found = known.get(str(value).strip().replace("_", "").lower())
        if found is None:
            names = ", ".join(each.title for each in known.values())
            self.fail(f"{value!r} is not an operation; expected one of {names}.", param, ctx)
        return found


def principal_option(name: str, help_text: str) -> Callable[[Function], Function]:
    return click.option(f"--{name}", type=Principal(), multiple=True, help=help_text)


def named(name: str, help_text: str) -> Callable[[Function], Function]:
    return click.option(f"--{name}", multiple=True, help=help_text)


@click.command()
@cluster_options
@flag("add", "Add ACLs.")
@flag("remove", "Remove ACLs.")
@flag("list", "List ACLs, of the given resources or of all.")
@named("topic", "Topic; '*' means every topic. Repeatable, as are all resources.")
@named("group", "Consumer group; '*' means every group.")
@flag("cluster", "The cluster.")
@named("transactional-id", "Transactional ID; '*' means every one.")
@named("delegation-token", "Delegation token; '*' means every one.")
@named("user-principal", "User as a resource, for CreateTokens and DescribeTokens.")
@click.option(
    "--resource-pattern-type",
    type=click.Choice(PATTERNS, case_sensitive=False),
    default="literal",
    show_default=True,
    help="How names are compared; any and match are for --list and --remove.",
)
@click.option(
    "--operation", type=Operation(), multiple=True, help="Operation to allow or deny (default: All). Repeatable."
)
@principal_option("allow-principal", "Principal that is allowed, such as User:alice. Repeatable.")
@principal_option("deny-principal", "Principal to deny, even if another ACL allows it. Repeatable.")
@named("allow-host", "Address from which the principals are allowed (default: *). Repeatable.")
@named("deny-host", "Address from which the principals are denied (default: *). Repeatable.")
@principal_option("principal", "Principal whose ACLs are listed. Repeatable.")
@flag("producer", "What a producer needs: Write, Describe and Create on the topic.")
@flag("consumer", "What a consumer needs: Read and Describe on the topic, Read on the group.")
@flag("idempotent", "With --producer: also IdempotentWrite on the cluster.")
@flag("force", "Remove without asking.")
def acls(**given: Any) -> None:
    """Add, remove and list access control lists, with the flags of kafka-acls."""
    action = single_action(given, ACTIONS)
    check_applicable(given, action, ACTIONS_OF_OPTION)
    _check_roles(given)
    from tidelog.cli import acl_actions
    from tidelog.cli.admin_requests import connect

    with connect(given["bootstrap_server"], given["command_config"]) as admin:
        acl_actions.RUN[action](admin, given)


def _check_roles(given: dict[str, Any]) -> None:
    for role in ("producer", "consumer"):
        if given[role]:
            _refuse(given, role, ("operation", "deny-principal", "deny-host"))
    if given["idempotent"] and not given["producer"]:
        raise usage_error("--idempotent requires --producer.")
    if given["producer"] and not given["topic"]:
        raise usage_error("--producer requires --topic.")
    if given["consumer"]:
        if not given["topic"] or not given["group"]:
            raise usage_error("--consumer requires --topic and --group.")
        if not given["producer"]:  # whose options these are
            _refuse(given, "consumer", ("cluster", "transactional-id"))


def _refuse(given: dict[str, Any], role: str, options: Sequence[str]) -> None:
    for option in options:
        if is_given(given[option.replace("-", "_")]):
            raise usage_error(f"--{role} and --{option} cannot be used together.")
