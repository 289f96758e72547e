"""The consumer protocol (KIP-848): heartbeats that make no sense, a life of three members, patterns, the way from the
classic protocol and back. Members name themselves, so that the names are the same on both sides."""

from typing import Any

from tests.compatibility.differential.group_requests import (
    commit,
    fetch_groups,
    join,
    leave,
    offset_delete,
    subscription,
    sync,
)
from tests.compatibility.differential.groups_script import await_coordinator
from tests.compatibility.differential.side import Side
from tests.waiting import wait_for

Owned = dict[str, list[int]]


def run(side: Side) -> None:
    ids = {name: side.topic(name, 2) for name in ("ct", "cu")}
    await_coordinator(side, "c")
    _senseless(side, ids)
    _life(side, ids)
    _static(side, ids)
    _patterns(side, ids)
    _operators(side, ids)
    _from_classic(side, ids)
    _back_to_classic(side, ids)


def _beat(member: str, epoch: int, group: str = "c", **more: Any) -> dict[str, Any]:
    return {"group_id": group, "member_id": member, "member_epoch": epoch, **more}


def _join(member: str, *topics: str, group: str = "c", **more: Any) -> dict[str, Any]:
    said = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": list(topics), "topic_partitions": []}
    return _beat(member, 0, group, **(said | more))


def _owned(ids: dict[str, bytes], owned: Owned) -> list[dict[str, Any]]:
    return [{"topic_id": ids[name], "partitions": numbers} for name, numbers in owned.items()]


def _senseless(side: Side, ids: dict[str, bytes]) -> None:
    api = "ConsumerGroupHeartbeat"
    for label, change in {
        "no member": {"member_id": ""},
        "no group": {"group_id": ""},
        "no instance": {"instance_id": ""},
        "no rack": {"rack_id": ""},
        "no timeout": {"rebalance_timeout_ms": -1},
        "no partitions": {"topic_partitions": None},
        "partitions": {"topic_partitions": _owned(ids, {"ct": [0]})},
        "no topics": {"subscribed_topic_names": None},
        "epoch -2": {"member_epoch": -2},
        "epoch -3": {"member_epoch": -3},
        "another assignor": {"server_assignor": "sticky"},
        "a bad pattern": {"subscribed_topic_regex": "["},
        "a reference back": {"subscribed_topic_regex": r"(a)\1"},
        "a look ahead": {"subscribed_topic_regex": "(?=a)b"},
    }.items():
        side.ask(f"senseless: {label}", api, 1, **(_join("m", "ct", group="senseless") | change))
    for label, change in {
        "no member": {"member_id": "", "member_epoch": 1},
        "a member that leaves": {"member_id": "", "member_epoch": -1},
        "no timeout": {"rebalance_timeout_ms": -1},
    }.items():
        side.ask(f"senseless, old: {label}", api, 0, **(_join("m", "ct", group="senseless") | change))
    side.ask("a heartbeat to no group", api, 1, **_beat("m", 1, "nowhere"))
    side.ask("leaving no group", api, 1, **_beat("m", -1, "nowhere"))
    side.both(
        "describe nothing", "ConsumerGroupDescribe", group_ids=["nowhere", ""], include_authorized_operations=True
    )


def _life(side: Side, ids: dict[str, bytes]) -> None:
    def beat(label: str, member: str, epoch: int, owned: Owned | None = None, **more: Any) -> Any:
        said = None if owned is None else _owned(ids, owned)
        request = _beat(member, epoch, **{"topic_partitions": said, **more})
        return side.ask(label, "ConsumerGroupHeartbeat", 1, **request)

    def describe(label: str) -> None:
        side.both(label, "ConsumerGroupDescribe", group_ids=["c"], include_authorized_operations=True)

    side.ask("a joins", "ConsumerGroupHeartbeat", 1, **_join("a", "ct"))
    describe("one member")
    beat("a is idle", "a", 2)
    beat("a says all", "a", 2, {"ct": [0, 1]}, rebalance_timeout_ms=30_000, subscribed_topic_names=["ct"])
    side.ask("a joins again", "ConsumerGroupHeartbeat", 1, **_join("a", "ct"))
    beat("a is ahead", "a", 8)
    beat("a stranger", "zz", 2)
    side.ask("b joins", "ConsumerGroupHeartbeat", 1, **_join("b", "ct"))
    describe("two members, one waits")
    beat("a is to give up", "a", 2, {"ct": [0, 1]})
    beat("a has not yet", "a", 2, {"ct": [0, 1]})
    describe("a has to give up")
    beat("b waits", "b", 3, {})
    beat("a has given up", "a", 2, {"ct": [0]})
    beat("b gets it", "b", 3, {})
    describe("two members at rest")
    beat("a repeats the epoch before", "a", 2, {"ct": [0]})
    beat("a repeats the epoch before with too much", "a", 2, {"ct": [0, 1]})
    beat("a repeats the epoch before without a word", "a", 2)
    _positions(side, ids)
    beat("a drops the topic", "a", 3, {"ct": [0]}, subscribed_topic_names=["cu"])
    beat("a has dropped it", "a", 3, {})
    describe("each has a topic of its own")
    beat("b follows", "b", 3, {"ct": [1]})
    beat("b has all of it", "b", 4, {"ct": [0, 1]})
    beat("b leaves", "b", -1)
    beat("b has left", "b", 4)
    beat("a goes on", "a", 4, {"cu": [0, 1]})
    beat("a leaves", "a", -1)
    describe("nobody is left")


def _positions(side: Side, ids: dict[str, bytes]) -> None:
    for label, member, epoch, version in (
        ("commit", "a", 3, 9),
        ("commit by ids", "a", 3, 10),
        ("commit of old", "a", 3, 8),
        ("commit of the epoch before", "a", 2, 9),
        ("commit of the epoch to come", "a", 4, 9),
        ("commit of a stranger", "zz", 3, 9),
        ("commit of an outsider", "", -1, 9),
    ):
        side.ask(f"c: {label}", "OffsetCommit", version, **commit(ids, "c", {"ct": {0: 5}}, member, epoch))
    side.ask("c: commit of what b has since", "OffsetCommit", 9, **commit(ids, "c", {"ct": {1: 5}}, "b", 2))
    for label, member, epoch in (
        ("fetch", "a", 3),
        ("fetch of the epoch before", "a", 2),
        ("fetch of a stranger", "zz", 3),
        ("fetch of an outsider", None, -1),
        ("fetch of nobody", None, 3),
    ):
        request = fetch_groups(ids, {"c": {"ct": [0, 1]}})
        request["groups"][0] |= {"member_id": member, "member_epoch": epoch}
        for stable in (False, True):
            side.ask(f"c: {label}, stable {stable}", "OffsetFetch", 9, **request, require_stable=stable)
            side.ask(f"c: {label}, stable {stable}", "OffsetFetch", 10, **request, require_stable=stable)
    side.ask("c: delete offsets", "OffsetDelete", 0, **offset_delete("c", ct=[0], cu=[0]))
    side.ask("c: delete the group", "DeleteGroups", 2, groups_names=["c"])


def _static(side: Side, ids: dict[str, bytes]) -> None:
    def beat(label: str, member: str, epoch: int, instance: str = "i", **more: Any) -> None:
        request = _beat(member, epoch, "s", instance_id=instance, **more)
        side.ask(f"static: {label}", "ConsumerGroupHeartbeat", 1, **request)

    side.ask("static: a joins", "ConsumerGroupHeartbeat", 1, **_join("a", "ct", group="s", instance_id="i"))
    side.ask("static: the name is in use", "ConsumerGroupHeartbeat", 1, **_join("b", "ct", group="s", instance_id="i"))
    beat("an unknown name", "a", 2, "j")
    beat("another member's name", "b", 2)
    beat("a goes for a while", "a", -2)
    side.both("static: described meanwhile", "ConsumerGroupDescribe", group_ids=["s"])
    side.ask("static: b comes back", "ConsumerGroupHeartbeat", 1, **_join("b", "ct", group="s", instance_id="i"))
    beat("a is fenced", "a", 2)
    beat("b goes on", "b", 2)
    side.both("static: described", "ConsumerGroupDescribe", group_ids=["s"])
    side.ask("static: removed by an operator", "LeaveGroup", 5, **leave("s", ("", "i"), ("", "j")))
    beat("b is gone", "b", 2)


def _await(side: Side, group: str, look: Any) -> Any:
    """A description that is as wanted: Kafka resolves patterns behind the back of a heartbeat."""

    def found() -> Any:
        group_found = side.quiet("ConsumerGroupDescribe", 1, group_ids=[group]).groups[0]
        return group_found if look(group_found) else None

    return wait_for(found, f"{side}: {group} as wanted")


def _patterns(side: Side, ids: dict[str, bytes]) -> None:
    request = _join("p", group="p", subscribed_topic_regex="c[tu]")
    side.quiet("ConsumerGroupHeartbeat", 1, **request)
    _await(side, "p", lambda group: group.group_epoch >= 2)
    side.ask("pattern: a member joins", "ConsumerGroupHeartbeat", 1, **request)
    side.both("pattern: described", "ConsumerGroupDescribe", group_ids=["p"])
    side.ask("pattern: it leaves", "ConsumerGroupHeartbeat", 1, **_beat("p", -1, "p"))


def _operators(side: Side, ids: dict[str, bytes]) -> None:
    side.quiet("ConsumerGroupHeartbeat", 1, **_join("o", "ct", group="o"))
    side.both("DescribeGroups of a consumer group", "DescribeGroups", 5, groups=["o"])
    for label, more in {
        "all": {},
        "consumer": {"types_filter": ["consumer"]},
        "Consumer": {"types_filter": ["Consumer"]},
        "stable": {"states_filter": ["Stable"], "types_filter": ["consumer"]},
        "empty": {"states_filter": ["EMPTY"], "types_filter": ["consumer"]},
        "assigning": {"states_filter": ["Assigning", "Reconciling"]},
    }.items():
        answer = side.connection.ask("ListGroups", 5, **more)
        answer.groups = [group for group in answer.groups if group.group_id in ("c", "s", "p", "o")]
        side.record(f"list {label}", "ListGroups", 5, answer)
    side.ask("delete a group of the consumer protocol with members", "DeleteGroups", 2, groups_names=["o"])
    side.ask("o leaves", "ConsumerGroupHeartbeat", 1, **_beat("o", -1, "o"))
    side.ask("delete it", "DeleteGroups", 2, groups_names=["o", "c"])
    side.ask("it is gone", "ConsumerGroupDescribe", 1, group_ids=["o", "c"])


def _classic(side: Side, group: str, name: str, topic: str = "ct") -> dict[str, Any]:
    """A request to join of a member that has been given an id."""
    protocols = [{"name": "range", "metadata": subscription(topic)}]
    answer = side.quiet("JoinGroup", 9, **join(group, protocols=protocols))
    side.names[answer.member_id] = name
    return join(group, answer.member_id, protocols=protocols)


def _from_classic(side: Side, ids: dict[str, bytes]) -> None:
    asked = _classic(side, "u", "the classic one")
    member = asked["member_id"]
    joined = side.quiet("JoinGroup", 9, **asked)
    assignment = b"\0\0\0\0\0\1\0\2ct\0\0\0\2\0\0\0\0\0\0\0\1\xff\xff\xff\xff"
    side.quiet(
        "SyncGroup",
        5,
        **sync("u", member, joined.generation_id, {member: assignment}, kind="consumer", protocol="range"),
    )
    side.ask("upgrade: a heartbeat to a classic group", "ConsumerGroupHeartbeat", 1, **_beat("n", 1, "u"))
    side.ask("upgrade: describe a classic group", "ConsumerGroupDescribe", 1, group_ids=["u"])
    side.ask("upgrade: a member joins", "ConsumerGroupHeartbeat", 1, **_join("n", "ct", group="u"))
    side.both("upgrade: described", "ConsumerGroupDescribe", group_ids=["u"])
    beat = {"group_id": "u", "generation_id": 1, "member_id": member}
    side.ask("upgrade: the classic one is told", "Heartbeat", 4, **beat)
    side.ask("upgrade: its old generation", "SyncGroup", 5, **sync("u", member, 1, kind="consumer", protocol="range"))
    side.ask("upgrade: it commits meanwhile", "OffsetCommit", 9, **commit(ids, "u", {"ct": {0: 5}}, member, 1))
    again = side.connection.ask("JoinGroup", 9, **asked)
    side.record("upgrade: it joins", "JoinGroup", 9, again)
    generation = again.generation_id
    side.ask("upgrade: it syncs", "SyncGroup", 5, **sync("u", member, generation, kind="consumer", protocol="range"))
    side.ask("upgrade: it beats", "Heartbeat", 4, **(beat | {"generation_id": generation}))
    side.ask("upgrade: n gets its share", "ConsumerGroupHeartbeat", 1, **_beat("n", 2, "u", topic_partitions=[]))
    side.both("upgrade: described at rest", "ConsumerGroupDescribe", group_ids=["u"])
    for label, change in {
        "of a stranger": {"member_id": "zz"},
        "of a member of the other protocol": {"member_id": "n"},
        "of another generation": {"generation_id": 7},
    }.items():
        side.ask(f"upgrade: a heartbeat {label}", "Heartbeat", 4, **(beat | {"generation_id": generation} | change))
    other = join("u", protocols=[{"name": "zz", "metadata": subscription("ct")}])
    side.ask("upgrade: another assignor", "JoinGroup", 9, **other)
    side.ask("upgrade: no consumer", "JoinGroup", 9, **join("u", protocol_type="connect"))


def _back_to_classic(side: Side, ids: dict[str, bytes]) -> None:
    side.ask("downgrade: the last one leaves", "ConsumerGroupHeartbeat", 1, **_beat("n", -1, "u"))
    side.ask("downgrade: it is gone", "ConsumerGroupHeartbeat", 1, **_beat("n", 2, "u"))
    side.ask("downgrade: described", "DescribeGroups", 6, groups=["u"])
    side.ask("downgrade: described as what it was", "ConsumerGroupDescribe", 1, group_ids=["u"])
