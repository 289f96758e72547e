"""Eligible leader replicas (KIP-966): the sets, the elections, and the rules of `min.insync.replicas`."""

from hypothesis import given
from hypothesis import strategies as st

from tests.controller.fake_cluster import FakeCluster
from tests.controller.test_leaders import worlds
from tidelog.controller import tree
from tidelog.controller.leaders import UNCHANGED, Life, counts, elect, elect_by_logs, forgotten, with_elr
from tidelog.controller.moves import reverted, reverted_uncleanly
from tidelog.controller.state import Partition, Topic
from tidelog.controller.tree import Assignment, LeadershipState
from tidelog.errors import ErrorCode
from tidelog.ports import Create, Write
from tidelog.wire.messages.cluster.features import FeatureUpdateKey, UpdateFeaturesRequest
from tidelog.wire.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.messages.topics.reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

LEAST = st.integers(1, 3)
ELR, TREE = "eligible.leader.replicas.version", "tidelog.metadata"
MIN = "min.insync.replicas"


@st.composite
def sparse_worlds(draw):
    """As `worlds`, with eligible replicas, some that were, and no in-sync set or a small one."""
    state, replicas, lives, offline = draw(worlds())
    others = [b for b in replicas if b not in state.isr]
    elr = tuple(sorted(draw(st.sets(st.sampled_from(others))) if others else ()))
    rest = [b for b in others if b not in elr]
    lost = tuple(sorted(draw(st.sets(st.sampled_from(rest))) if rest else ()))
    epochs = [tuple(draw(st.integers(0, 3)) for _ in each) for each in (elr, lost)]
    state = state._replace(elr=elr, elr_epochs=epochs[0], last_known=lost, last_known_epochs=epochs[1])
    if draw(st.booleans()) and (elr or lost):
        state = state._replace(leader=-1, isr=(), isr_epochs=())
    return state, replicas, lives, offline


def check(before, after, replicas, lives, min_in_sync):
    assert not set(after.elr) & {*after.isr, *after.last_known}
    assert {*after.isr, *after.elr, *after.last_known} <= set(replicas)
    assert after.leader in after.isr or after.leader == -1
    if len(after.isr) >= min(min_in_sync, len(replicas)):
        assert not after.elr
        assert not after.last_known
        return
    assert set(before.recorded) & set(replicas) <= set(after.recorded), "nobody is forgotten"
    for broker, epoch in after.eligible.items():
        assert broker not in lives or epoch == lives[broker].epoch, "a clean return renews the epoch"
        assert broker not in lives or counts(broker, {**before.eligible, **before.members}[broker], lives)


@given(sparse_worlds(), LEAST)
def test_an_election_takes_the_isr_then_an_eligible_replica_that_counts_then_waits_for_all(world, min_in_sync):
    state, replicas, lives, offline = world
    election = elect(state, replicas, lives, offline=offline, min_in_sync=min_in_sync)
    after = election.state or state
    check(state, after, replicas, lives, min_in_sync)

    def able(known):
        return [
            b
            for b in replicas
            if b in known and b not in offline and counts(b, known[b], lives) and not lives[b].leaving
        ]

    if able(state.members):
        as_before = elect(state, replicas, lives, offline=offline).state or state
        assert (after.leader, after.isr) == (as_before.leader, as_before.isr)
    elif eligible := able({**state.eligible, **state.members}):
        assert (after.leader, after.isr) == (eligible[0], (eligible[0],))
    elif after.leader != -1:
        assert set(state.recorded) == {after.leader}, "alone, and back with all that it had"
    else:
        assert after.isr == ()
        present = {b for b in lives if b not in offline and not lives[b].leaving}
        everybody = not after.elr and set(after.last_known) <= present
        assert set(election.candidates) == (set(after.last_known) if everybody else set())
    if after.leader != -1:
        assert elect(after, replicas, lives, offline=offline, min_in_sync=min_in_sync) == UNCHANGED


@given(sparse_worlds(), LEAST)
def test_an_unclean_election_ends_what_was_known_and_waits_for_eligible_replicas_that_stop(world, min_in_sync):
    state, replicas, lives, offline = world
    clean = elect(state, replicas, lives, offline=offline, min_in_sync=min_in_sync)
    election = elect(state, replicas, lives, offline=offline, min_in_sync=min_in_sync, unclean=True)
    if election.unclean:
        assert (clean.state or state).leader == -1 or not clean.candidates
        after = election.state
        assert (after.isr, after.elr, after.last_known) == ((after.leader,), (), ())
    else:
        assert election.state == clean.state or clean.candidates


@given(sparse_worlds(), LEAST)
def test_the_sets_follow_from_before_and_after_alone(world, min_in_sync):
    state, replicas, lives, _ = world
    once = with_elr(state, state, replicas, lives, min_in_sync)
    assert with_elr(state, once, replicas, lives, min_in_sync) == once
    assert with_elr(state, state, replicas, lives, 0) == state._replace(
        elr=(), elr_epochs=(), last_known=(), last_known_epochs=(), last_leader=-1
    )


def test_the_most_complete_log_leads_and_the_others_stay_known_until_enough_are_in_sync():
    state = LeadershipState(-1, 4, (), (), 1, (), (), (0, 1), (7, 8), 0)
    lives = {0: Life(20), 1: Life(21), 2: Life(22)}
    found = elect(state, (0, 1, 2), lives, min_in_sync=2)
    assert (found.state, found.candidates) == (None, (0, 1))
    after = elect_by_logs(state, (0, 1, 2), lives, {0: (3, 5), 1: (3, 9)}, 2)
    assert (after.leader, after.isr, after.elr, after.last_known, after.last_leader) == (1, (1,), (), (0,), -1)
    joined = with_elr(after, after._replace(isr=(1, 2), isr_epochs=(21, 22)), (0, 1, 2), lives, 2)
    assert joined.last_known == ()


def test_without_the_feature_all_that_may_have_what_is_committed_are_in_the_isr_of_a_partition_without_a_leader():
    state = LeadershipState(-1, 4, (), (), 1, (0,), (7,), (1,), (8,), 0)
    assert forgotten(state) == LeadershipState(-1, 4, (0, 1), (7, 8), 1)
    led = LeadershipState(2, 4, (2,), (5,), 1, (0,), (7,), (1,), (8,))
    assert forgotten(led) == LeadershipState(2, 4, (2,), (5,), 1)


# A cluster.


def started(**options):
    cluster = FakeCluster(elr=True, **{"min_insync_replicas": 2, **options}).start()
    cluster.create("t", assignments={0: [0, 1, 2]})
    cluster.settle()
    return cluster


def sets(cluster):
    state = cluster.partition("t").state
    return state.leader, state.isr, state.elr, state.last_known


def test_after_an_ordered_stop_and_a_replaced_disk_the_one_that_went_before_leads():
    cluster = started()
    brokers = cluster.brokers
    for broker in (1, 2):
        brokers[broker].stop_cleanly()
        cluster.settle_if_alive()
    assert sets(cluster) == (0, (0,), (2,), ())
    assert list(brokers[0].elr.values()) == [[2]]
    brokers[1].start()
    cluster.settle()
    brokers[0].kill()  # without a clean end: its disk is another one
    cluster.settle_if_alive()
    assert sets(cluster) == (-1, (), (0, 2), ())
    assert brokers[1].image.topics["t"].partitions[0].elr == [0, 2]
    assert brokers[1].image.topics["t"].partitions[0].last_leader == 0
    brokers[0].start()
    cluster.settle()
    assert sets(cluster) == (-1, (), (2,), (0,)), "it may have lost records, and the other one has them"
    brokers[2].start()
    cluster.settle()
    assert sets(cluster)[:2] == (2, (2,))
    assert sets(cluster)[3] == (0,)
    assert cluster.kinds("partition.eligible") == [{"topic": "t", "partition": 0, "leader": 2}]
    assert not cluster.kinds("partition.unclean")


def reassign(cluster, replicas):
    wish = ReassignablePartition(partition_index=0, replicas=replicas)
    answer = cluster.ask(AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=[wish])]))
    return answer.responses[0].partitions[0].error_code


def moving():
    """Broker 3 is added to 0 and 1, and eligible with 0. Its process was killed, so that it waits for 0."""
    cluster = FakeCluster(4, elr=True, min_insync_replicas=2).start()
    cluster.create("t", assignments={0: [0, 1]})
    assert reassign(cluster, [3, 2]) == ErrorCode.NONE
    cluster.expand("t", 0, 3)
    for broker in (1, 3, 0):
        cluster.brokers[broker].kill()
        cluster.settle_if_alive()
    assert sets(cluster) == (-1, (), (0, 3), ())
    cluster.brokers[3].start()
    cluster.settle()
    assert sets(cluster) == (-1, (), (0,), (3,))
    return cluster


def test_a_move_cannot_be_cancelled_while_that_forgets_a_log_that_may_be_the_most_complete():
    cluster = moving()
    assert reassign(cluster, None) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassign(cluster, [0, 1]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    cluster.brokers[3].log_ends["t", 0] = (1, 9)
    cluster.brokers[0].start()
    cluster.settle()
    assert sets(cluster) == (3, (3,), (), (0,)), "both are back without proof, and broker 3 has more"


def test_an_unclean_cancellation_takes_the_replica_that_misses_least():
    """Only broker 3, which is added, is in sync; broker 0 is eligible, broker 1 fell behind before."""
    state = LeadershipState(3, 4, (3,), (13,), elr=(0,), elr_epochs=(10,))
    partition = Partition(Topic("t", Assignment(bytes(16), {0: (1, 0, 3)}, {0: (3,)}, {}), 0), 0, (1, 0, 3))
    partition.adding = (3,)
    partition.commit(state, 5)
    lives = {0: Life(10), 1: Life(11), 3: Life(13)}
    assert reverted(partition, lives, 2) is None
    move = reverted_uncleanly(partition, lives)
    assert (move.replicas, move.state) == ((1, 0), LeadershipState(0, 5, (0,), (10,)))
    leaving = {0: Life(10, leaving=True), 1: Life(11)}
    assert reverted_uncleanly(partition, leaving).state.leader == 1
    assert reverted_uncleanly(partition, {3: Life(13)}) is None


def alter(cluster, kind, name, *configs):
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterableConfig(name=option, config_operation=how, value=value) for option, how, value in configs],
    )
    (answer,) = cluster.ask(IncrementalAlterConfigsRequest(resources=[resource])).responses
    return answer.error_code, answer.error_message


SET, DELETE = 0, 1


def test_the_cluster_has_a_min_insync_replicas_and_no_broker_its_own():
    cluster = started()
    assert cluster.state.configs["brokers/<default>"] == {MIN: "2"}
    code, message = alter(cluster, 4, "1", (MIN, SET, "1"))
    assert (code, message) == (
        ErrorCode.INVALID_CONFIG, "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
    )  # fmt: skip
    code, message = alter(cluster, 4, "", (MIN, DELETE, None))
    assert (code, message) == (
        ErrorCode.INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
    )  # fmt: skip
    assert alter(cluster, 4, "", (MIN, SET, "1"))[0] == ErrorCode.NONE
    assert alter(cluster, 4, "1", ("log.cleaner.threads", SET, "2"))[0] == ErrorCode.NONE


def test_a_lower_min_insync_replicas_ends_eligible_replicas_and_a_higher_one_keeps_them():
    cluster = started(min_insync_replicas=3)
    cluster.brokers[2].stop_cleanly()
    cluster.settle_if_alive()
    assert sets(cluster) == (0, (0, 1), (2,), ())
    assert alter(cluster, 2, "t", (MIN, SET, "4"))[0] == ErrorCode.NONE
    assert sets(cluster) == (0, (0, 1), (2,), ())
    assert alter(cluster, 2, "t", (MIN, SET, "2"))[0] == ErrorCode.NONE
    assert sets(cluster) == (0, (0, 1), (), ())
    assert list(cluster.brokers[0].elr.values()) == [[]]


def update(cluster, level, kind=1, feature=ELR, **more):
    wanted = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
    answer = cluster.ask(UpdateFeaturesRequest(feature_updates=[wanted], **more))
    return answer.error_code, answer.error_message


def test_the_feature_is_turned_off_and_on():
    cluster = started()
    cluster.brokers[1].kill()
    cluster.brokers[2].kill()
    cluster.settle_if_alive()
    assert sets(cluster)[:2] == (0, (0,))
    code, message = update(cluster, 0)
    assert code == ErrorCode.INVALID_UPDATE_VERSION
    assert message == (
        f"The update failed for all features since the following feature had an error: Invalid update version 0 for "
        f"feature {ELR}. Can't downgrade the version of this feature without setting the upgrade type to either safe or "
        f"unsafe downgrade."
    )
    assert update(cluster, 0, 2, validate_only=True)[0] == ErrorCode.NONE
    assert cluster.state.has_elr
    assert update(cluster, 0, 2)[0] == ErrorCode.NONE
    assert not cluster.state.has_elr
    assert sets(cluster) == (0, (0,), (), ())
    assert cluster.brokers[0].image.features == {ELR: 0, TREE: 1}
    assert alter(cluster, 4, "1", (MIN, SET, "1"))[0] == ErrorCode.NONE
    assert alter(cluster, 4, "", (MIN, DELETE, None))[0] == ErrorCode.NONE
    assert update(cluster, 1)[0] == ErrorCode.NONE
    assert tree.parse_features(cluster.tree.nodes[tree.FEATURE].data) == {ELR: 1, TREE: 1}
    assert cluster.state.configs["brokers/<default>"] == {MIN: "2"}
    assert cluster.state.configs["brokers/1"] == {}
    assert cluster.kinds("min-insync.removed") == [{"broker": "1", "value": "1"}]
    assert cluster.kinds("min-insync.set") == [{"value": "2"}]
    assert (cluster.brokers[0].image.features, cluster.brokers[0].image.features_epoch) == ({ELR: 1, TREE: 1}, 2)


def test_levels_that_nobody_supports_are_refused():
    cluster = started()
    for feature, level, why in (
        (ELR, 2, "only supports versions 0-1"),
        (ELR, -1, "A feature version cannot be less than 0."),
        ("share.version", 1, "does not support this feature."),
        ("metadata.version", 29, "only supports versions 30-30"),
    ):
        code, message = update(cluster, level, feature=feature)
        assert code == ErrorCode.INVALID_UPDATE_VERSION
        assert message.endswith(why)
    assert update(cluster, 1, 9)[1].endswith("The controller does not support the given upgrade type.")
    assert update(cluster, 30, feature="metadata.version")[0] == ErrorCode.NONE


def test_a_broker_that_does_not_know_the_feature_prevents_it():
    cluster = FakeCluster().start()
    for broker in cluster.brokers.values():
        broker.controller.has_features = True
    cluster.elr = True
    code, message = update(cluster, 1)
    assert code == ErrorCode.INVALID_UPDATE_VERSION
    assert "does not support this feature." in message


def test_an_unclean_election_takes_who_was_in_the_isr_for_longest():
    """Replicas 3 and 1 are back without proof; 1 was in sync alone when all died."""
    state = LeadershipState(1, 6, (1,), (11,), elr=(2, 3), elr_epochs=(12, 13))
    lives = {3: Life(23), 1: Life(21)}
    for known in (state, elect(state, (3, 2, 1), {}, min_in_sync=2).state):
        assert elect(known, (3, 2, 1), lives, min_in_sync=2).state.leader == -1
        assert elect(known, (3, 2, 1), lives, min_in_sync=2, unclean=True).state.leader == 1
    after = {**lives, 2: Life(22)}
    assert elect(LeadershipState(-1, 7, (), ()), (3, 2, 1), after, min_in_sync=2, unclean=True).state.leader == 3


def test_a_controller_that_cannot_read_the_level_elects_from_all_who_are_recorded():
    state = LeadershipState(-1, 6, (), (), elr=(2,), elr_epochs=(12,), last_known=(3,), last_known_epochs=(13,))
    led = elect(state, (3, 2, 1), {2: Life(22, clean_epoch=12)}).state
    assert (led.leader, led.isr, led.elr, led.last_known) == (2, (2,), (), ())
    waits = elect(state, (3, 2, 1), {2: Life(22)})
    assert (waits.state, waits.candidates) == (None, ())
    assert elect(state, (3, 2, 1), {2: Life(22), 3: Life(23)}).candidates == (2, 3)


def by_hand(cluster, number, entity, options, *, exists):
    """As Kafka 3's `kafka-configs --zookeeper`: the options, then a notification."""
    path, data = f"{tree.CONFIG}/{entity}", tree.format_config(options)
    version = cluster.tree.nodes[path].version if exists else 0
    cluster.by_hand(Write(path, data, version) if exists else Create(path, data))
    cluster.by_hand(Create(tree.config_change_path(number), tree.format_config_change(entity)))


def test_a_min_insync_replicas_that_is_written_to_the_tree_counts():
    cluster = started(min_insync_replicas=1)
    (last,) = cluster.state.config_changes or [-1]
    by_hand(cluster, last + 1, "topics/t", {MIN: "3"}, exists=True)
    cluster.brokers[2].kill()
    cluster.settle()
    assert sets(cluster) == (0, (0, 1), (2,), ()), "the controller that knows 1 would not keep it"
    by_hand(cluster, last + 2, "topics/t", {MIN: "2"}, exists=True)
    assert sets(cluster) == (0, (0, 1), (), ())


def test_a_min_insync_replicas_of_a_broker_that_is_written_to_the_tree_goes_again():
    cluster = started()
    by_hand(cluster, 0, "brokers/1", {MIN: "1", "log.cleaner.threads": "2"}, exists=False)
    assert cluster.state.configs["brokers/1"] == {"log.cleaner.threads": "2"}
    assert cluster.kinds("min-insync.removed") == [{"broker": "1", "value": "1"}]
    by_hand(cluster, 2, f"brokers/{tree.DEFAULT_ENTITY}", {}, exists=True)
    assert cluster.state.configs[f"brokers/{tree.DEFAULT_ENTITY}"] == {MIN: "2"}


def test_a_new_topic_with_options_makes_the_controller_read_none_of_them_again():
    cluster = started()
    reads = []
    cluster.leader.controller.active.term.journal.submit = lambda command, **_: reads.append(command.name)
    cluster.leader.controller.active.store_event(tree.CONFIG, cluster.now)
    assert reads == []
    cluster.leader.controller.active.store_event(tree.CONFIG_CHANGES, cluster.now)
    assert reads == ["configs"]
