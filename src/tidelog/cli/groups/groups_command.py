"""The flags of kafka-consumer-groups, and which of them go together."""

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
    the_action,
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
    """`YYYY-MM-DDThh:mm:ss.sss`, with or without an offset from UTC (without: UTC), in milliseconds since 1970."""

    name = "datetime"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _DATE_TIME.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is not YYYY-MM-DDThh:mm:ss.sss.", param, ctx)
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError as error:
            self.fail(f"{value!r} is no moment: {error}.", param, ctx)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


class Duration(ParamType):
    """`PnDTnHnMnS`, in milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _DURATION.fullmatch(str(value).upper())
        parts = {} if match is None else {name: text for name, text in match.groupdict().items() if text}
        minus = parts.pop("minus", None)
        if not parts:
            self.fail(f"{value!r} is not a duration as PnDTnHnMnS.", param, ctx)
        duration = timedelta(**{name: float(text) for name, text in parts.items()}) // timedelta(milliseconds=1)
        return -duration if minus else duration


@click.command()
@cluster_options
@flag("list", "List the groups.")
@flag("describe", "Show a group: its offsets and lag, its members, or its state.")
@flag("delete", "Delete groups without members.")
@flag("reset-offsets", "Move the committed offsets of a group without members.")
@flag("delete-offsets", "Delete committed offsets of a group.")
@click.option("--group", multiple=True, help="The group; may be given several times.")
@flag("all-groups", "All groups.")
@flag("offsets", "With --describe: offsets and lag (the default).")
@flag("members", "With --describe: the members.")
@click.option(
    "--state",
    is_flag=False,
    flag_value="",
    help="With --describe: the state; with --list: state, or only these states.",
)
@click.option("--type", "type", is_flag=False, flag_value="", help="With --list: the type, or only these types.")
@flag("verbose", "With --describe: more columns.")
@click.option("--topic", multiple=True, help="A topic, or TOPIC:0,1,2 for some partitions; may be given several times.")
@flag("all-topics", "All topics that the group has committed offsets of.")
@click.option("--to-offset", type=int, help="To this offset, or the nearest that exists.")
@click.option("--shift-by", type=int, help="By so many records, back where negative.")
@click.option("--to-datetime", type=DateTime(), help="To the first record at or after YYYY-MM-DDThh:mm:ss.sss.")
@click.option("--by-duration", type=Duration(), help="To the first record of the time before now, as PnDTnHnMnS.")
@flag("to-earliest", "To the first offset.")
@flag("to-latest", "To the end.")
@flag("to-current", "To the committed offset, or the end where there is none.")
@click.option("--from-file", type=click.Path(exists=True, dir_okay=False), help="To the offsets of a CSV file.")
@flag("dry-run", "Only show what would be done (the default).")
@flag("execute", "Do it.")
@flag("export", "Print the plan as CSV for --from-file.")
@click.option("--timeout", type=click.IntRange(1), default=TIMEOUT_MS, show_default=True, help="Milliseconds to wait.")
def groups(**given: Any) -> None:
    """List, describe, reset and delete consumer groups, with the flags of kafka-consumer-groups."""
    action = the_action(given, ACTIONS)
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
    """The rules of each action that `ACTIONS_OF_OPTION` cannot say."""
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
        raise usage_error(f"--reset-offsets needs one of {listed}.")
    scope = at_most_one(given, ("all-topics", "topic"))
    if scope is None and not is_given(given["from_file"]):
        raise usage_error("--reset-offsets needs --topic or --all-topics.")
