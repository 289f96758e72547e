"""Stories of groups that form, grow and shrink."""

from types import SimpleNamespace
from uuid import UUID

from tests.coordinator.group.ground import Ground, subscription
from tidelog.coordinator.group.classic.group import ClassicGroup, ClassicGroupState
from tidelog.errors import ErrorCode

DELAY = 3_000
"""group.initial.rebalance.delay.ms"""


def the_group(ground, group="g"):
    return ground.machine.groups[group]


def test_two_consumers_that_join_at_once_both_get_partitions():
    ground = Ground()
    a, b = ground.new_member(), ground.new_member()
    joins = [ground.join(a), ground.join(b)]
    assert not any(token in ground.answers for token in joins), "a new group waits for more members"

    ground.pass_time(2 * DELAY)

    first, second = (ground.answers[token] for token in joins)
    assert first.generation_id == second.generation_id == 1
    assert first.leader == second.leader == a
    assert [member.member_id for member in first.members] == [a, b], "the leader is told of everybody"
    assert second.members == [], "nobody else is"
    assert (first.protocol_name, first.protocol_type) == ("range", "consumer")

    follower = ground.sync(b, 1)
    assert follower not in ground.answers, "the assignment is not there yet"
    leader = ground.sync(a, 1, {a: b"0", b: b"1"})
    assert ground.answers[leader].assignment == b"0"
    assert ground.answers[follower].assignment == b"1"
    assert the_group(ground).state is ClassicGroupState.STABLE
    assert ground.heartbeat(a, 1) == ground.heartbeat(b, 1) == ErrorCode.NONE


def test_a_new_group_waits_again_for_each_latecomer_up_to_the_rebalance_timeout():
    ground = Ground()
    a = ground.join(ground.new_member(rebalance=7_000), rebalance=7_000)
    ground.pass_time(DELAY - 1)
    b = ground.join(ground.new_member(rebalance=7_000), rebalance=7_000)
    ground.pass_time(DELAY)
    assert a not in ground.answers
    c = ground.join(ground.new_member(rebalance=7_000), rebalance=7_000)
    ground.pass_time(DELAY)
    assert ground.answers[a].generation_id == ground.answers[b].generation_id == 1
    assert ground.answers[c].generation_id == 1
    assert ground.now.mono <= 7_000 + DELAY


def test_without_a_delay_a_group_forms_at_once():
    ground = Ground({"group.initial.rebalance.delay.ms": "0"})
    join = ground.join(ground.new_member())
    ground.pass_time(0)
    assert ground.answers[join].generation_id == 1


def test_an_old_client_joins_without_being_asked_to_come_again():
    ground = Ground()
    join = ground.join("", version=3)
    ground.pass_time(DELAY)
    answer = ground.answers[join]
    assert answer.error_code == ErrorCode.NONE
    assert answer.member_id.startswith("client-")
    assert answer.leader == answer.member_id


def test_a_third_member_makes_the_others_join_again():
    ground = Ground()
    (a, b), _ = ground.stable(count=2)
    c = ground.new_member()
    joins = {c: ground.join(c)}
    assert the_group(ground).state is ClassicGroupState.PREPARING_REBALANCE
    assert ground.heartbeat(a, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    joins[a] = ground.join(a)
    assert not any(token in ground.answers for token in joins.values())
    joins[b] = ground.join(b)
    answers = {who: ground.answers[token] for who, token in joins.items()}
    assert {answer.generation_id for answer in answers.values()} == {2}
    assert answers[a].leader == a, "the leader stays"
    assert len(answers[a].members) == 3


def test_who_does_not_join_again_in_time_is_left_out():
    ground = Ground()
    (a, b), _ = ground.stable(count=2, rebalance=5_000, session=30_000)
    join = ground.join(b, rebalance=5_000, session=30_000, protocols={"range": subscription("t", "u")})
    ground.pass_time(5_000)
    answer = ground.answers[join]
    assert answer.leader == b, "the leader was the one that did not come"
    assert [member.member_id for member in answer.members] == [b]
    assert ground.heartbeat(a, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_when_the_leader_dies_another_one_leads():
    ground = Ground()
    (a, b, c), _ = ground.stable(count=3, session=10_000)
    ground.pass_time(6_000)
    assert ground.heartbeat(b, 1) == ground.heartbeat(c, 1) == ErrorCode.NONE
    ground.pass_time(5_000)
    assert a not in the_group(ground).members, "its session is over"
    assert ground.heartbeat(b, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    joins = [ground.join(b), ground.join(c)]
    answers = [ground.answers[token] for token in joins]
    assert {answer.leader for answer in answers} <= {b, c}
    assert answers[0].leader == answers[1].leader
    assert {answer.generation_id for answer in answers} == {2}


def test_a_member_that_leaves_sets_off_a_rebalance():
    ground = Ground()
    (a, b), _ = ground.stable(count=2)
    assert ground.leave(b) == [ErrorCode.NONE]
    assert ground.heartbeat(b, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert ground.heartbeat(a, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    join = ground.join(a)
    assert ground.answers[join].generation_id == 2


def test_the_last_member_leaves_an_empty_group_of_a_new_generation():
    ground = Ground()
    (a,), _ = ground.stable()
    assert ground.leave(a) == [ErrorCode.NONE]
    group = the_group(ground)
    assert (group.state, group.generation, group.protocol) == (ClassicGroupState.EMPTY, 2, None)
    assert ground.machine.saved["g"].generation == 2
    assert ground.machine.saved["g"].members == []


def test_members_leave_in_a_batch_and_are_answered_each_for_itself():
    ground = Ground()
    (a, b), _ = ground.stable(count=2)
    pending = ground.new_member()
    codes = ground.leave(a, "nobody", (b, "not-static"), pending)
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]
    assert list(the_group(ground).members) == [b]


def test_a_pending_member_that_never_joins_holds_up_a_rebalance_for_its_session_only():
    ground = Ground()
    (a,), _ = ground.stable(session=30_000)
    ground.new_member(session=10_000)
    join = ground.join(a, session=30_000)
    assert join not in ground.answers
    ground.pass_time(10_000)
    assert ground.answers[join].generation_id == 2


def test_the_leader_may_always_ask_for_a_rebalance_a_follower_only_with_news():
    ground = Ground()
    (a, b), _ = ground.stable(count=2)
    answer = ground.answers[ground.join(b)]
    assert (answer.generation_id, answer.leader) == (1, a), "nothing is new: the present generation"
    assert the_group(ground).state is ClassicGroupState.STABLE
    ground.join(a)
    assert the_group(ground).state is ClassicGroupState.PREPARING_REBALANCE


def test_a_repeated_join_after_a_lost_answer_is_told_the_same_generation():
    ground = Ground()
    a = ground.new_member()
    first = ground.join(a)
    ground.pass_time(DELAY)
    again = ground.join(a)
    assert ground.answers[again] == ground.answers[first]


def test_who_joined_and_never_syncs_is_removed():
    ground = Ground()
    a, b = ground.new_member(rebalance=8_000, session=60_000), ground.new_member(rebalance=8_000, session=60_000)
    for who in (a, b):
        ground.join(who, rebalance=8_000, session=60_000)
    ground.pass_time(8_000)
    ground.sync(a, 1, {a: b"all"})
    ground.pass_time(8_000)
    assert list(the_group(ground).members) == [a]
    assert the_group(ground).state is ClassicGroupState.PREPARING_REBALANCE


def test_a_member_waiting_for_the_group_does_not_expire():
    ground = Ground()
    (a, b), _ = ground.stable(count=2, session=6_000, rebalance=60_000)
    join = ground.join(a, session=6_000)
    for _ in range(5):
        ground.pass_time(5_000)
        assert ground.heartbeat(b, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert join not in ground.answers
    assert a in the_group(ground).members
    ground.join(b, session=6_000)
    assert ground.answers[join].error_code == ErrorCode.NONE


def test_cooperative_clients_rebalance_twice():
    """KIP-429 lives in the clients: a first generation revokes, a second one hands out; the coordinator only has to
    let the owner of revoked partitions ask for the second one."""
    cooperative = {"cooperative-sticky": subscription("t", version=1)}
    ground = Ground()
    (a,), _ = ground.stable(protocols=cooperative)
    b = ground.new_member(protocols=cooperative)
    join_b, join_a = ground.join(b, protocols=cooperative), ground.join(a, protocols=cooperative)
    assert ground.answers[join_a].protocol_name == "cooperative-sticky"
    revoke = ground.sync(a, 2, {a: b"half", b: b""})
    empty = ground.sync(b, 2)
    assert ground.answers[revoke].assignment == b"half"
    assert ground.answers[empty].assignment == b""

    revoked = {"cooperative-sticky": subscription("t", version=1) + b"owned: half"}
    join_a = ground.join(a, protocols=revoked)
    assert ground.heartbeat(b, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    join_b = ground.join(b, protocols=cooperative)
    assert ground.answers[join_a].generation_id == ground.answers[join_b].generation_id == 3
    ground.sync(a, 3, {a: b"half", b: b"other half"})
    assert ground.answers[ground.sync(b, 3)].assignment == b"other half"


def test_the_protocol_with_most_votes_that_all_support_wins():
    ground = Ground()
    both = {"sticky": b"s", "range": b"r"}
    wishes = [both, both, {"range": b"r", "roundrobin": b"o", "sticky": b"s"}, {"range": b"r", "sticky": b"s"}]
    members = [ground.new_member(protocols=wish, kind="mine") for wish in [*wishes, wishes[3]]]
    joins = [
        ground.join(who, protocols=wish, kind="mine") for who, wish in zip(members, [*wishes, wishes[3]], strict=True)
    ]
    ground.pass_time(6_000)
    assert {ground.answers[token].protocol_name for token in joins} == {"range"}


def test_who_has_no_protocol_in_common_stays_outside():
    ground = Ground()
    ground.stable()
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert ground.answers[ground.join(protocols={"other": b""})].error_code == code
    assert ground.answers[ground.join(kind="connect")].error_code == code
    fresh = Ground()
    assert fresh.answers[fresh.join(kind="")].error_code == code


def test_a_full_group_accepts_nobody():
    ground = Ground({"group.max.size": "2"})
    ground.stable(count=2)
    answer = ground.answers[ground.join()]
    assert (answer.error_code, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")


def test_session_timeouts_have_bounds():
    ground = Ground()
    for session in (5_999, 1_800_001):
        assert ground.answers[ground.join(session=session)].error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert ground.answers[ground.join(session=6_000)].error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_requests_that_name_no_group_or_an_unknown_one():
    ground = Ground()
    assert ground.answers[ground.join(group="")].error_code == ErrorCode.INVALID_GROUP_ID
    assert ground.answers[ground.join("somebody", group="none")].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert ground.answers[ground.sync("a", 1, group="")].error_code == ErrorCode.INVALID_GROUP_ID
    assert ground.answers[ground.sync("a", 1, group="none")].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert ground.heartbeat("a", 1, group="") == ErrorCode.INVALID_GROUP_ID
    assert ground.heartbeat("a", 1, group="none") == ErrorCode.UNKNOWN_MEMBER_ID
    assert ground.leave("a", group="") == ErrorCode.INVALID_GROUP_ID
    assert ground.leave("a", group="none") == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_member_must_know_its_generation_and_protocol():
    ground = Ground()
    (a, _), generation = ground.stable(count=2)
    assert ground.heartbeat(a, generation + 1) == ErrorCode.ILLEGAL_GENERATION
    sync = ground.answers[ground.sync(a, generation - 1)]
    assert sync.error_code == ErrorCode.ILLEGAL_GENERATION
    sync = ground.answers[ground.sync(a, generation, protocol_type="connect", protocol_name="range")]
    assert sync.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    sync = ground.answers[ground.sync(a, generation, protocol_type="consumer", protocol_name="range")]
    assert (sync.error_code, sync.assignment) == (ErrorCode.NONE, a.encode())
    ground.join(a)
    assert ground.answers[ground.sync(a, generation)].error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_rebalance_during_the_sync_phase_sends_the_waiting_back():
    ground = Ground()
    a, b = ground.new_member(), ground.new_member()
    ground.join(a)
    ground.join(b)
    ground.pass_time(6_000)
    waiting = ground.sync(b, 1)
    ground.leave(a)
    assert ground.answers[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_idle_groups_cost_nothing():
    """However many groups there are: in ten minutes there is one look at each deadline, not one at every tick."""
    ground = Ground({"offsets.retention.check.interval.ms": "10000000"})
    for number in range(20):
        ground.stable(group=f"g{number}", session=1_500_000)
    ground.wakes = 0
    ground.pass_time(600_000)
    assert ground.wakes <= 20 + 1, "a session each, and the end of the last commit"


def test_the_id_of_a_member_ends_with_a_random_uuid():
    machine = Ground().machine
    drawn = bytes(range(20, 0, -1))
    machine._entropy = lambda size: drawn[:size]
    assert machine.new_member_id("client") == f"client-{UUID(bytes=drawn[:16], version=4)}"


def test_the_leader_stays_as_long_as_it_joins():
    group = ClassicGroup("g", 0)
    waits, is_gone = SimpleNamespace(join_token=1), SimpleNamespace(join_token=None)
    group.members, group.leader = {"a": waits, "b": waits}, "b"
    assert group.elect_joined_leader()
    assert group.leader == "b"
    group.members = {"a": waits, "b": is_gone}
    assert group.elect_joined_leader()
    assert group.leader == "a"
    group.members = {"a": is_gone, "b": is_gone}
    assert not group.elect_joined_leader()
    assert group.leader == "a"
