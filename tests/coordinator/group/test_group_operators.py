"""Stories of operators: listing, describing, deleting."""

from tests.coordinator.group.ground import Ground, subscription
from tidelog.errors import ErrorCode
from tidelog.wire.messages.groups.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.groups.describe_groups import DescribeGroupsRequest
from tidelog.wire.messages.groups.list_groups import ListGroupsRequest
from tidelog.wire.messages.groups.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)


def listed(ground, **filters):
    answer = ground.ask(ListGroupsRequest(**filters), 5)
    assert answer.error_code == ErrorCode.NONE
    return {group.group_id: (group.group_state, group.protocol_type, group.group_type) for group in answer.groups}


def test_a_group_that_a_commit_made_is_listed_when_the_commit_is_committed():
    ground = Ground()
    ground.commit({("t", 0): 1})
    ground.holding = True
    ground.commit({("t", 0): 1}, group="new")
    assert [*listed(ground)] == ["g"]
    ground.release()
    assert [*listed(ground)] == ["g", "new"]


def describe(ground, *groups, version=6):
    return ground.ask(DescribeGroupsRequest(groups=list(groups)), version).groups


def delete(ground, *groups):
    results = ground.ask(DeleteGroupsRequest(groups_names=list(groups)), 2).results
    return {result.group_id: ErrorCode(result.error_code) for result in results}


def delete_offsets(ground, positions, group="g"):
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        )
        for name, indexes in positions.items()
    ]
    answer = ground.ask(OffsetDeleteRequest(group_id=group, topics=topics))
    if answer.error_code:
        return ErrorCode(answer.error_code)
    return {(t.name, p.partition_index): ErrorCode(p.error_code) for t in answer.topics for p in t.partitions}


def test_groups_are_listed_by_state_and_type():
    ground = Ground({"offsets.topic.num.partitions": "4"})
    ground.commit({("t", 0): 1}, group="simple")
    ground.stable(group="busy")
    ground.new_member(group="forming")
    everything = {
        "simple": ("Empty", "", "classic"),
        "busy": ("Stable", "consumer", "classic"),
        "forming": ("Empty", "", "classic"),
    }
    assert listed(ground) == everything
    assert listed(ground, states_filter=["stable", "Dead"]) == {"busy": everything["busy"]}
    assert listed(ground, types_filter=["Classic"]) == everything
    assert listed(ground, types_filter=["consumer"]) == {}


def test_a_group_that_is_not_committed_yet_is_not_shown():
    ground = Ground()
    ground.holding = True
    ground.join()
    assert listed(ground) == {}
    assert describe(ground, "g")[0].group_state == "Dead"
    ground.release()
    assert listed(ground) == {"g": ("Empty", "", "classic")}


def test_a_group_is_described_with_its_members():
    ground = Ground()
    (a,), _ = ground.stable()
    (group,) = describe(ground, "g")
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    (member,) = group.members
    assert member.member_id == a
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (subscription("t"), a.encode())
    ground.join(a)
    ground.new_member()
    ground.join(a, protocols={"range": subscription("u")})
    (group,) = describe(ground, "g")
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert group.members[0].member_metadata == b"", "nothing is agreed on"


def test_an_unknown_group_is_dead_or_an_error_by_version():
    ground = Ground()
    old, new = describe(ground, "none", version=5)[0], describe(ground, "none", version=6)[0]
    assert (old.group_state, old.error_code) == ("Dead", ErrorCode.NONE)
    assert (new.group_state, new.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert "none" in new.error_message


def test_groups_of_several_partitions_are_answered_together():
    ground = Ground({"offsets.topic.num.partitions": "4"})
    names = [f"group-{number}" for number in range(8)]
    for name in names:
        ground.commit({("t", 0): 1}, group=name)
    assert {group.group_id for group in describe(ground, *names)} == set(names)
    assert delete(ground, *names, "none", names[0]) == {
        **dict.fromkeys(names, ErrorCode.NONE),
        "none": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert listed(ground) == {}
    assert ground.ask(DeleteGroupsRequest(), 2).results == []
    assert ground.ask(DescribeGroupsRequest(), 2).groups == []


def test_a_group_with_members_is_not_deleted():
    ground = Ground()
    (a,), _ = ground.stable()
    ground.commit({("t", 0): 1}, member=a, generation=1)
    assert delete(ground, "g") == {"g": ErrorCode.NON_EMPTY_GROUP}
    ground.leave(a)
    assert delete(ground, "g") == {"g": ErrorCode.NONE}
    assert ground.positions() == {}
    after = ground.failover()
    assert after.machine.groups == {}
    assert after.positions() == {}


def test_where_the_deletion_cannot_be_written_the_group_stays():
    ground = Ground()
    ground.commit({("t", 0): 1})
    ground.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    assert delete(ground, "g") == {"g": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert ground.positions() == {("t", 0): 1}


def test_positions_of_subscribed_topics_are_not_deleted():
    ground = Ground()
    (a,), _ = ground.stable()
    ground.commit({("t", 0): 1, ("u", 0): 1}, member=a, generation=1)
    assert delete_offsets(ground, {"t": [0], "u": [0, 9]}) == {
        ("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ("u", 0): ErrorCode.NONE,
        ("u", 9): ErrorCode.NONE,
    }
    assert ground.positions() == {("t", 0): 1}
    ground.leave(a)
    assert delete_offsets(ground, {"t": [0]}) == {("t", 0): ErrorCode.NONE}
    assert ground.positions() == {}


def test_positions_of_a_group_that_is_no_consumers_are_deleted_only_when_it_is_empty():
    ground = Ground()
    ground.stable(kind="connect", protocols={"v1": b""})
    assert delete_offsets(ground, {"t": [0]}) == ErrorCode.NON_EMPTY_GROUP
    assert delete_offsets(ground, {"t": [0]}, "none") == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete_offsets(ground, {"t": [0]}, "") == ErrorCode.INVALID_GROUP_ID


def test_a_group_in_a_rebalance_is_not_deleted_though_its_last_member_has_left():
    ground = Ground()
    member = ground.new_member()
    ground.join(member)
    ground.leave(member)
    assert not ground.machine.groups["g"].members
    assert delete(ground, "g") == {"g": ErrorCode.NON_EMPTY_GROUP}
    ground.pass_time(10_000)
    assert delete(ground, "g") == {"g": ErrorCode.NONE}
