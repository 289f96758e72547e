"""The client's machines in a world: on a cluster that nobody breaks, and through what happens to their processes."""

from random import Random

import pytest

from tidelog.client.options import ConsumerOptions, ProducerOptions
from tidelog.client.sending.batch import ProducerBatch
from tidelog.client.transactional import OLDER
from tidelog.effects import CONTROLLER
from tidelog.model import TopicPartition
from tidelog.sim.clients import group
from tidelog.sim.clients.group import Group, StaticGroup
from tidelog.sim.clients.keeper import Keeper
from tidelog.sim.clients.other_producers import OLDEST, Habits
from tidelog.sim.clients.producer import Pace, check_first
from tidelog.sim.clients.reader import OffsetLister
from tidelog.sim.clients.transactor import Fate
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import SECOND
from tidelog.sim.parts.copies import MODES, Copies
from tidelog.sim.parts.transactions import Transactions
from tidelog.wire.messages.topics.topic_changes import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    DeleteTopicsRequest,
    DeleteTopicState,
)

TOPIC = "t"
FIRST, SECOND_ONE = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


@pytest.fixture
def cluster():
    started = Cluster(1, properties=dict(group.CONSUMER_PROTOCOL_PROPERTIES))
    started.start()
    started.create(TOPIC, 2)
    return started


def group_of(cluster, members=0, kind=Group, share=0.0, **options):
    given = ConsumerOptions(
        group_id="g",
        auto_offset_reset="earliest",
        **{"session_timeout_ms": 3_000, "heartbeat_interval_ms": 500, "max_poll_interval_ms": 5_000, **options},
    )
    dice = Random(2) if share or kind is StaticGroup else None
    ghosts, seen_records, commits = cluster.suite.ghosts, cluster.seen_records, cluster.commits
    group = kind(cluster.world, ghosts, seen_records, commits, (TOPIC,), given, dice=dice, share=share)
    for _ in range(members):
        group.join()
    return group


def test_what_a_producer_was_promised_is_known_to_the_checks_and_read_back(cluster):
    producer = cluster.produce(FIRST, SECOND_ONE, pace=Pace(gap=(1_000, 20_000)))
    reader = cluster.consume(FIRST, SECOND_ONE)
    cluster.run(1)
    cluster.settle()
    ghosts = cluster.suite.ghosts
    told = sum(acked.end - acked.base for name in (FIRST, SECOND_ONE) for acked in ghosts.of(name).acked.values())
    assert producer.acked == told == sum(reader.positions.values()) > 20
    assert cluster.world.counts["delivery: NONE"] == producer.acked


@pytest.mark.parametrize("acks", [0, 1])
def test_a_producer_that_wants_less_is_promised_nothing_but_read_back(cluster, acks):
    producer = cluster.produce(FIRST, options=ProducerOptions(acks=acks))
    reader = cluster.consume(FIRST)
    cluster.run(1)
    cluster.settle()
    assert not producer.promised
    assert reader.positions[FIRST] == producer.acked > 0


def test_a_batch_that_is_not_answered_in_time_is_indeterminate_and_may_be_there_all_the_same(cluster):
    producer = cluster.produce(FIRST, options=ProducerOptions(delivery_timeout_ms=1_000, request_timeout_ms=1_000))
    reader = cluster.consume(FIRST)
    cluster.run(0.5)
    acked, leader = producer.acked, cluster.leader(FIRST)
    cluster.world.network.block(leader.name, producer.process.name)
    cluster.run(3)
    assert producer.failed_count > 0
    assert producer.acked <= acked + 12
    cluster.heal()
    cluster.settle()
    assert reader.positions[FIRST] > producer.acked


def test_a_paused_process_hears_and_says_nothing_and_then_goes_on(cluster):
    producer = cluster.produce(FIRST)
    cluster.run(1)
    acked = producer.acked
    producer.process.pause(2 * SECOND)
    cluster.run(1.9)
    assert producer.acked == acked
    cluster.run(2)
    assert producer.acked > acked
    cluster.settle()


def test_a_killed_process_is_gone_with_its_connections(cluster):
    reader = cluster.consume(FIRST)
    cluster.run(1)
    assert any(end.party is reader.process for link in cluster.world.network.links for end in (link.opener,))
    reader.process.kill()
    cluster.run(1)
    assert not any(end.party is reader.process for link in cluster.world.network.links for end in (link.opener,))


def test_an_admin_is_answered_once_or_told_that_nobody_answers(cluster):
    answers = []
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="none")], timeout_ms=1_000)
    cluster.admin.ask(request, CONTROLLER, answers.append)
    cluster.run(1)
    assert [answer.responses[0].name for answer in answers] == ["none"]
    for host in cluster.world.hosts:
        cluster.world.pause(host, 60 * SECOND)
    cluster.admin.ask(request, CONTROLLER, answers.append)
    cluster.run(10)
    assert answers[1:] == [None]


def shares_anew(cluster, group):
    """One of its three members leaves, one crashes, and one joins."""
    group.members[0].leave()
    cluster.run(1)
    group.members[1].process.kill()
    cluster.run(7)
    group.join()
    cluster.settle()
    cluster.expect(group.is_settled, 30, "the group is stable again")
    assert len(group.living) == 2
    assert cluster.world.counts["commit: NONE"] > 0


@pytest.mark.parametrize("strategy", ["range", "sticky", "cooperative-sticky"])
def test_a_group_shares_everything_out_though_members_leave_and_crash(cluster, strategy):
    group = group_of(cluster, 3, partition_assignment_strategy=(strategy,), enable_auto_commit=False)
    cluster.produce(FIRST, SECOND_ONE)
    cluster.expect(group.is_settled, 20, "the group is stable")
    shares_anew(cluster, group)


def test_a_member_that_stood_still_for_longer_than_its_session_comes_back_as_another(cluster):
    group = group_of(cluster, 2)
    cluster.produce(FIRST, SECOND_ONE)
    cluster.expect(group.is_settled, 20, "the group is stable")
    sleeper = group.members[0]
    sleeper.process.pause(8 * SECOND)
    cluster.run(7)
    assert len(group.members[1].machine.assignment) == 2
    cluster.settle()
    cluster.expect(group.is_settled, 30, "the group is stable again")
    assert len(sleeper.machine.assignment) == 1


def test_a_keeper_reads_what_it_committed_through_the_death_of_its_coordinator(cluster):
    keeper = Keeper(cluster.world, cluster.commits, "keeper", [FIRST, SECOND_ONE])
    keeper.process.after(0, keeper.start)
    cluster.run(3)
    coordinator = cluster.leader(TopicPartition("__consumer_offsets", 0))
    cluster.world.kill(coordinator)
    cluster.run(5)
    cluster.heal()
    keeper.stop()
    cluster.expect(lambda: keeper.is_over, 20, "the keeper reads once more")
    assert keeper.reads >= 2
    assert keeper.offset > 3


def test_an_asker_hears_ever_later_ends(cluster):
    asker = OffsetLister(cluster.world, cluster.suite.ghosts, "asker", [FIRST])
    cluster.produce(FIRST)
    asker.process.after(0, asker.start)
    cluster.run(10)
    assert asker.answers > 5


def on_the_wire(sequence, *, name=FIRST, epoch=0):
    batch = ProducerBatch(name, 0)
    batch.sent_as = (7, epoch, sequence)
    return batch


def test_a_second_batch_before_the_first_is_acknowledged():
    first, second = on_the_wire(0), on_the_wire(3)
    others = [on_the_wire(0, epoch=1), on_the_wire(0, name=SECOND_ONE)]
    check_first(first, [first, *others], set())
    check_first(second, [first, second], {(FIRST, 7, 0)})
    with pytest.raises(AssertionError, match=r"^I26: .* are on their way together"):
        check_first(second, [first, second, *others], {(FIRST, 7, 1)})


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_group_of_the_consumer_protocol_or_of_both_shares_everything_out(cluster, share):
    group = group_of(cluster, 3, share=share, enable_auto_commit=False)
    cluster.produce(FIRST, SECOND_ONE)
    cluster.expect(group.is_settled, 30, "the group is stable")
    speak = {member.options.group_protocol for member in group.members}
    assert speak == ({"consumer"} if share == 1.0 else {"consumer", "classic"})
    shares_anew(cluster, group)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_static_member_comes_back_to_what_it_had(cluster, share):
    group = group_of(cluster, 2, StaticGroup, share)
    cluster.produce(FIRST, SECOND_ONE)
    cluster.expect(lambda: group.is_settled() and all(m.machine.assignment for m in group.members), 30, "both read")
    first = group.members[0]
    had, generation = sorted(first.machine.assignment), first.generation
    first.leave()
    cluster.run(1)
    group._start_instance(first.instance)
    cluster.expect(group.is_settled, 10, "the group is stable again")
    assert sorted(group.members[2].machine.assignment) == had
    assert group.members[2].generation == generation


def test_a_static_leader_that_comes_back_goes_on_until_somebody_joins(cluster):
    """Seed 1007069: it knows of new partitions at once, and takes them for those that were assigned."""
    group = group_of(cluster, 1, StaticGroup)
    cluster.expect(group.is_settled, 30, "the group is stable")
    assert not group.members[0].goes_on
    group.members[0].leave()
    wanted = CreatePartitionsTopic(name=TOPIC, count=3, assignments=None)
    cluster.admin.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=3_000), CONTROLLER, lambda response: None)
    cluster.run(2)
    group._start_instance(group.members[0].instance)
    cluster.expect(lambda: group.members[1].goes_on, 10, "it leads again")
    cluster.run(10)
    assert not group.is_settled()
    group.finish()
    cluster.expect(group.is_settled, 10, "everything is had by somebody")


def test_a_static_member_that_has_a_double_goes(cluster):
    group = group_of(cluster, 2, StaticGroup, enable_auto_commit=False)
    cluster.produce(FIRST, SECOND_ONE)
    cluster.expect(group.is_settled, 30, "the group is stable")
    first = group.members[0]
    first.process.pause(2 * SECOND)
    group._start_instance(first.instance)
    cluster.run(5)
    cluster.settle()
    cluster.expect(group.is_settled, 30, "the group is stable again")
    assert not first.process.alive
    assert cluster.world.counts["member: FENCED_INSTANCE_ID"] == 1
    assert len(first.replaced) == 1


def has_a_double(group):
    """A member of the consumer protocol stands still, longer than it may, and one of the classic protocol takes its
    place."""
    group.dice = Random(1)  # the first speaks the consumer protocol, the second the classic one
    group.join()
    world, first = group.world, group.members[0]
    assert world.run(30 * SECOND, lambda: group.is_settled() and bool(first._committed))
    first.process.pause(6 * SECOND)
    group._start_instance(first.instance)
    assert [member.options.group_protocol for member in group.members] == ["consumer", "classic"]
    assert world.run(5 * SECOND, lambda: first.admission in first.replaced)
    return first


def test_a_static_member_whose_double_went_has_its_place_back_under_its_old_id(cluster):
    """Seed 1004516."""
    group = group_of(cluster, 0, StaticGroup, 0.5, enable_auto_commit=False)
    cluster.produce(FIRST, SECOND_ONE)
    first = has_a_double(group)
    before, had = first.member_id, dict(first._committed)
    cluster.run(4)
    group.members[1].process.kill()
    cluster.expect(lambda: bool(first._committed) and first._committed != had, 20, "it commits again")
    cluster.run(2)
    assert first.process.alive
    assert first.member_id == before
    assert first.replaced
    assert first.admission not in first.replaced


def test_what_a_static_member_commits_in_the_place_of_its_double_is_found_out(cluster):
    group = group_of(cluster, 0, StaticGroup, 0.5, enable_auto_commit=False)
    cluster.produce(FIRST, SECOND_ONE)
    first = has_a_double(group)
    first.positions = dict.fromkeys((FIRST, SECOND_ONE), 1)
    first.commit()
    *_, pending = first._pending.values()
    with pytest.raises(AssertionError, match=r"^I29: .* another process is instance-0"):
        first._check_commit(pending)


@pytest.mark.parametrize("habits", [Habits(ends_empty=True), Habits(skips=True)], ids=["ends empty", "skips"])
def test_transactions_of_other_libraries(cluster, habits):
    """What ends before it began is no reason to fence anybody; whose first batch is lost commits nothing."""
    transactions = Transactions(cluster, Random(3))
    transactions.ids, transactions.habits = ("a", "b"), [habits, Habits()]
    transactions.pause = (5_000, 50_000)
    transactions.start()
    cluster.run(8)
    transactions.stop()
    transactions.end()
    cluster.settle()
    transactions.settle()
    committed = {
        written.values[0][1][:12] for written in transactions.ledger.transactions if written.fate is Fate.COMMITTED
    }
    assert committed == ({b"transactor-0", b"transactor-1"} if habits.ends_empty else {b"transactor-1"})
    empty = [written for written in transactions.ledger.transactions if not written.values]
    assert bool(empty) == habits.ends_empty
    assert all(written.fate is Fate.ABORTED for written in empty)


@pytest.mark.parametrize("mode", sorted(set(MODES)))
@pytest.mark.parametrize("versions", [None, OLDER, OLDEST], ids=["now", "older", "oldest"])
def test_copiers_copy_exactly_once_through_the_death_of_their_coordinator(cluster, mode, versions):
    copies = Copies(cluster, Random(3), [FIRST, SECOND_ONE])
    copies.mode, copies.doubles, copies.versions = mode, True, versions
    copies.start()
    cluster.produce(FIRST, SECOND_ONE)
    cluster.run(4)
    cluster.world.kill(cluster.leader(TopicPartition("__consumer_offsets", 0)))
    cluster.run(8)
    copies.stop()
    cluster.heal()
    cluster.settle()
    copies.settle()
    assert cluster.world.counts["copies: committed"] > 3
    assert cluster.world.counts["copier begins anew"] > 0
    assert bool(cluster.suite.ghosts.reused) == (versions is not None)
