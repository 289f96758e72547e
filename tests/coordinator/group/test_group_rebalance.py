"""Stories of groups that form, grow and shrink."""

from types import SimpleNamespace
from uuid import UUID

from tests.coordinator.group.harness import GroupHarness, subscription
from tidelog.coordinator.group.classic.group import ClassicGroup, ClassicGroupState
from tidelog.errors import ErrorCode

DELAY = 3_000
"""group.initial.rebalance.delay.ms"""


def the_group(harness, group="g"):
    return harness.machine.groups[group]


def test_two_consumers_that_join_at_once_both_get_partitions():
    harness = GroupHarness()
    a, b = harness.new_member(), harness.new_member()
    joins = [harness.join(a), harness.join(b)]
    assert not any(token in harness.answers for token in joins), "a new group waits for more members"

    harness.pass_time(2 * DELAY)

    first, second = (harness.answers[token] for token in joins)
    assert first.generation_id == second.generation_id == 1
    assert first.leader == second.leader == a
    assert [member.member_id for member in first.members] == [a, b], "the leader is told of everybody"
    assert second.members == [], "nobody else is"
    assert (first.protocol_name, first.protocol_type) == ("range", "consumer")

    follower = harness.sync(b, 1)
    assert follower not in harness.answers, "the assignment is not there yet"
    leader = harness.sync(a, 1, {a: b"0", b: b"1"})
    assert harness.answers[leader].assignment == b"0"
    assert harness.answers[follower].assignment == b"1"
    assert the_group(harness).state is ClassicGroupState.STABLE
    assert harness.heartbeat(a, 1) == harness.heartbeat(b, 1) == ErrorCode.NONE


def test_a_new_group_waits_again_for_each_latecomer_up_to_the_rebalance_timeout():
    harness = GroupHarness()
    a = harness.join(harness.new_member(rebalance=7_000), rebalance=7_000)
    harness.pass_time(DELAY - 1)
    b = harness.join(harness.new_member(rebalance=7_000), rebalance=7_000)
    harness.pass_time(DELAY)
    assert a not in harness.answers
    c = harness.join(harness.new_member(rebalance=7_000), rebalance=7_000)
    harness.pass_time(DELAY)
    assert harness.answers[a].generation_id == harness.answers[b].generation_id == 1
    assert harness.answers[c].generation_id == 1
    assert harness.now.mono <= 7_000 + DELAY


def test_without_a_delay_a_group_forms_at_once():
    harness = GroupHarness({"group.initial.rebalance.delay.ms": "0"})
    join = harness.join(harness.new_member())
    harness.pass_time(0)
    assert harness.answers[join].generation_id == 1


def test_an_old_client_joins_without_being_asked_to_come_again():
    harness = GroupHarness()
    join = harness.join("", version=3)
    harness.pass_time(DELAY)
    answer = harness.answers[join]
    assert answer.error_code == ErrorCode.NONE
    assert answer.member_id.startswith("client-")
    assert answer.leader == answer.member_id


def test_a_third_member_makes_the_others_join_again():
    harness = GroupHarness()
    (a, b), _ = harness.stable(count=2)
    c = harness.new_member()
    joins = {c: harness.join(c)}
    assert the_group(harness).state is ClassicGroupState.PREPARING_REBALANCE
    assert harness.heartbeat(a, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    joins[a] = harness.join(a)
    assert not any(token in harness.answers for token in joins.values())
    joins[b] = harness.join(b)
    answers = {who: harness.answers[token] for who, token in joins.items()}
    assert {answer.generation_id for answer in answers.values()} == {2}
    assert answers[a].leader == a, "the leader stays"
    assert len(answers[a].members) == 3


def test_who_does_not_join_again_in_time_is_left_out():
    harness = GroupHarness()
    (a, b), _ = harness.stable(count=2, rebalance=5_000, session=30_000)
    join = harness.join(b, rebalance=5_000, session=30_000, protocols={"range": subscription("t", "u")})
    harness.pass_time(5_000)
    answer = harness.answers[join]
    assert answer.leader == b, "the leader was the one that did not come"
    assert [member.member_id for member in answer.members] == [b]
    assert harness.heartbeat(a, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_when_the_leader_dies_another_one_leads():
    harness = GroupHarness()
    (a, b, c), _ = harness.stable(count=3, session=10_000)
    harness.pass_time(6_000)
    assert harness.heartbeat(b, 1) == harness.heartbeat(c, 1) == ErrorCode.NONE
    harness.pass_time(5_000)
    assert a not in the_group(harness).members, "its session is over"
    assert harness.heartbeat(b, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    joins = [harness.join(b), harness.join(c)]
    answers = [harness.answers[token] for token in joins]
    assert {answer.leader for answer in answers} <= {b, c}
    assert answers[0].leader == answers[1].leader
    assert {answer.generation_id for answer in answers} == {2}


def test_a_member_that_leaves_sets_off_a_rebalance():
    harness = GroupHarness()
    (a, b), _ = harness.stable(count=2)
    assert harness.leave(b) == [ErrorCode.NONE]
    assert harness.heartbeat(b, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.heartbeat(a, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    join = harness.join(a)
    assert harness.answers[join].generation_id == 2


def test_the_last_member_leaves_an_empty_group_of_a_new_generation():
    harness = GroupHarness()
    (a,), _ = harness.stable()
    assert harness.leave(a) == [ErrorCode.NONE]
    group = the_group(harness)
    assert (group.state, group.generation, group.protocol) == (ClassicGroupState.EMPTY, 2, None)
    assert harness.machine.saved["g"].generation == 2
    assert harness.machine.saved["g"].members == []


def test_members_leave_in_a_batch_and_are_answered_each_for_itself():
    harness = GroupHarness()
    (a, b), _ = harness.stable(count=2)
    pending = harness.new_member()
    codes = harness.leave(a, "nobody", (b, "not-static"), pending)
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]
    assert list(the_group(harness).members) == [b]


def test_a_pending_member_that_never_joins_holds_up_a_rebalance_for_its_session_only():
    harness = GroupHarness()
    (a,), _ = harness.stable(session=30_000)
    harness.new_member(session=10_000)
    join = harness.join(a, session=30_000)
    assert join not in harness.answers
    harness.pass_time(10_000)
    assert harness.answers[join].generation_id == 2


def test_the_leader_may_always_ask_for_a_rebalance_a_follower_only_with_news():
    harness = GroupHarness()
    (a, b), _ = harness.stable(count=2)
    answer = harness.answers[harness.join(b)]
    assert (answer.generation_id, answer.leader) == (1, a), "nothing is new: the present generation"
    assert the_group(harness).state is ClassicGroupState.STABLE
    harness.join(a)
    assert the_group(harness).state is ClassicGroupState.PREPARING_REBALANCE


def test_a_repeated_join_after_a_lost_answer_is_told_the_same_generation():
    harness = GroupHarness()
    a = harness.new_member()
    first = harness.join(a)
    harness.pass_time(DELAY)
    again = harness.join(a)
    assert harness.answers[again] == harness.answers[first]


def test_who_joined_and_never_syncs_is_removed():
    harness = GroupHarness()
    a, b = harness.new_member(rebalance=8_000, session=60_000), harness.new_member(rebalance=8_000, session=60_000)
    for who in (a, b):
        harness.join(who, rebalance=8_000, session=60_000)
    harness.pass_time(8_000)
    harness.sync(a, 1, {a: b"all"})
    harness.pass_time(8_000)
    assert list(the_group(harness).members) == [a]
    assert the_group(harness).state is ClassicGroupState.PREPARING_REBALANCE


def test_a_member_waiting_for_the_group_does_not_expire():
    harness = GroupHarness()
    (a, b), _ = harness.stable(count=2, session=6_000, rebalance=60_000)
    join = harness.join(a, session=6_000)
    for _ in range(5):
        harness.pass_time(5_000)
        assert harness.heartbeat(b, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert join not in harness.answers
    assert a in the_group(harness).members
    harness.join(b, session=6_000)
    assert harness.answers[join].error_code == ErrorCode.NONE


def test_cooperative_clients_rebalance_twice():
    """KIP-429 lives in the clients: a first generation revokes, a second one hands out; the coordinator only has to
    let the owner of revoked partitions ask for the second one."""
    cooperative = {"cooperative-sticky": subscription("t", version=1)}
    harness = GroupHarness()
    (a,), _ = harness.stable(protocols=cooperative)
    b = harness.new_member(protocols=cooperative)
    join_b, join_a = harness.join(b, protocols=cooperative), harness.join(a, protocols=cooperative)
    assert harness.answers[join_a].protocol_name == "cooperative-sticky"
    revoke = harness.sync(a, 2, {a: b"half", b: b""})
    empty = harness.sync(b, 2)
    assert harness.answers[revoke].assignment == b"half"
    assert harness.answers[empty].assignment == b""

    revoked = {"cooperative-sticky": subscription("t", version=1) + b"owned: half"}
    join_a = harness.join(a, protocols=revoked)
    assert harness.heartbeat(b, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    join_b = harness.join(b, protocols=cooperative)
    assert harness.answers[join_a].generation_id == harness.answers[join_b].generation_id == 3
    harness.sync(a, 3, {a: b"half", b: b"other half"})
    assert harness.answers[harness.sync(b, 3)].assignment == b"other half"


def test_the_protocol_with_most_votes_that_all_support_wins():
    harness = GroupHarness()
    both = {"sticky": b"s", "range": b"r"}
    wishes = [both, both, {"range": b"r", "roundrobin": b"o", "sticky": b"s"}, {"range": b"r", "sticky": b"s"}]
    members = [harness.new_member(protocols=wish, kind="mine") for wish in [*wishes, wishes[3]]]
    joins = [
        harness.join(who, protocols=wish, kind="mine") for who, wish in zip(members, [*wishes, wishes[3]], strict=True)
    ]
    harness.pass_time(6_000)
    assert {harness.answers[token].protocol_name for token in joins} == {"range"}


def test_who_has_no_protocol_in_common_stays_outside():
    harness = GroupHarness()
    harness.stable()
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.answers[harness.join(protocols={"other": b""})].error_code == code
    assert harness.answers[harness.join(kind="connect")].error_code == code
    fresh = GroupHarness()
    assert fresh.answers[fresh.join(kind="")].error_code == code


def test_a_full_group_accepts_nobody():
    harness = GroupHarness({"group.max.size": "2"})
    harness.stable(count=2)
    answer = harness.answers[harness.join()]
    assert (answer.error_code, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")


def test_session_timeouts_have_bounds():
    harness = GroupHarness()
    for session in (5_999, 1_800_001):
        assert harness.answers[harness.join(session=session)].error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert harness.answers[harness.join(session=6_000)].error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_requests_that_name_no_group_or_an_unknown_one():
    harness = GroupHarness()
    assert harness.answers[harness.join(group="")].error_code == ErrorCode.INVALID_GROUP_ID
    assert harness.answers[harness.join("somebody", group="none")].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.answers[harness.sync("a", 1, group="")].error_code == ErrorCode.INVALID_GROUP_ID
    assert harness.answers[harness.sync("a", 1, group="none")].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.heartbeat("a", 1, group="") == ErrorCode.INVALID_GROUP_ID
    assert harness.heartbeat("a", 1, group="none") == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.leave("a", group="") == ErrorCode.INVALID_GROUP_ID
    assert harness.leave("a", group="none") == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_member_must_know_its_generation_and_protocol():
    harness = GroupHarness()
    (a, _), generation = harness.stable(count=2)
    assert harness.heartbeat(a, generation + 1) == ErrorCode.ILLEGAL_GENERATION
    sync = harness.answers[harness.sync(a, generation - 1)]
    assert sync.error_code == ErrorCode.ILLEGAL_GENERATION
    sync = harness.answers[harness.sync(a, generation, protocol_type="connect", protocol_name="range")]
    assert sync.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    sync = harness.answers[harness.sync(a, generation, protocol_type="consumer", protocol_name="range")]
    assert (sync.error_code, sync.assignment) == (ErrorCode.NONE, a.encode())
    harness.join(a)
    assert harness.answers[harness.sync(a, generation)].error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_rebalance_during_the_sync_phase_sends_the_waiting_back():
    harness = GroupHarness()
    a, b = harness.new_member(), harness.new_member()
    harness.join(a)
    harness.join(b)
    harness.pass_time(6_000)
    waiting = harness.sync(b, 1)
    harness.leave(a)
    assert harness.answers[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_idle_groups_cost_nothing():
    """However many groups there are: in ten minutes there is one look at each deadline, not one at every tick."""
    harness = GroupHarness({"offsets.retention.check.interval.ms": "10000000"})
    for number in range(20):
        harness.stable(group=f"g{number}", session=1_500_000)
    harness.wakes = 0
    harness.pass_time(600_000)
    assert harness.wakes <= 20 + 1, "a session each, and the end of the last commit"


def test_the_id_of_a_member_ends_with_a_random_uuid():
    machine = GroupHarness().machine
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
