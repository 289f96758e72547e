"""Groups without members: coordinators, unknown groups, commits and fetches of offsets, deletion."""

from typing import Any

from tests.compatibility.differential.group_requests import (
    commit,
    fetch_groups,
    fetch_one,
    join,
    leave,
    offset_delete,
    sync,
)
from tests.compatibility.differential.side import Side
from tests.waiting import wait_for

TYPES = {"transaction": 1, "share": 2, "nothing": 9}


def run(side: Side) -> None:
    ids = {name: side.topic(name, 2) for name in ("t", "u")}
    ids["nope"] = b"x" * 16
    await_coordinator(side, "g")
    _find(side)
    _unknown(side, ids)
    _commits(side, ids)
    _odd_names(side, ids)
    _lists(side)


def await_coordinator(side: Side, group: str) -> None:
    """The first question makes the internal topic; each of its partitions is then loaded."""
    groups = [group, "", *(f"warm-{number}" for number in range(16))]
    found = lambda: side.quiet("FindCoordinator", 4, coordinator_keys=[group]).coordinators[0]  # noqa: E731
    wait_for(lambda: not found().error_code, f"{side}: a coordinator of {group}")
    described = lambda: side.quiet("DescribeGroups", 5, groups=groups).groups  # noqa: E731
    wait_for(lambda: not any(each.error_code for each in described()), f"{side}: every partition of it")


def _find(side: Side) -> None:
    for version in range(4):
        side.ask("find", "FindCoordinator", version, key="g")
    for version in range(4, 7):
        side.ask("find", "FindCoordinator", version, coordinator_keys=["g", "", ".."])
    side.ask("find none", "FindCoordinator", 6, coordinator_keys=[])
    side.ask("find an unknown kind", "FindCoordinator", 6, coordinator_keys=["g"], key_type=TYPES["nothing"])
    side.ask("find an unknown kind", "FindCoordinator", 3, key="g", key_type=TYPES["nothing"])
    side.ask("find a share coordinator", "FindCoordinator", 5, coordinator_keys=["g"], key_type=TYPES["share"])


def _unknown(side: Side, ids: dict[str, bytes]) -> None:
    side.ask("join no group", "JoinGroup", 9, **join("", "m"))
    side.ask("join no group", "JoinGroup", 6, **join("", "m"))
    side.ask("join as a stranger", "JoinGroup", 9, **join("x1", "m"))
    side.ask("join with a short session", "JoinGroup", 9, **join("x1", session_timeout_ms=100))
    side.ask("join with a long session", "JoinGroup", 9, **join("x1", session_timeout_ms=2**31 - 1))
    side.ask("join without protocols", "JoinGroup", 9, **join("x2", protocols=[]))
    side.ask("join without a kind", "JoinGroup", 9, **join("x2", protocol_type=""))
    for group in ("", "x3"):
        named = f"of {group!r}"
        side.ask(f"sync {named}", "SyncGroup", 5, **sync(group, "m", 1, kind="consumer", protocol="range"))
        side.both(f"sync {named}, no protocol", "SyncGroup", 4, **sync(group, "m", 1))
        side.both(f"heartbeat {named}", "Heartbeat", group_id=group, generation_id=1, member_id="m")
        side.both(f"leave {named}", "LeaveGroup", 2, **leave(group, ("m", None)))
        side.ask(f"delete offsets {named}", "OffsetDelete", 0, **offset_delete(group, t=[0]))
        side.both(f"delete {named}", "DeleteGroups", groups_names=[group])
        side.both(f"describe {named}", "DescribeGroups", 5, groups=[group], include_authorized_operations=True)
        for version in (1, 5, 7):
            side.ask(f"fetch {named}", "OffsetFetch", version, **fetch_one(group, {"t": [0, 9], "nope": [0]}))
        for version in (2, 7):
            side.ask(f"fetch all {named}", "OffsetFetch", version, **fetch_one(group, None))
        for version in (8, 9, 10):
            wanted = {group: {"t": [0, 9], "nope": [0]}}
            side.ask(f"fetch {named}", "OffsetFetch", version, **fetch_groups(ids, wanted))
            side.ask(f"fetch all {named}", "OffsetFetch", version, **fetch_groups(ids, {group: None}))
        for version in (2, 8, 9, 10):
            side.ask(f"commit {named}", "OffsetCommit", version, **commit(ids, group + "y", {"t": {0: 1}}, "m", 4))
    side.ask("leave, nobody", "LeaveGroup", 5, **leave("x3"))
    side.ask("fetch no groups", "OffsetFetch", 9, groups=[])
    side.ask("delete no groups", "DeleteGroups", 2, groups_names=[])
    side.ask("describe no groups", "DescribeGroups", 5, groups=[])


def _commits(side: Side, ids: dict[str, bytes]) -> None:
    for version in (2, 5, 9, 10):
        group = f"c{version}"

        def ask(
            label: str,
            offsets: Any,
            member: str = "",
            generation: int = -1,
            version: int = version,
            group: str = group,
            **more: Any,
        ) -> None:
            side.ask(label, "OffsetCommit", version, **commit(ids, group, offsets, member, generation, **more))

        ask("commit", {"t": {0: 5, 1: 6, 7: 1}, "nope": {0: 1}}, metadata="näh")
        ask("commit for an unknown topic", {"nope": {0: 1}})
        ask("commit nothing", {})
        ask("commit much metadata", {"t": {0: 5}, "u": {0: 1}}, metadata="x" * 5000)
        ask("commit no metadata", {"u": {0: -5}}, metadata=None)
        ask("commit as a member", {"t": {0: 5}}, "m")
        ask("commit as an instance", {"t": {0: 5}}, "m", instance="i" if version >= 7 else None)
        ask("commit in generation 0", {"t": {0: 5}}, "m", 0)
        wanted = {"t": [0, 1, 7], "u": [0], "nope": [2]}
        for fetched in (1, 2, 5, 7):
            side.ask(f"fetch after {version}", "OffsetFetch", fetched, **fetch_one(group, wanted))
        for fetched in (8, 9, 10):
            several = fetch_groups(ids, {group: wanted, "zz": {"t": [0]}})
            side.ask(f"fetch after {version}", "OffsetFetch", fetched, **several)
            everything = fetch_groups(ids, {group: None}, require_stable=True)
            side.ask(f"fetch all after {version}", "OffsetFetch", fetched, **everything)
        side.ask(f"fetch all after {version}", "OffsetFetch", 3, **fetch_one(group, None))
    for version in (1, 7):
        side.ask("fetch no topics", "OffsetFetch", version, **fetch_one("c9", {}))
    side.ask("fetch no topics", "OffsetFetch", 9, **fetch_groups(ids, {"c9": {}}))
    side.ask("delete offsets", "OffsetDelete", 0, **offset_delete("c2", t=[0, 9], nope=[1], u=[1]))
    side.ask("delete no offsets", "OffsetDelete", 0, **offset_delete("c2"))
    twice = {"groups": ["c2", "c2", "c5"], "include_authorized_operations": True}
    side.both("describe groups of offsets only", "DescribeGroups", **twice)


def _odd_names(side: Side, ids: dict[str, bytes]) -> None:
    """Group ids are any text, and stay apart."""
    odd = ("/", ".", "..", "a/b", "a%2Fb", " ", "")
    for number, group in enumerate(odd):
        side.both(f"commit to group {group!r}", "OffsetCommit", **commit(ids, group, {"t": {0: number}}))
    for group in odd:
        side.ask(f"fetch of group {group!r}", "OffsetFetch", 9, **fetch_groups(ids, {group: {"t": [0]}}))


def _lists(side: Side) -> None:
    for states in (["Empty"], ["empty", "DEAD"], ["nonsense"], []):
        for kinds in ([], ["classic"], ["Consumer"], ["nonsense"]):
            side.ask(f"list {states} {kinds}", "ListGroups", 5, states_filter=states, types_filter=kinds)
    for version in range(5):
        side.ask("list", "ListGroups", version)
    side.ask("delete groups of offsets", "DeleteGroups", 2, groups_names=["c2", "c5", "c5", "nowhere"])
    side.ask("delete it again", "DeleteGroups", 0, groups_names=["c2"])
