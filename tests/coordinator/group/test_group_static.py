"""Stories of static members (KIP-345)."""

from tests.coordinator.group.harness import GroupHarness, subscription
from tidelog.coordinator.group.classic.group import ClassicGroupState
from tidelog.errors import ErrorCode


def static_pair(harness, **how):
    """Two static members in a stable group; their ids, the leader first."""
    joins = {name: harness.join(instance=name, **how) for name in ("one", "two")}
    harness.pass_time(6_000)
    ids = {name: harness.answers[token].member_id for name, token in joins.items()}
    harness.sync(ids["two"], 1, instance="two")
    harness.sync(ids["one"], 1, {who: who.encode() for who in ids.values()}, instance="one")
    assert harness.machine.groups["g"].state is ClassicGroupState.STABLE
    return ids["one"], ids["two"]


def test_a_static_member_needs_no_second_join_and_carries_its_name():
    harness = GroupHarness()
    one, _ = static_pair(harness)
    assert one.startswith("one-")


def test_a_restarted_static_member_takes_its_place_without_a_rebalance():
    harness = GroupHarness()
    one, two = static_pair(harness)
    answer = harness.answers[harness.join(instance="two")]
    assert answer.error_code == ErrorCode.NONE
    assert answer.generation_id == 1
    assert answer.member_id not in {one, two}
    assert answer.leader == one
    assert answer.skip_assignment is False
    group = harness.machine.groups["g"]
    assert group.state is ClassicGroupState.STABLE
    sync = harness.answers[harness.sync(answer.member_id, 1, instance="two")]
    assert sync.assignment == two.encode(), "it goes on with what the process before it had"


def test_the_process_before_it_is_fenced():
    harness = GroupHarness()
    _, two = static_pair(harness)
    harness.join(instance="two")
    assert harness.heartbeat(two, 1, instance="two") == ErrorCode.FENCED_INSTANCE_ID
    assert harness.answers[harness.sync(two, 1, instance="two")].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert harness.answers[harness.join(two, instance="two")].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert harness.leave((two, "two")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert harness.heartbeat(two, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.heartbeat("x", 1, instance="three") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restarted_leader_is_told_to_skip_the_assignment():
    harness = GroupHarness()
    _, two = static_pair(harness)
    answer = harness.answers[harness.join(instance="one", version=9)]
    assert answer.skip_assignment is True
    assert answer.leader == answer.member_id
    assert {member.member_id for member in answer.members} == {answer.member_id, two}


def test_an_old_leader_is_told_the_id_before_so_that_it_does_not_assign():
    harness = GroupHarness()
    one, _ = static_pair(harness)
    answer = harness.answers[harness.join(instance="one", version=8)]
    assert answer.leader == one
    assert answer.member_id != one
    assert answer.members == []


def test_with_another_protocol_it_sets_off_a_rebalance():
    harness = GroupHarness()
    both = {"range": subscription("t"), "sticky": subscription("t")}
    static_pair(harness, protocols=both)
    join = harness.join(instance="two", protocols={"sticky": subscription("t")})
    assert join not in harness.answers
    assert harness.machine.groups["g"].state is ClassicGroupState.PREPARING_REBALANCE


def test_two_processes_of_one_instance_that_join_at_once_leave_one_fenced():
    harness = GroupHarness()
    first = harness.join(instance="one")
    second = harness.join(instance="one")
    assert harness.answers[first].error_code == ErrorCode.FENCED_INSTANCE_ID
    harness.pass_time(6_000)
    assert harness.answers[second].error_code == ErrorCode.NONE


def test_a_static_member_keeps_its_place_through_a_rebalance_until_its_session_ends():
    harness = GroupHarness()
    one, two = static_pair(harness, session=30_000, rebalance=5_000)
    join = harness.join(one, instance="one", session=30_000, rebalance=5_000)
    harness.pass_time(5_000)
    assert {member.member_id for member in harness.answers[join].members} == {one, two}


def test_an_operator_removes_a_static_member_by_its_instance():
    harness = GroupHarness()
    one, two = static_pair(harness)
    assert harness.leave(("", "two"), ("", "nobody")) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert list(harness.machine.groups["g"].members) == [one]
    assert two not in harness.machine.groups["g"].members


def test_where_the_new_id_cannot_be_written_the_old_process_stays():
    harness = GroupHarness()
    one, two = static_pair(harness)
    harness.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    answer = harness.answers[harness.join(instance="two")]
    assert (answer.error_code, answer.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert set(harness.machine.groups["g"].members) == {one, two}
    assert harness.heartbeat(two, 1, instance="two") == ErrorCode.NONE


def test_the_new_id_survives_a_failover():
    harness = GroupHarness()
    static_pair(harness)
    new = harness.answers[harness.join(instance="two")].member_id
    after = harness.failover()
    assert after.heartbeat(new, 1, instance="two") == ErrorCode.NONE


def test_a_restart_during_the_sync_phase_is_a_rebalance():
    harness = GroupHarness()
    joins = {name: harness.join(instance=name) for name in ("one", "two")}
    harness.pass_time(6_000)
    two = harness.answers[joins["two"]].member_id
    waiting = harness.sync(two, 1, instance="two")
    harness.join(instance="two")
    assert harness.answers[waiting].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert harness.machine.groups["g"].state is ClassicGroupState.PREPARING_REBALANCE
