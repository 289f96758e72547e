"""The flags of `tidelog groups`, which are those of kafka-consumer-groups, and which of them go together."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from tidelog.cli.options import (
    ParamType,
    at_most_one,
    check_applicable,
    check_required,
    cluster_options,
    flag,
    is_given,
    single_action,
    usage_error,
)

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
SCENARIOS = (
    "to-offset",
    "shift-by",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "from-file",
)
ACTIONS_OF_OPTION = {
    "group": ("describe", "delete", "reset-offsets", "delete-offsets"),
    "all-groups": ("describe", "delete", "reset-offsets"),
    "offsets": ("describe",),
    "members": ("describe",),
    "verbose": ("describe",),
    "state": ("describe", "list"),
    "type": ("list",),
    "topic": ("reset-offsets", "delete-offsets"),
    "all-topics": ("reset-offsets",),
    **dict.fromkeys((*SCENARIOS, "dry-run", "execute", "export"), ("reset-offsets",)),
}
TIMEOUT_MS = 30_000

_DATE_TIME = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?)(Z|[+-]\d{2}:?\d{2})?")
_DURATION = re.compile(
    r"(?P<minus>-)?P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


class DateTime(ParamType):
    """`YYYY-MM-DDThh:mm:ss.sss`, optionally with an offset from UTC, converted to milliseconds since 1970."""

    name = "datetime"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _DATE_TIME.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is not a valid time; expected YYYY-MM-DDThh:mm:ss.sss.", param, ctx)
        try:
            parsed = datetime.fromisoformat(str(value))
        except ValueError as error:
            self.fail(f"{value!r} is not a valid time: {error}.", param, ctx)
        parsed = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
        return (parsed - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


class Duration(ParamType):
    """`PnDTnHnMnS`, converted to milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _DURATION.fullmatch(str(value).upper())
        parts = {} if match is None else {name: text for name, text in match.groupdict().items() if text}
        minus = parts.pop("minus", None)
        if not parts:
            self.fail(f"{value!r} is not a valid duration; expected PnDTnHnMnS.", param, ctx)
        duration = timedelta(**{name: float(text) for name, text in parts.items()}) // timedelta(milliseconds=1)
        return -duration if minus else duration


@click.command()
@cluster_options
@flag("list", "List groups.")
@flag("describe", "Show offsets and lag, members, or the state of groups.")
@flag("delete", "Delete groups that have no members.")
@flag("reset-offsets", "Change the committed offsets of groups that have no members.")
@flag("delete-offsets", "Delete committed offsets of a group.")
@click.option("--group", multiple=True, help="Group; repeatable.")
@flag("all-groups", "Select all groups.")
@flag("offsets", "With --describe: show offsets and lag (the default).")
@flag("members", "With --describe: show members.")
@click.option(
    "--state",
    is_flag=False,
    flag_value="",
    help="With --describe: show the state. With --list: show states, or filter by them.",
)
@click.option("--type", "type", is_flag=False, flag_value="", help="With --list: show types, or filter by them.")
@flag("verbose", "With --describe: show more columns.")
@click.option("--topic", multiple=True, help="Topic, or TOPIC:0,1,2 for some partitions; repeatable.")
@flag("all-topics", "Select all topics with committed offsets of the group.")
@click.option("--to-offset", type=int, help="Reset to this offset, or to the nearest one in the log.")
@click.option("--shift-by", type=int, help="Number of records to move by; negative moves back.")
@click.option(
    "--to-datetime", type=DateTime(), help="Reset to the first record at or after YYYY-MM-DDThh:mm:ss.sss (UTC)."
)
@click.option("--by-duration", type=Duration(), help="Reset to the first record of the last PnDTnHnMnS.")
@flag("to-earliest", "Reset to the log start offset.")
@flag("to-latest", "Reset to the log end offset.")
@flag("to-current", "Reset to the committed offset, or the end if there is none.")
@click.option("--from-file", type=click.Path(exists=True, dir_okay=False), help="Reset to the offsets of a CSV file.")
@flag("dry-run", "Show the new offsets without committing them (the default).")
@flag("execute", "Commit the new offsets.")
@flag("export", "Print the new offsets as CSV for --from-file.")
@click.option(
    "--timeout", type=click.IntRange(1), default=TIMEOUT_MS, show_default=True, help="Timeout in milliseconds."
)
def groups(**given: Any) -> None:
    """List, describe, reset and delete consumer groups, with the flags of kafka-consumer-groups."""
    action = single_action(given, ACTIONS)
    check_applicable(given, action, ACTIONS_OF_OPTION)
    _check(given, action)
    from tidelog.cli.admin_requests import connect
    from tidelog.cli.groups import group_changes, group_output

    run = {
        "list": group_output.list_groups,
        "describe": group_output.describe,
        "delete": group_changes.delete_groups,
        "reset-offsets": group_changes.reset_offsets,
        "delete-offsets": group_changes.delete_offsets,
    }[action]
    with connect(given["bootstrap_server"], given["command_config"], timeout_ms=given["timeout"]) as admin:
        run(admin, given)


def _check(given: dict[str, Any], action: str) -> None:
    """Check the rules that `ACTIONS_OF_OPTION` cannot express."""
    at_most_one(given, ("group", "all-groups"))
    if action in ("describe", "delete", "reset-offsets") and not given["all_groups"]:
        check_required(given, action, ("group",))
    if action == "describe":
        at_most_one(given, ("offsets", "members", "state"))
    if action == "delete-offsets":
        check_required(given, action, ("group", "topic"))
        if len(given["group"]) > 1:
            raise usage_error("--delete-offsets takes one --group.")
    if action == "reset-offsets":
        _check_reset(given)


def _check_reset(given: dict[str, Any]) -> None:
    at_most_one(given, ("dry-run", "execute"))
    scenario = at_most_one(given, SCENARIOS)
    if scenario is None:
        listed = ", ".join(f"--{each}" for each in SCENARIOS)
        raise usage_error(f"--reset-offsets requires one of {listed}.")
    scope = at_most_one(given, ("all-topics", "topic"))
    if scope is None and not is_given(given["from_file"]):
        raise usage_error("--reset-offsets requires --topic or --all-topics.")
