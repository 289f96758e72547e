"""Stories of static members (KIP-345)."""

from tests.coordinator.group.ground import Ground, subscription
from tidelog.coordinator.group.classic.group import ClassicGroupState
from tidelog.errors import ErrorCode


def static_pair(ground, **how):
    """Two static members in a stable group; their ids, the leader first."""
    joins = {name: ground.join(instance=name, **how) for name in ("one", "two")}
    ground.pass_time(6_000)
    ids = {name: ground.answers[token].member_id for name, token in joins.items()}
    ground.sync(ids["two"], 1, instance="two")
    ground.sync(ids["one"], 1, {who: who.encode() for who in ids.values()}, instance="one")
    assert ground.machine.groups["g"].state is ClassicGroupState.STABLE
    return ids["one"], ids["two"]


def test_a_static_member_needs_no_second_join_and_carries_its_name():
    ground = Ground()
    one, _ = static_pair(ground)
    assert one.startswith("one-")


def test_a_restarted_static_member_takes_its_place_without_a_rebalance():
    ground = Ground()
    one, two = static_pair(ground)
    answer = ground.answers[ground.join(instance="two")]
    assert answer.error_code == ErrorCode.NONE
    assert answer.generation_id == 1
    assert answer.member_id not in {one, two}
    assert answer.leader == one
    assert answer.skip_assignment is False
    group = ground.machine.groups["g"]
    assert group.state is ClassicGroupState.STABLE
    sync = ground.answers[ground.sync(answer.member_id, 1, instance="two")]
    assert sync.assignment == two.encode(), "it goes on with what the process before it had"


def test_the_process_before_it_is_fenced():
    ground = Ground()
    _, two = static_pair(ground)
    ground.join(instance="two")
    assert ground.heartbeat(two, 1, instance="two") == ErrorCode.FENCED_INSTANCE_ID
    assert ground.answers[ground.sync(two, 1, instance="two")].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert ground.answers[ground.join(two, instance="two")].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert ground.leave((two, "two")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert ground.heartbeat(two, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert ground.heartbeat("x", 1, instance="three") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restarted_leader_is_told_to_skip_the_assignment():
    ground = Ground()
    _, two = static_pair(ground)
    answer = ground.answers[ground.join(instance="one", version=9)]
    assert answer.skip_assignment is True
    assert answer.leader == answer.member_id
    assert {member.member_id for member in answer.members} == {answer.member_id, two}


def test_an_old_leader_is_told_the_id_before_so_that_it_does_not_assign():
    ground = Ground()
    one, _ = static_pair(ground)
    answer = ground.answers[ground.join(instance="one", version=8)]
    assert answer.leader == one
    assert answer.member_id != one
    assert answer.members == []


def test_with_another_protocol_it_sets_off_a_rebalance():
    ground = Ground()
    both = {"range": subscription("t"), "sticky": subscription("t")}
    static_pair(ground, protocols=both)
    join = ground.join(instance="two", protocols={"sticky": subscription("t")})
    assert join not in ground.answers
    assert ground.machine.groups["g"].state is ClassicGroupState.PREPARING_REBALANCE


def test_two_processes_of_one_instance_that_join_at_once_leave_one_fenced():
    ground = Ground()
    first = ground.join(instance="one")
    second = ground.join(instance="one")
    assert ground.answers[first].error_code == ErrorCode.FENCED_INSTANCE_ID
    ground.pass_time(6_000)
    assert ground.answers[second].error_code == ErrorCode.NONE


def test_a_static_member_keeps_its_place_through_a_rebalance_until_its_session_ends():
    ground = Ground()
    one, two = static_pair(ground, session=30_000, rebalance=5_000)
    join = ground.join(one, instance="one", session=30_000, rebalance=5_000)
    ground.pass_time(5_000)
    assert {member.member_id for member in ground.answers[join].members} == {one, two}


def test_an_operator_removes_a_static_member_by_its_instance():
    ground = Ground()
    one, two = static_pair(ground)
    assert ground.leave(("", "two"), ("", "nobody")) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert list(ground.machine.groups["g"].members) == [one]
    assert two not in ground.machine.groups["g"].members


def test_where_the_new_id_cannot_be_written_the_old_process_stays():
    ground = Ground()
    one, two = static_pair(ground)
    ground.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    answer = ground.answers[ground.join(instance="two")]
    assert (answer.error_code, answer.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert set(ground.machine.groups["g"].members) == {one, two}
    assert ground.heartbeat(two, 1, instance="two") == ErrorCode.NONE


def test_the_new_id_survives_a_failover():
    ground = Ground()
    static_pair(ground)
    new = ground.answers[ground.join(instance="two")].member_id
    after = ground.failover()
    assert after.heartbeat(new, 1, instance="two") == ErrorCode.NONE


def test_a_restart_during_the_sync_phase_is_a_rebalance():
    ground = Ground()
    joins = {name: ground.join(instance=name) for name in ("one", "two")}
    ground.pass_time(6_000)
    two = ground.answers[joins["two"]].member_id
    waiting = ground.sync(two, 1, instance="two")
    ground.join(instance="two")
    assert ground.answers[waiting].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert ground.machine.groups["g"].state is ClassicGroupState.PREPARING_REBALANCE
