"""Groups: the list with lags over time, one group with its members and offsets, reset and deletion."""

import asyncio
from http import HTTPStatus
from typing import Any

from tidelog.cli.admin_requests import describe_error
from tidelog.cli.groups.group_changes import commit_offsets, partitions_in_scope, plan_for
from tidelog.cli.groups.group_requests import (
    committed_offsets,
    compact_assignment,
    coordinator_of,
    describe_group,
)
from tidelog.client.admin import Coordinator
from tidelog.client.group.described import GroupState
from tidelog.console import views
from tidelog.console.console import MOST_OFFSET, Console, Query, Refused, partition_in, whole_number
from tidelog.console.routes_topics import confirm
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin
from tidelog.wire.messages.groups.group_admin import DeleteGroupsRequest

SCENARIOS = ("to_earliest", "to_latest", "to_offset", "shift_by", "to_datetime", "by_duration", "to_current")
PLAIN = dict.fromkeys(("to_offset", "shift_by", "to_datetime", "by_duration"))
MOST_PARTITIONS = 2_000


async def groups_live(console: Console, query: Query) -> Any:
    watch = console.groups
    find, page = query.text("find", ""), query.number("page", 0, least=0)
    size = query.number("size", 50, least=1, most=views.MOST_ROWS)
    chosen = views.matching(list(watch.groups), find)
    rows = [watch.groups[name] for name in chosen]
    if query.text("sort", "name") == "lag":
        rows.sort(key=lambda group: -1 if group.lag is None else group.lag)
    elif query.text("sort", "name") == "state":
        rows.sort(key=lambda group: group.state)
    if query.flag("descending"):
        rows.reverse()
    return {
        "known": watch.is_known,
        "total": len(rows),
        "rows": [
            {
                "name": group.name,
                "state": group.state,
                "type": group.type or "classic",
                "protocol": group.protocol,
                "lag": group.lag,
                "topics": group.topics[:5],
                "lags": [lag for _, lag in group.lags][-60:],
            }
            for group in rows[page * size : (page + 1) * size]
        ],
    }


async def group_live(console: Console, query: Query) -> Any:
    name = query.text("group")
    group, committed, coordinator = await asyncio.gather(
        console.blocking(describe_group, console.bridged, name),
        console.blocking(committed_offsets, console.bridged, name),
        console.blocking(coordinator_of, console.bridged, name),
    )
    owners = {partition: member.id for member in group.members for partition in member.assigned}
    ends = console.observer.ends
    rows = []
    for partition in sorted(committed.keys() | owners.keys())[:MOST_PARTITIONS]:
        offset, end = committed.get(partition), ends.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": offset.offset if offset is not None else None,
                "end": end,
                "lag": max(0, end - offset.offset) if offset is not None and end is not None else None,
                "member": owners.get(partition),
            }
        )
    watched = console.groups.groups.get(name)
    return {
        "group": {
            "name": name,
            "state": group.state,
            "assignor": group.assignor,
            "coordinator": coordinator[1],
            "type": "classic" if group.epoch is None else "consumer",
            "epoch": group.epoch,
            "target_epoch": group.target_epoch,
            "inactive": group.is_inactive,
        },
        "members": _members(group),
        "rows": rows,
        "lags": [list(each) for each in watched.lags] if watched is not None else [],
    }


def _members(group: GroupState) -> list[views.Json]:
    return [
        {
            "id": member.id,
            "client_id": member.client_id,
            "host": member.host,
            "instance_id": member.instance_id,
            "epoch": member.epoch,
            "assigned": compact_assignment(member.assigned),
            "count": len(member.assigned),
            "target": None if member.target is None else compact_assignment(member.target),
        }
        for member in group.members
    ]


async def plan_reset(console: Console, query: Query) -> Any:
    """What a reset would commit, beside what is committed: the dry run."""
    name = query.text("group")
    plan = await console.blocking(_plan, console.bridged, name, _scenario(query))
    before = await console.blocking(committed_offsets, console.bridged, name)
    return {
        "rows": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "before": before[partition].offset if partition in before else None,
                "after": offset,
            }
            for partition, offset in plan.items()
        ]
    }


def _scenario(query: Query) -> dict[str, Any]:
    scenario = query.text("scenario")
    if scenario not in SCENARIOS:
        raise Refused(HTTPStatus.BAD_REQUEST, f"scenario: {scenario!r} is not one of {', '.join(SCENARIOS)}.")
    given: dict[str, Any] = {**PLAIN, "to_earliest": False, "to_latest": False}
    given[scenario] = True if scenario in ("to_earliest", "to_latest", "to_current") else query.number("value")
    topics = [str(each) for each in query.sequence("topics")] if query.has("topics") else []
    return {**given, "all_topics": not topics, "topic": topics}


def _plan(admin: Admin, name: str, given: dict[str, Any]) -> dict[TopicPartition, int]:
    return plan_for(admin, name, partitions_in_scope(admin, name, given), given)


async def reset(console: Console, query: Query) -> Any:
    """Commit exactly the offsets of the dry run that the page showed."""
    name = query.text("group")
    confirm(query, name)
    try:
        plan = {
            partition_in(each): whole_number("after", each["after"], 0, MOST_OFFSET) for each in query.sequence("rows")
        }
    except (KeyError, TypeError):
        raise Refused(HTTPStatus.BAD_REQUEST, "rows: expected topic, partition and after in each.") from None
    await console.blocking(commit_offsets, console.bridged, name, plan)
    return {}


async def delete_group(console: Console, query: Query) -> Any:
    name = query.text("group")
    confirm(query, name)
    answer = await console.admin.ask(DeleteGroupsRequest(groups_names=[name]), Coordinator(name))
    code = answer.results[0].error_code
    if code:
        raise Refused(HTTPStatus.CONFLICT, describe_error(code))
    await console.groups.look()
    return {}
