"""Stories of a coordinator that comes and goes."""

from tests.coordinator.group.ground import Ground
from tidelog.coordinator.group.classic.group import ClassicGroupState
from tidelog.errors import ErrorCode
from tidelog.wire.messages.groups.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.groups.describe_groups import DescribeGroupsRequest
from tidelog.wire.messages.groups.list_groups import ListGroupsRequest


def test_a_stable_group_goes_on_under_the_next_coordinator():
    ground = Ground()
    (a, b), _ = ground.stable(count=2)
    after = ground.failover()
    assert after.heartbeat(a, 1) == after.heartbeat(b, 1) == ErrorCode.NONE
    assert after.answers[after.sync(b, 1)].assignment == b.encode()
    group = after.machine.groups["g"]
    assert (group.state, group.leader, group.protocol) == (ClassicGroupState.STABLE, a, "range")
    assert group.subscribed_topics == {"t"}


def test_members_that_did_not_survive_the_failover_expire():
    ground = Ground()
    (a, b), _ = ground.stable(count=2, session=10_000)
    after = ground.failover()
    after.pass_time(9_000)
    assert after.heartbeat(a, 1) == ErrorCode.NONE
    after.pass_time(2_000)
    assert after.heartbeat(a, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert after.heartbeat(b, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_under_way_is_forgotten_and_begins_again():
    """The generation that was never assigned is none; its members come again."""
    ground = Ground()
    (a, b), _ = ground.stable(count=2)
    ground.join(a)
    ground.join(b)
    assert ground.machine.groups["g"].generation == 2
    after = ground.failover()
    assert after.machine.groups["g"].generation == 1
    assert after.answers[after.sync(a, 2, {a: b"x"})].error_code == ErrorCode.ILLEGAL_GENERATION
    after.join(a)
    join = after.join(b)
    assert after.answers[join].generation_id == 2


def test_an_assignment_is_told_only_when_it_is_committed():
    ground = Ground()
    (a, b), _ = ground.stable(count=2)
    ground.join(a)
    ground.join(b)
    ground.holding = True
    leader, follower = ground.sync(a, 2, {a: b"A", b: b"B"}), ground.sync(b, 2)
    assert not {leader, follower} & ground.answers.keys()
    assert ground.failover().machine.groups["g"].generation == 1, "nobody worked with the second"
    ground.release()
    assert ground.answers[leader].assignment == b"A"
    assert ground.answers[follower].assignment == b"B"
    assert ground.failover().machine.groups["g"].generation == 2


def test_an_assignment_that_cannot_be_stored_sends_everybody_back_to_join():
    ground = Ground()
    a, b = ground.new_member(), ground.new_member()
    ground.join(a)
    ground.join(b)
    ground.pass_time(6_000)
    follower = ground.sync(b, 1)
    ground.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    leader = ground.sync(a, 1, {a: b"A", b: b"B"})
    assert ground.answers[leader].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert ground.answers[follower].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert ground.machine.groups["g"].state is ClassicGroupState.PREPARING_REBALANCE
    ground.refusing = None
    ground.join(a)
    assert ground.answers[ground.join(b)].generation_id == 2


def test_a_new_group_that_cannot_be_written_is_none():
    ground = Ground()
    ground.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    join = ground.join(version=3)
    assert ground.answers[join].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert ground.machine.groups == {}
    assert len(ground.coordinator._shards.context.timers) == 1, "only the look for expired offsets"


def test_while_it_loads_clients_are_asked_to_wait_and_heartbeats_are_believed():
    ground = Ground()
    (a,), _ = ground.stable()
    ground.commit({("t", 0): 1}, member=a, generation=1)
    ground.resign()
    ground.start_loading(epoch=1)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert ground.heartbeat(a, 1) == ErrorCode.NONE
    assert ground.answers[ground.join(a)].error_code == loading
    assert ground.answers[ground.sync(a, 1)].error_code == loading
    assert ground.leave(a) == loading
    assert ground.commit_codes({("t", 0): 2}, member=a, generation=1) == [loading]
    assert ground.answers[ground.fetch()].groups[0].error_code == loading
    assert ground.ask(ListGroupsRequest(), 5).error_code == loading
    assert ground.ask(DescribeGroupsRequest(groups=["g"]), 5).groups[0].error_code == loading
    assert ground.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == loading
    ground.finish_loading()
    assert ground.positions() == {("t", 0): 1}


def test_where_it_leads_nothing_it_says_so():
    ground = Ground()
    ground.resign()
    elsewhere = ErrorCode.NOT_COORDINATOR
    assert ground.answers[ground.join()].error_code == elsewhere
    assert ground.heartbeat("a", 1) == elsewhere
    assert ground.commit_codes({("t", 0): 2}) == [elsewhere]
    assert ground.answers[ground.fetch()].groups[0].error_code == elsewhere
    assert ground.ask(ListGroupsRequest(), 5).error_code == ErrorCode.NONE
    assert ground.ask(DescribeGroupsRequest(groups=["g"]), 5).groups[0].error_code == elsewhere


def test_when_leadership_goes_everybody_who_waits_is_told():
    ground = Ground()
    (a, b), _ = ground.stable(count=2)
    (c, d), _ = ground.stable(count=2, group="h")
    joining = ground.join(a)
    ground.join(c, group="h")
    ground.join(d, group="h")
    ground.holding = True
    syncing = ground.sync(d, 2, group="h")
    commit = ground.commit({("t", 0): 1}, group="simple")
    stable = ground.fetch("simple", stable=True)
    ground.resign()
    elsewhere = ErrorCode.NOT_COORDINATOR
    assert ground.answers[joining].error_code == elsewhere
    assert ground.answers[syncing].error_code == elsewhere
    assert ground.answers[commit].topics[0].partitions[0].error_code == elsewhere
    assert ground.answers[stable].groups[0].error_code == elsewhere
    assert ground.coordinator.next_deadline is None
    assert ground.coordinator.machines() == []
    assert ground.heartbeat(b, 1) == elsewhere
    assert [event.kind for event in ground.events][-1] == "coordinator.resigned"


def test_an_answer_of_the_log_that_comes_after_leadership_went_is_ignored():
    ground = Ground()
    ground.append = lambda effect: held.append(effect) or []
    held = []
    commit = ground.commit({("t", 0): 1})
    queued = ground.commit({("t", 0): 2})
    ground.resign()
    for token in (commit, queued):
        assert ground.answers[token].topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert ground.coordinator.appended(held[0].token, 0, 0, ground.now) == []


def test_operations_that_come_while_an_append_is_under_way_see_what_it_wrote():
    ground = Ground()
    held = []
    append, ground.append = ground.append, lambda effect: held.append(effect) or []
    commit = ground.commit({("t", 0): 1})
    deletion = ground.send(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert deletion not in ground.answers
    ground.append = append
    ground.carry_out(append(held[0]))
    assert commit in ground.answers
    assert ground.answers[deletion].results[0].error_code == ErrorCode.NONE
    assert ground.positions() == {}


def test_a_leader_of_a_newer_epoch_that_led_before_goes_on_as_it_was():
    ground = Ground()
    (a,), _ = ground.stable()
    ground.lead(epoch=7)
    assert ground.heartbeat(a, 1) == ErrorCode.NONE


def test_a_group_grown_too_large_for_a_smaller_limit_rebalances_when_loaded():
    ground = Ground()
    (a, b, c), _ = ground.stable(count=3)
    ground.options["group.max.size"] = "2"
    after = ground.failover()
    assert after.heartbeat(a, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    joins = [after.join(who) for who in (a, b)]
    assert after.answers[after.join(c)].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert all(after.answers[token].generation_id == 2 for token in joins)


def test_a_leader_that_hands_in_twice_while_the_first_is_stored_changes_nothing():
    """Else members would work with the first assignment, and a failover would find the second."""
    ground = Ground()
    (a, b), _ = ground.stable(count=2)
    ground.join(a)
    ground.join(b)
    ground.holding = True
    ground.sync(a, 2, {a: b"first", b: b""})
    again = ground.sync(a, 2, {a: b"", b: b"second"})
    ground.release()
    assert ground.answers[again].assignment == b"first"
    after = ground.failover()
    assert after.answers[after.sync(a, 2)].assignment == b"first"


def test_who_makes_a_group_is_answered_when_it_is_written_for_its_id_would_be_unknown_else():
    """Simulated seed 5032: the id was given and refused in turn, thousands of times a second, below min.insync."""
    ground = Ground()
    ground.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    refused = ground.answers[ground.join()]
    assert (refused.error_code, refused.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert "g" not in ground.machine.groups
    ground.refusing = None
    ground.holding = True
    token = ground.join()
    assert token not in ground.answers
    ground.release()
    assert ground.answers[token].error_code == ErrorCode.MEMBER_ID_REQUIRED
    ground.join(ground.answers[token].member_id)


def test_an_operator_sees_that_a_coordinator_loads_and_that_it_has_loaded():
    ground = Ground()
    ground.stable(count=1)
    after = ground.failover()
    kinds = [event.kind for event in after.events if event.kind.startswith("coordinator.")]
    assert kinds == ["coordinator.loading", "coordinator.loaded"]
