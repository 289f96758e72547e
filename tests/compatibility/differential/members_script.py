"""Groups with members: a life of two dynamic members, a static one, and one that is no consumer."""

from typing import Any

from tests.compatibility.differential.group_requests import commit, join, leave, offset_delete, subscription, sync
from tests.compatibility.differential.groups_script import await_coordinator
from tests.compatibility.differential.side import Side
from tests.compatibility.differential.wire import Connection
from tests.waiting import wait_for


def run(side: Side) -> None:
    ids = {name: side.topic(name, 2) for name in ("mt", "mu")}
    await_coordinator(side, "g")
    first = _alone(side, ids)
    _two(side, ids, first)
    _static(side, ids)
    _no_consumer(side)


def _member(side: Side, name: str, label: str, version: int, **request: Any) -> Any:
    """Join; the member id that is given is called `name`. The answer is recorded after that."""
    answer = side.connection.ask("JoinGroup", version, **request)
    if answer.member_id:
        side.names[answer.member_id] = name
    side.record(label, "JoinGroup", version, answer)
    return answer


def _beat(side: Side, label: str, member: str, generation: int, group: str = "g", instance: str | None = None) -> None:
    who = {"group_id": group, "generation_id": generation, "member_id": member, "group_instance_id": instance}
    side.ask(label, "Heartbeat", 4, **who)


def _alone(side: Side, ids: dict[str, bytes]) -> str:
    def describe(label: str) -> None:
        side.both(label, "DescribeGroups", groups=["g"], include_authorized_operations=True)

    first = str(_member(side, "the first", "join without an id", 4, **join("g")).member_id)
    # Kafka describes what is committed.
    state = lambda: side.quiet("DescribeGroups", 5, groups=["g"]).groups[0].group_state  # noqa: E731
    wait_for(lambda: state() != "Dead", f"{side}: the group to be there")
    describe("described before it joined")
    _beat(side, "heartbeat before it joined", first, 0)
    side.ask("sync before it joined", "SyncGroup", 3, **sync("g", first, 0))
    side.ask("join with the id", "JoinGroup", 4, **join("g", first))
    describe("described before it synced")
    _beat(side, "heartbeat before it synced", first, 1)
    side.ask("commit before it synced", "OffsetCommit", 9, **commit(ids, "g", {"mt": {0: 1}}, first, 1))
    side.ask("join again before it synced", "JoinGroup", 9, **join("g", first))
    side.ask("delete offsets before it synced", "OffsetDelete", 0, **offset_delete("g", mt=[0]))
    side.ask("sync a wrong generation", "SyncGroup", 3, **sync("g", first, 5))
    side.ask("sync a wrong protocol", "SyncGroup", 5, **sync("g", first, 1, kind="consumer", protocol="x"))
    side.ask("sync a wrong kind", "SyncGroup", 5, **sync("g", first, 1, kind="x", protocol="range"))
    shares = {first: b"all", "ghost": b"x"}
    side.ask("sync", "SyncGroup", 5, **sync("g", first, 1, shares, kind="consumer", protocol="range"))
    side.ask("sync once more", "SyncGroup", 3, **sync("g", first, 1, {first: b"other"}))
    describe("described when it is stable")
    _beat(side, "heartbeat", first, 1)
    _beat(side, "heartbeat of another generation", first, 2)
    _beat(side, "heartbeat of a stranger", "zz", 1)
    _beat(side, "heartbeat of an instance", first, 1, instance="i")
    for label, member, generation, instance in (
        ("commit", first, 1, None),
        ("commit of another generation", first, 0, None),
        ("commit of an outsider", "", -1, None),
        ("commit of a stranger", "zz", -1, None),
        ("commit of an instance", first, 1, "i"),
    ):
        request = commit(ids, "g", {"mt": {0: 11}, "mu": {1: 3}}, member, generation, instance=instance)
        side.ask(label, "OffsetCommit", 9, **request)
    side.ask("delete offsets of what is subscribed", "OffsetDelete", 0, **offset_delete("g", mt=[0], mu=[1], t=[0]))
    side.both("delete a group with members", "DeleteGroups", groups_names=["g", "g", "nowhere"])
    side.ask("join as another kind", "JoinGroup", 9, **join("g", protocol_type="connect"))
    side.ask("join with another protocol", "JoinGroup", 9, **join("g", protocols=[{"name": "zz", "metadata": b""}]))
    side.ask("join as a stranger", "JoinGroup", 9, **join("g", "zz"))
    side.ask("join as an unknown instance", "JoinGroup", 9, **join("g", first, instance="i"))
    return first


def _two(side: Side, ids: dict[str, bytes], first: str) -> None:
    second = str(_member(side, "the second", "the second asks for an id", 9, **join("g")).member_id)
    other = Connection(side.port)
    other.send("JoinGroup", 9, **join("g", second))
    while side.quiet("DescribeGroups", 5, groups=["g"]).groups[0].group_state == "Stable":
        pass
    _beat(side, "heartbeat while the group prepares", first, 1)
    side.ask("commit while it prepares", "OffsetCommit", 9, **commit(ids, "g", {"mt": {0: 12}}, first, 1))
    side.ask("sync while it prepares", "SyncGroup", 3, **sync("g", first, 1))
    side.ask("described while it prepares", "DescribeGroups", 6, groups=["g"])
    side.ask("the first joins generation 2", "JoinGroup", 9, **join("g", first))
    side.note("the second joins generation 2", other.receive())
    other.send("SyncGroup", 3, **sync("g", second, 2))
    side.ask("the leader syncs", "SyncGroup", 3, **sync("g", first, 2, {first: b"A", second: b"B"}))
    side.note("the second syncs", other.receive())
    other.close()
    side.ask("a follower joins again", "JoinGroup", 9, **join("g", second))
    side.ask("some leave", "LeaveGroup", 5, **leave("g", (second, None), ("zz", None), ("", "i"), (first, "i")))
    side.ask("the first joins generation 3", "JoinGroup", 9, **join("g", first))
    side.ask("the first syncs nothing", "SyncGroup", 3, **sync("g", first, 3))
    side.ask("list the stable", "ListGroups", 5, states_filter=["Stable"])
    side.ask("the first leaves", "LeaveGroup", 2, **leave("g", (first, None)))
    side.ask("described when it is empty", "DescribeGroups", 6, groups=["g"])
    _beat(side, "heartbeat in an empty group", first, 4)
    side.ask("sync in an empty group", "SyncGroup", 3, **sync("g", first, 4))
    side.ask("join an empty group by an old id", "JoinGroup", 9, **join("g", first))
    for label, member, generation, instance in (
        ("commit to an empty group", "", -1, None),
        ("commit to an empty group in a generation", first, 4, None),
        ("commit to an empty group as an instance", "q", -1, "i"),
    ):
        request = commit(ids, "g", {"mt": {0: 1}}, member, generation, instance=instance)
        side.ask(label, "OffsetCommit", 9, **request)
    side.ask("delete an empty group", "DeleteGroups", 0, groups_names=["g"])


def _static(side: Side, ids: dict[str, bytes]) -> None:
    def ask_as(label: str, member: str, instance: str | None = "one") -> None:
        _beat(side, f"heartbeat {label}", member, 1, "s", instance)
        side.ask(f"sync {label}", "SyncGroup", 4, **sync("s", member, 1, instance=instance))

    names = {"group": "s", "instance": "one"}
    first = str(_member(side, "static 1", "a static member joins", 9, **join(**names)).member_id)
    side.ask("it syncs", "SyncGroup", 4, **sync("s", first, 1, {first: b"S"}, instance="one"))
    _beat(side, "heartbeat without its instance", first, 1, "s")
    second = str(_member(side, "static 2", "it joins anew", 9, **join(**names)).member_id)
    ask_as("under its old id", first)
    ask_as("under its old id without instance", first, None)
    side.ask("join under its old id", "JoinGroup", 9, **join("s", first, instance="one"))
    request = commit(ids, "s", {"mt": {0: 1}}, first, 1, instance="one")
    side.ask("commit under its old id", "OffsetCommit", 9, **request)
    side.ask("leave under its old id", "LeaveGroup", 5, **leave("s", (first, "one")))
    side.ask("sync under its new id", "SyncGroup", 4, **sync("s", second, 1, instance="one"))
    third = str(_member(side, "static 3", "it joins anew in an older version", 5, **join(**names)).member_id)
    again = side.ask("it joins under its known id", "JoinGroup", 9, **join("s", third, instance="one"))
    side.ask("it syncs again", "SyncGroup", 4, **sync("s", third, again.generation_id, {third: b"S"}, instance="one"))
    other = [{"name": "other", "metadata": subscription("mt")}]
    fourth = _member(side, "static 4", "it joins anew with another protocol", 9, **join(**names, protocols=other))
    member, generation = str(fourth.member_id), fourth.generation_id
    side.ask("it syncs the other", "SyncGroup", 4, **sync("s", member, generation, {member: b"S"}, instance="one"))
    side.ask("a static group described", "DescribeGroups", 4, groups=["s"])
    side.ask("it is removed by its instance", "LeaveGroup", 5, **leave("s", ("", "one")))
    side.ask("it is removed again", "LeaveGroup", 5, **leave("s", ("", "one")))


def _no_consumer(side: Side) -> None:
    worker: dict[str, Any] = {"protocol_type": "connect", "protocols": [{"name": "v1", "metadata": b"\1"}]}
    member = str(_member(side, "the worker", "a worker joins", 3, **join("k", **worker)).member_id)
    side.ask("delete offsets of workers", "OffsetDelete", 0, **offset_delete("k", mt=[0]))
    side.ask("the worker syncs", "SyncGroup", 0, **sync("k", member, 1, {member: b"K"}))
    side.ask("workers described", "DescribeGroups", 0, groups=["k"])
    side.ask("the worker's heartbeat", "Heartbeat", 0, group_id="k", generation_id=1, member_id=member)
    side.ask("the worker leaves", "LeaveGroup", 0, **leave("k", (member, None)))
    _member(side, "another worker", "a worker joins in version 0", 0, **join("k0", **worker))
