"""Stories of operators: listing, describing, deleting."""

from tests.coordinator.group.harness import GroupHarness, subscription
from tidelog.errors import ErrorCode
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.wire.messages.groups.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest


def listed(harness, **filters):
    answer = harness.ask(ListGroupsRequest(**filters), 5)
    assert answer.error_code == ErrorCode.NONE
    return {group.group_id: (group.group_state, group.protocol_type, group.group_type) for group in answer.groups}


def test_a_group_that_a_commit_made_is_listed_when_the_commit_is_committed():
    harness = GroupHarness()
    harness.commit({("t", 0): 1})
    harness.holding = True
    harness.commit({("t", 0): 1}, group="new")
    assert [*listed(harness)] == ["g"]
    harness.release()
    assert [*listed(harness)] == ["g", "new"]


def describe(harness, *groups, version=6):
    return harness.ask(DescribeGroupsRequest(groups=list(groups)), version).groups


def delete(harness, *groups):
    results = harness.ask(DeleteGroupsRequest(groups_names=list(groups)), 2).results
    return {result.group_id: ErrorCode(result.error_code) for result in results}


def delete_offsets(harness, positions, group="g"):
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        )
        for name, indexes in positions.items()
    ]
    answer = harness.ask(OffsetDeleteRequest(group_id=group, topics=topics))
    if answer.error_code:
        return ErrorCode(answer.error_code)
    return {(t.name, p.partition_index): ErrorCode(p.error_code) for t in answer.topics for p in t.partitions}


def test_groups_are_listed_by_state_and_type():
    harness = GroupHarness({"offsets.topic.num.partitions": "4"})
    harness.commit({("t", 0): 1}, group="simple")
    harness.stable(group="busy")
    harness.new_member(group="forming")
    everything = {
        "simple": ("Empty", "", "classic"),
        "busy": ("Stable", "consumer", "classic"),
        "forming": ("Empty", "", "classic"),
    }
    assert listed(harness) == everything
    assert listed(harness, states_filter=["stable", "Dead"]) == {"busy": everything["busy"]}
    assert listed(harness, types_filter=["Classic"]) == everything
    assert listed(harness, types_filter=["consumer"]) == {}


def test_a_group_that_is_not_committed_yet_is_not_shown():
    harness = GroupHarness()
    harness.holding = True
    harness.join()
    assert listed(harness) == {}
    assert describe(harness, "g")[0].group_state == "Dead"
    harness.release()
    assert listed(harness) == {"g": ("Empty", "", "classic")}


def test_a_group_is_described_with_its_members():
    harness = GroupHarness()
    (a,), _ = harness.stable()
    (group,) = describe(harness, "g")
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    (member,) = group.members
    assert member.member_id == a
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (subscription("t"), a.encode())
    harness.join(a)
    harness.new_member()
    harness.join(a, protocols={"range": subscription("u")})
    (group,) = describe(harness, "g")
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert group.members[0].member_metadata == b"", "nothing is agreed on"


def test_an_unknown_group_is_dead_or_an_error_by_version():
    harness = GroupHarness()
    old, new = describe(harness, "none", version=5)[0], describe(harness, "none", version=6)[0]
    assert (old.group_state, old.error_code) == ("Dead", ErrorCode.NONE)
    assert (new.group_state, new.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert "none" in new.error_message


def test_groups_of_several_partitions_are_answered_together():
    harness = GroupHarness({"offsets.topic.num.partitions": "4"})
    names = [f"group-{number}" for number in range(8)]
    for name in names:
        harness.commit({("t", 0): 1}, group=name)
    assert {group.group_id for group in describe(harness, *names)} == set(names)
    assert delete(harness, *names, "none", names[0]) == {
        **dict.fromkeys(names, ErrorCode.NONE),
        "none": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert listed(harness) == {}
    assert harness.ask(DeleteGroupsRequest(), 2).results == []
    assert harness.ask(DescribeGroupsRequest(), 2).groups == []


def test_a_group_with_members_is_not_deleted():
    harness = GroupHarness()
    (a,), _ = harness.stable()
    harness.commit({("t", 0): 1}, member=a, generation=1)
    assert delete(harness, "g") == {"g": ErrorCode.NON_EMPTY_GROUP}
    harness.leave(a)
    assert delete(harness, "g") == {"g": ErrorCode.NONE}
    assert harness.positions() == {}
    after = harness.failover()
    assert after.machine.groups == {}
    assert after.positions() == {}


def test_where_the_deletion_cannot_be_written_the_group_stays():
    harness = GroupHarness()
    harness.commit({("t", 0): 1})
    harness.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    assert delete(harness, "g") == {"g": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert harness.positions() == {("t", 0): 1}


def test_positions_of_subscribed_topics_are_not_deleted():
    harness = GroupHarness()
    (a,), _ = harness.stable()
    harness.commit({("t", 0): 1, ("u", 0): 1}, member=a, generation=1)
    assert delete_offsets(harness, {"t": [0], "u": [0, 9]}) == {
        ("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ("u", 0): ErrorCode.NONE,
        ("u", 9): ErrorCode.NONE,
    }
    assert harness.positions() == {("t", 0): 1}
    harness.leave(a)
    assert delete_offsets(harness, {"t": [0]}) == {("t", 0): ErrorCode.NONE}
    assert harness.positions() == {}


def test_positions_of_a_group_that_is_no_consumers_are_deleted_only_when_it_is_empty():
    harness = GroupHarness()
    harness.stable(kind="connect", protocols={"v1": b""})
    assert delete_offsets(harness, {"t": [0]}) == ErrorCode.NON_EMPTY_GROUP
    assert delete_offsets(harness, {"t": [0]}, "none") == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete_offsets(harness, {"t": [0]}, "") == ErrorCode.INVALID_GROUP_ID


def test_a_group_in_a_rebalance_is_not_deleted_though_its_last_member_has_left():
    harness = GroupHarness()
    member = harness.new_member()
    harness.join(member)
    harness.leave(member)
    assert not harness.machine.groups["g"].members
    assert delete(harness, "g") == {"g": ErrorCode.NON_EMPTY_GROUP}
    harness.pass_time(10_000)
    assert delete(harness, "g") == {"g": ErrorCode.NONE}
