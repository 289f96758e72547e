"""A group changes from the classic protocol to the consumer protocol and back, member by member (KIP-848)."""

import pytest

from tests.coordinator.group.consumer.consumer_harness import Cluster, ConsumerHarness
from tests.coordinator.group.harness import subscription
from tidelog.coordinator.group.classic.group import ClassicGroupState
from tidelog.coordinator.group.consumer import embedded
from tidelog.errors import ErrorCode
from tidelog.wire import codec
from tidelog.wire.messages.groups.classic_group import SyncGroupRequest
from tidelog.wire.messages.groups.consumer_protocol import ConsumerProtocolSubscription, TopicPartition

SESSION = {"session": 10_000, "rebalance": 30_000}


def said(topics=("t",), owned=(), version=1):
    """What a classic consumer says of itself."""
    partitions = [TopicPartition(topic=topic, partitions=list(numbers)) for topic, numbers in owned]
    message = ConsumerProtocolSubscription(topics=list(topics), owned_partitions=partitions)
    return {"range": version.to_bytes(2, "big") + codec.encode(message, version)}


def given(harness, places):
    """An assignment as a classic leader computes it."""
    ids = {(harness.cluster.id(topic), number) for topic, number in places}
    return embedded.write_assignment(harness.cluster, ids, 1)


def read(data):
    assignment = embedded.read_assignment(data)
    return {(topic.topic, number) for topic in assignment.assigned_partitions for number in topic.partitions}


def classic_group(harness, *shares, instances=None):
    """A stable classic group whose members have these partitions of t; their ids in order."""
    instances = instances or [None] * len(shares)
    tokens, ids = [], []
    for instance in instances:
        how = {"protocols": said(), "instance": instance, **SESSION}
        ids.append("" if instance else harness.new_member(**how))
        tokens.append(harness.join(ids[-1], **how))
    harness.pass_time(10_000)
    answers = [harness.answers[token] for token in tokens]
    ids = [answer.member_id for answer in answers]
    leader = answers[0].leader
    assignments = {
        name: given(harness, {("t", number) for number in share}) for name, share in zip(ids, shares, strict=True)
    }
    for name in [*(name for name in ids if name != leader), leader]:
        harness.sync(name, answers[0].generation_id, assignments if name == leader else None)
    assert harness.machine.groups["g"].is_in(ClassicGroupState.STABLE)
    return ids


class Classic:
    """A member of the classic protocol in a consumer group, who joins again whenever it is told to."""

    def __init__(self, harness, member_id="", topics=("t",), instance=None, has=()):
        self.harness, self.member_id, self.topics, self.instance = harness, member_id, topics, instance
        self.has = set(has)
        self.generation = -1

    def join(self):
        owned = {}
        for topic, number in sorted(self.has):
            owned.setdefault(topic, []).append(number)
        how = {"protocols": said(self.topics, owned.items()), "instance": self.instance, **SESSION}
        answer = self.harness.answers[self.harness.join(self.member_id, **how)]
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = self.harness.answers[self.harness.join(self.member_id, **how)]
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        assert (answer.members, answer.leader, answer.protocol_name) == ([], "", "range")
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return self.sync()

    def sync(self):
        request = SyncGroupRequest(
            group_id="g",
            member_id=self.member_id,
            generation_id=self.generation,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
        )
        answer = self.harness.ask(request, 5)
        if answer.error_code == ErrorCode.NONE:
            self.has = read(answer.assignment)
        return ErrorCode(answer.error_code)

    def beat(self):
        code = self.harness.heartbeat(self.member_id, self.generation, instance=self.instance)
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
        return code


def settle(harness, *everybody):
    for _ in range(10):
        for each in everybody:
            each.beat()
    assert harness.state() == "Stable"


def test_a_classic_group_is_upgraded_by_its_first_member_of_the_new_protocol_and_nobody_loses_anything():
    harness = ConsumerHarness()
    first, second = classic_group(harness, (0, 1), (2, 3))
    old = [Classic(harness, first, has={("t", 0), ("t", 1)}), Classic(harness, second, has={("t", 2), ("t", 3)})]
    generation = harness.machine.groups["g"].generation
    for each in old:
        each.generation = generation
    new = harness.member("new").join()
    assert harness.listed() == {"g": ("consumer", "Reconciling")}
    assert harness.machine.groups == {}
    members = harness.consumer_group().members
    assert [members[name].current.epoch for name in (first, second, "new")] == [generation, generation, generation + 1]
    assert [member.member_type for member in harness.described("g")[0].members] == [0, 0, 1]
    settle(harness, *old, new)
    everything = [*old[0].has, *old[1].has, *new.has]
    assert sorted(everything) == [("t", number) for number in range(4)]
    assert all(each.has for each in (*old, new))
    after = harness.failover()
    assert {**vars(after.consumer_group()), "_topics": None} == {**vars(harness.consumer_group()), "_topics": None}
    assert after.machine.groups == {}
    after.pass_time(11_000)
    assert [*after.consumer_group().members] == ["new"], "classic members have sessions of their own"


def test_a_group_in_the_middle_of_a_rebalance_is_upgraded_and_those_who_wait_join_anew():
    harness = ConsumerHarness()
    first, second = classic_group(harness, (0, 1), (2, 3))
    waiting = harness.join(first, protocols=said(("t", "u")), **SESSION)
    assert waiting not in harness.answers
    harness.member("new").join()
    assert harness.answers[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.heartbeat(second, harness.consumer_group().members[second].current.epoch) == (
        ErrorCode.REBALANCE_IN_PROGRESS
    )


REFUSALS = [
    ({"group.consumer.migration.policy": "disabled"}, "consumer", "online upgrade is disabled."),
    ({"group.consumer.migration.policy": "downgrade"}, "consumer", "online upgrade is disabled."),
    ({}, "connect", "the group does not use the consumer embedded protocol."),
    ({"group.consumer.max.size": "1"}, "consumer", "the group size exceeds the consumer group maximum size."),
]


@pytest.mark.parametrize(("options", "kind", "problem"), REFUSALS)
def test_what_is_not_upgraded(options, kind, problem):
    harness = ConsumerHarness(options)
    harness.stable(count=2, kind=kind)
    answer = harness.member("new").beat()
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.error_message == f"Cannot upgrade classic group g to consumer group because {problem}"
    assert harness.listed() == {"g": ("classic", "Stable")}


def test_a_group_of_the_greatest_size_is_full_and_not_too_large_to_be_upgraded():
    harness = ConsumerHarness({"group.consumer.max.size": "2"})
    classic_group(harness, {0}, {1})
    assert harness.member("new").beat().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_group_whose_members_cannot_be_understood_is_not_upgraded():
    harness = ConsumerHarness()
    harness.stable(protocols={"range": b"\x00\x01nothing"})
    answer = harness.member("new").beat()
    assert "the embedded consumer protocol is malformed." in answer.error_message
    assert harness.beat(member_id="new", member_epoch=1).error_message == "Group g is not a consumer group."


def test_a_group_with_an_assignor_that_keeps_notes_is_not_upgraded():
    harness = ConsumerHarness()
    (name,) = [harness.new_member(protocols=said())]
    token = harness.join(name, protocols=said())
    harness.pass_time(6_000)
    notes = (1).to_bytes(2, "big") + bytes(4) + (1).to_bytes(4, "big") + b"x"
    harness.sync(name, harness.answers[token].generation_id, {name: notes})
    assert "unsupported custom assignor" in harness.member("new").beat().error_message


def test_an_upgrade_that_cannot_be_written_leaves_the_classic_group_as_it_was():
    harness = ConsumerHarness()
    first, _ = classic_group(harness, (0, 1), (2, 3))
    harness.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    assert harness.member("new").beat().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    harness.refusing = None
    assert harness.heartbeat(first, harness.machine.groups["g"].generation) == ErrorCode.NONE
    harness.member("new").join()


def test_an_empty_group_becomes_what_its_first_member_speaks():
    harness = ConsumerHarness()
    harness.leave(*harness.stable()[0])
    member = harness.member("a").join()
    assert harness.listed() == {"g": ("consumer", "Stable")}
    member.leave()
    harness.stable()
    assert harness.listed() == {"g": ("classic", "Stable")}
    assert harness.failover().listed() == {"g": ("classic", "Stable")}


def mixed(harness=None, **classic):
    """A consumer group with a member of either protocol, at rest."""
    harness = harness or ConsumerHarness()
    new = harness.member("new").join()
    old = Classic(harness, **classic)
    old.join()
    settle(harness, old, new)
    return harness, old, new


def test_a_classic_member_joins_and_shares():
    _, old, new = mixed()
    assert (len(old.has), len(new.has)) == (2, 2)
    assert old.beat() == ErrorCode.NONE
    assert old.sync() == ErrorCode.NONE


def test_the_last_member_of_the_new_protocol_leaves_and_the_group_is_a_classic_one_again():
    harness, old, new = mixed()
    new.leave()
    assert harness.listed() == {"g": ("classic", "PreparingRebalance")}
    group = harness.machine.groups["g"]
    assert read(group.members[old.member_id].assignment) == old.has
    assert harness.heartbeat(old.member_id, group.generation) == ErrorCode.REBALANCE_IN_PROGRESS
    token = harness.join(old.member_id, protocols=said(), **SESSION)
    assert harness.answers[token].leader == old.member_id
    after = harness.failover()
    assert after.machine.consumers.newest == {}
    assert [*after.machine.groups["g"].members] == [old.member_id]
    harness.pass_time(11_000)
    assert harness.listed() == {"g": ("classic", "Empty")}


def test_a_coordinator_that_loads_the_classic_group_lets_it_rebalance_too():
    """Nobody has what the member that left had."""
    harness, old, new = mixed()
    new.leave()
    generation = harness.machine.groups["g"].generation
    after = harness.failover()
    assert after.listed() == {"g": ("classic", "PreparingRebalance")}
    assert after.heartbeat(old.member_id, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert after.answers[after.join(old.member_id, protocols=said(), **SESSION)].leader == old.member_id
    after.sync(old.member_id, generation + 1, {old.member_id: given(after, {("t", n) for n in range(4)})})
    assert after.failover().listed() == {"g": ("classic", "Stable")}


def test_the_last_member_of_the_new_protocol_is_fenced_and_the_group_is_a_classic_one_again():
    harness, old, _ = mixed()
    for _ in range(10):
        harness.pass_time(5_000)
        if "g" in harness.machine.groups:
            break
        old.beat()
    assert harness.listed()["g"][0] == "classic"


@pytest.mark.parametrize("policy", ["upgrade", "disabled"])
def test_what_is_not_downgraded(policy):
    harness = ConsumerHarness({"group.consumer.migration.policy": policy})
    new = harness.member("new").join()
    token = harness.join(protocols=said(), **SESSION)
    if policy == "disabled":
        assert harness.answers[token].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return
    old = Classic(harness)
    old.join()
    settle(harness, old, new)
    new.leave()
    settle(harness, old)
    assert len(old.has) == 4
    assert harness.listed() == {"g": ("consumer", "Stable")}


def test_a_static_member_goes_back_to_the_classic_protocol_and_takes_the_group_along():
    harness = ConsumerHarness()
    new = harness.member("new", instance="i").join()
    had = new.has
    old = Classic(harness, instance="i", has=had)
    assert old.join() == ErrorCode.NONE
    assert harness.listed() == {"g": ("classic", "Stable")}
    assert old.has == had
    assert harness.heartbeat(old.member_id, old.generation, instance="i") == ErrorCode.NONE


def test_who_still_waits_for_partitions_when_the_group_becomes_a_classic_one_is_told_to_join_again():
    """Seed 1006689: a stable classic group wrote it down as their owner, and never told it."""
    harness = ConsumerHarness()
    harness.member("new", instance="i").join()
    waiting = Classic(harness, instance="j")
    waiting.join()
    assert waiting.has == set()
    came = Classic(harness, instance="i")
    assert came.join() == ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.listed() == {"g": ("classic", "PreparingRebalance")}
    for group in (harness, harness.failover()):
        code = group.heartbeat(waiting.member_id, waiting.generation, instance="j")
        assert code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_static_member_goes_over_to_the_new_protocol_and_keeps_what_it_has():
    harness = ConsumerHarness()
    (name,) = classic_group(harness, (0, 1, 2, 3), instances=["i"])
    new = harness.member("new", instance="i").join()
    assert new.has == {("t", number) for number in range(4)}
    assert harness.listed() == {"g": ("consumer", "Stable")}
    assert harness.heartbeat(name, 1, instance="i") == ErrorCode.FENCED_INSTANCE_ID


def test_a_dynamic_member_goes_over_under_its_own_name():
    harness = ConsumerHarness()
    first, second = classic_group(harness, (0, 1), (2, 3))
    member = harness.member(first)
    member.join()
    assert not harness.consumer_group().members[first].is_classic
    assert harness.consumer_group().members[second].is_classic
    assert member.has == {("t", 0), ("t", 1)}


# What classic members are told.


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "new"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 7}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({}, ErrorCode.NONE),
    ],
)
def test_sync(change, code):
    harness, old, _ = mixed()
    fields = {"group_id": "g", "member_id": old.member_id, "generation_id": old.generation}
    fields |= {"protocol_type": "consumer", "protocol_name": "range"}
    assert harness.ask(SyncGroupRequest(**(fields | change)), 5).error_code == code


def test_who_syncs_where_not_all_topics_are_known_yet_is_asked_to_come_again():
    harness, old, _ = mixed()
    harness.cluster.is_complete = False
    assert old.sync() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_heartbeats_are_refused_to_others():
    harness, old, _ = mixed()
    assert harness.heartbeat("new", old.generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.heartbeat(old.member_id, old.generation + 1) == ErrorCode.ILLEGAL_GENERATION


def test_protocols_that_the_others_do_not_support():
    harness, _, _ = mixed()
    for protocols, kind in (({"sticky": subscription("t")}, "consumer"), (said(), "connect")):
        token = harness.join(protocols=protocols, kind=kind)
        assert harness.answers[token].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    token = harness.join(protocols={"range": b"?"}, version=3)
    assert harness.answers[token].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_classic_member_that_does_not_sync_or_join_again_in_time_is_fenced():
    harness, old, new = mixed()
    how = {"protocols": said(), "session": 60_000, "rebalance": 20_000}
    answer = harness.answers[harness.join(harness.new_member(**how), **how)]
    for _ in range(5):
        harness.pass_time(4_100)
        new.beat()
        old.beat()
    assert answer.member_id not in harness.consumer_group().members


def test_a_classic_member_that_is_told_to_join_again_when_it_syncs_is_fenced_if_it_does_not():
    harness, old, new = mixed()
    how = {"protocols": said(), "session": 60_000, "rebalance": 20_000}
    answer = harness.answers[harness.join(harness.new_member(**how), **how)]
    late = Classic(harness, answer.member_id)
    late.generation = answer.generation_id
    assert late.sync() == ErrorCode.NONE
    other = harness.member("other").join()
    assert late.sync() == ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(5):
        harness.pass_time(4_100)
        new.beat()
        old.beat()
        other.beat()
    assert late.member_id not in harness.consumer_group().members


def test_a_classic_member_leaves_and_operators_remove_static_members_of_either_kind():
    harness, old, new = mixed()
    assert harness.leave(old.member_id) == [ErrorCode.NONE]
    settle(harness, new)
    assert len(new.has) == 4
    harness.member("s", instance="i").join()
    assert harness.leave(("", "i"), ("", "j"), ("x", "i")) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert [*harness.consumer_group().members] == ["new"]


def test_a_rolling_upgrade_and_back_again():
    """Every step keeps each partition with at most one member, and in the end all are with somebody."""
    harness = ConsumerHarness(cluster=Cluster(t=6))
    names = classic_group(harness, (0, 1), (2, 3), (4, 5))
    generation = harness.machine.groups["g"].generation
    old = [Classic(harness, name, has={("t", 2 * n), ("t", 2 * n + 1)}) for n, name in enumerate(names)]
    for each in old:
        each.generation = generation
    new = []
    while old:
        leaving = old.pop()
        harness.leave(leaving.member_id)
        new.append(harness.member(f"new-{len(old)}").join())
        settle(harness, *old, *new)
        check(old, new, 6)
    while len(new) > 1:
        new.pop().leave()
        old.append(Classic(harness))
        old[-1].join()
        settle(harness, *old, *new)
        check(old, new, 6)
    new.pop().leave()
    assert harness.listed()["g"][0] == "classic"


def check(old, new, count):
    everything = [place for each in (*old, *new) for place in each.has]
    assert sorted(everything) == [("t", number) for number in range(count)]


def test_a_process_that_takes_the_place_of_a_static_member_within_a_rebalance_brings_an_assignment_about():
    """Seed 10471: the group went on with what the member had had, which was nothing, for nobody had changed topics."""
    harness = ConsumerHarness()
    token = harness.join("", protocols=said(), instance="me", **SESSION)
    harness.pass_time(10_000)
    assert harness.answers[token].error_code == ErrorCode.NONE
    assert harness.machine.groups["g"].is_in(ClassicGroupState.COMPLETING_REBALANCE)
    generation = harness.machine.groups["g"].generation
    newcomer = harness.member("new", instance="me").join()
    harness.settle(newcomer)
    assert newcomer.has == {("t", number) for number in range(4)}
    assert newcomer.epoch == generation + 1
