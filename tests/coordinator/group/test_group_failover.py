"""Stories of a coordinator that comes and goes."""

from tests.coordinator.group.harness import GroupHarness
from tidelog.coordinator.group.classic.group import ClassicGroupState
from tidelog.errors import ErrorCode
from tidelog.wire.messages.groups.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest


def test_a_stable_group_goes_on_under_the_next_coordinator():
    harness = GroupHarness()
    (a, b), _ = harness.stable(count=2)
    after = harness.failover()
    assert after.heartbeat(a, 1) == after.heartbeat(b, 1) == ErrorCode.NONE
    assert after.answers[after.sync(b, 1)].assignment == b.encode()
    group = after.machine.groups["g"]
    assert (group.state, group.leader, group.protocol) == (ClassicGroupState.STABLE, a, "range")
    assert group.subscribed_topics == {"t"}


def test_a_coordinator_that_leads_in_a_new_epoch_keeps_its_groups_without_loading():
    harness = GroupHarness()
    harness.stable()
    shard = harness.machine.shard
    harness.start_loading(epoch=1)
    assert harness.machine.shard is shard
    assert (shard.epoch, shard.is_loading) == (1, False)
    harness.start_loading(epoch=0)
    assert shard.epoch == 1
    assert harness.machine.groups["g"].state is ClassicGroupState.STABLE


def test_members_that_did_not_survive_the_failover_expire():
    harness = GroupHarness()
    (a, b), _ = harness.stable(count=2, session=10_000)
    after = harness.failover()
    after.pass_time(9_000)
    assert after.heartbeat(a, 1) == ErrorCode.NONE
    after.pass_time(2_000)
    assert after.heartbeat(a, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert after.heartbeat(b, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_under_way_is_forgotten_and_begins_again():
    """The generation that was never assigned is none; its members come again."""
    harness = GroupHarness()
    (a, b), _ = harness.stable(count=2)
    harness.join(a)
    harness.join(b)
    assert harness.machine.groups["g"].generation == 2
    after = harness.failover()
    assert after.machine.groups["g"].generation == 1
    assert after.answers[after.sync(a, 2, {a: b"x"})].error_code == ErrorCode.ILLEGAL_GENERATION
    after.join(a)
    join = after.join(b)
    assert after.answers[join].generation_id == 2


def test_an_assignment_is_reported_only_when_it_is_committed():
    harness = GroupHarness()
    (a, b), _ = harness.stable(count=2)
    harness.join(a)
    harness.join(b)
    harness.holding = True
    leader, follower = harness.sync(a, 2, {a: b"A", b: b"B"}), harness.sync(b, 2)
    assert not {leader, follower} & harness.answers.keys()
    assert harness.failover().machine.groups["g"].generation == 1, "nobody worked with the second"
    harness.release()
    assert harness.answers[leader].assignment == b"A"
    assert harness.answers[follower].assignment == b"B"
    assert harness.failover().machine.groups["g"].generation == 2


def test_an_assignment_that_cannot_be_stored_sends_everybody_back_to_join():
    harness = GroupHarness()
    a, b = harness.new_member(), harness.new_member()
    harness.join(a)
    harness.join(b)
    harness.pass_time(6_000)
    follower = harness.sync(b, 1)
    harness.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    leader = harness.sync(a, 1, {a: b"A", b: b"B"})
    assert harness.answers[leader].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.answers[follower].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.machine.groups["g"].state is ClassicGroupState.PREPARING_REBALANCE
    harness.refusing = None
    harness.join(a)
    assert harness.answers[harness.join(b)].generation_id == 2


def test_a_new_group_that_cannot_be_written_is_none():
    harness = GroupHarness()
    harness.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    join = harness.join(version=3)
    assert harness.answers[join].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.machine.groups == {}
    assert len(harness.coordinator._shards.context.timers) == 1, "only the look for expired offsets"


def test_while_it_loads_clients_are_asked_to_wait_and_heartbeats_are_believed():
    harness = GroupHarness()
    (a,), _ = harness.stable()
    harness.commit({("t", 0): 1}, member=a, generation=1)
    harness.resign()
    harness.start_loading(epoch=1)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert harness.heartbeat(a, 1) == ErrorCode.NONE
    assert harness.answers[harness.join(a)].error_code == loading
    assert harness.answers[harness.sync(a, 1)].error_code == loading
    assert harness.leave(a) == loading
    assert harness.commit_codes({("t", 0): 2}, member=a, generation=1) == [loading]
    assert harness.answers[harness.fetch()].groups[0].error_code == loading
    assert harness.ask(ListGroupsRequest(), 5).error_code == loading
    assert harness.ask(DescribeGroupsRequest(groups=["g"]), 5).groups[0].error_code == loading
    assert harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == loading
    harness.finish_loading()
    assert harness.positions() == {("t", 0): 1}


def test_where_it_leads_nothing_it_says_so():
    harness = GroupHarness()
    harness.resign()
    elsewhere = ErrorCode.NOT_COORDINATOR
    assert harness.answers[harness.join()].error_code == elsewhere
    assert harness.heartbeat("a", 1) == elsewhere
    assert harness.commit_codes({("t", 0): 2}) == [elsewhere]
    assert harness.answers[harness.fetch()].groups[0].error_code == elsewhere
    assert harness.ask(ListGroupsRequest(), 5).error_code == ErrorCode.NONE
    assert harness.ask(DescribeGroupsRequest(groups=["g"]), 5).groups[0].error_code == elsewhere


def test_when_leadership_goes_everybody_who_waits_is_answered():
    harness = GroupHarness()
    (a, b), _ = harness.stable(count=2)
    (c, d), _ = harness.stable(count=2, group="h")
    joining = harness.join(a)
    harness.join(c, group="h")
    harness.join(d, group="h")
    harness.holding = True
    syncing = harness.sync(d, 2, group="h")
    commit = harness.commit({("t", 0): 1}, group="simple")
    stable = harness.fetch("simple", stable=True)
    harness.resign()
    elsewhere = ErrorCode.NOT_COORDINATOR
    assert harness.answers[joining].error_code == elsewhere
    assert harness.answers[syncing].error_code == elsewhere
    assert harness.answers[commit].topics[0].partitions[0].error_code == elsewhere
    assert harness.answers[stable].groups[0].error_code == elsewhere
    assert harness.coordinator.next_deadline is None
    assert harness.coordinator.machines() == []
    assert harness.heartbeat(b, 1) == elsewhere
    assert [event.kind for event in harness.events][-1] == "coordinator.resigned"


def test_an_answer_of_the_log_that_comes_after_leadership_went_is_ignored():
    harness = GroupHarness()
    harness.append = lambda effect: held.append(effect) or []
    held = []
    commit = harness.commit({("t", 0): 1})
    queued = harness.commit({("t", 0): 2})
    harness.resign()
    for token in (commit, queued):
        assert harness.answers[token].topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert harness.coordinator.appended(held[0].token, 0, 0, harness.now) == []


def test_operations_that_come_while_an_append_is_under_way_see_what_it_wrote():
    harness = GroupHarness()
    held = []
    append, harness.append = harness.append, lambda effect: held.append(effect) or []
    commit = harness.commit({("t", 0): 1})
    deletion = harness.send(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert deletion not in harness.answers
    harness.append = append
    harness.carry_out(append(held[0]))
    assert commit in harness.answers
    assert harness.answers[deletion].results[0].error_code == ErrorCode.NONE
    assert harness.positions() == {}


def test_a_leader_of_a_newer_epoch_that_led_before_goes_on_as_it_was():
    harness = GroupHarness()
    (a,), _ = harness.stable()
    harness.lead(epoch=7)
    assert harness.heartbeat(a, 1) == ErrorCode.NONE


def test_a_group_grown_too_large_for_a_smaller_limit_rebalances_when_loaded():
    harness = GroupHarness()
    (a, b, c), _ = harness.stable(count=3)
    harness.options["group.max.size"] = "2"
    after = harness.failover()
    assert after.heartbeat(a, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    joins = [after.join(who) for who in (a, b)]
    assert after.answers[after.join(c)].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert all(after.answers[token].generation_id == 2 for token in joins)


def test_a_leader_that_hands_in_twice_while_the_first_is_stored_changes_nothing():
    """Else members would work with the first assignment, and a failover would find the second."""
    harness = GroupHarness()
    (a, b), _ = harness.stable(count=2)
    harness.join(a)
    harness.join(b)
    harness.holding = True
    harness.sync(a, 2, {a: b"first", b: b""})
    again = harness.sync(a, 2, {a: b"", b: b"second"})
    harness.release()
    assert harness.answers[again].assignment == b"first"
    after = harness.failover()
    assert after.answers[after.sync(a, 2)].assignment == b"first"


def test_who_makes_a_group_is_answered_when_it_is_written_for_its_id_would_be_unknown_else():
    """Simulated seed 5032: the id was given and refused in turn, thousands of times a second, below min.insync."""
    harness = GroupHarness()
    harness.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    refused = harness.answers[harness.join()]
    assert (refused.error_code, refused.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert "g" not in harness.machine.groups
    harness.refusing = None
    harness.holding = True
    token = harness.join()
    assert token not in harness.answers
    harness.release()
    assert harness.answers[token].error_code == ErrorCode.MEMBER_ID_REQUIRED
    harness.join(harness.answers[token].member_id)


def test_an_operator_sees_that_a_coordinator_loads_and_that_it_has_loaded():
    harness = GroupHarness()
    harness.stable(count=1)
    after = harness.failover()
    kinds = [event.kind for event in after.events if event.kind.startswith("coordinator.")]
    assert kinds == ["coordinator.loading", "coordinator.loaded"]
