"""Brokers of the version before there were features, in one cluster with those of today: `tidelog.metadata`."""

import pytest

from tests.controller.fake_cluster import FakeCluster
from tidelog.controller import tree
from tidelog.controller.features import SUPPORTED, refusal
from tidelog.errors import ErrorCode
from tidelog.ports import Delete
from tidelog.wire.messages.cluster.features import FeatureUpdateKey, UpdateFeaturesRequest

ELR, TREE = "eligible.leader.replicas.version", "tidelog.metadata"


def update(cluster, *levels, kind=1):
    wanted = [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level in levels]
    answer = cluster.ask(UpdateFeaturesRequest(feature_updates=wanted))
    return answer.error_code, answer.error_message


@pytest.fixture
def founded_earlier():
    """Two brokers of today in a cluster of the earlier version, and one of that version that is down."""
    cluster = FakeCluster(elr=True)
    assert cluster.tree.session().apply([Delete(tree.FEATURE)]).outcome == "ok"
    cluster.brokers[2].has_features = False
    cluster.brokers[2].controller.has_features = False
    for broker in (0, 1):
        cluster.brokers[broker].start()
    cluster.settle()
    return cluster


def test_nothing_new_is_written_before_the_level_is_finalized(founded_earlier):
    cluster = founded_earlier
    cluster.brokers[2].start()
    cluster.settle()
    cluster.create("t", 1, 3)
    assert cluster.brokers[0].image.features == cluster.brokers[2].image.features == {}
    cluster.brokers[1].kill()
    cluster.brokers[2].kill()
    cluster.settle()
    assert cluster.partition("t").state.elr == ()
    assert tree.FEATURE not in cluster.tree.nodes


def test_a_level_is_finalized_once_every_broker_supports_it_and_eligible_replicas_need_it(founded_earlier):
    cluster = founded_earlier
    code, message = update(cluster, (ELR, 1))
    assert code == ErrorCode.INVALID_UPDATE_VERSION
    assert message.endswith(f"{ELR} could not be set to 1 because it depends on {TREE} level 1")
    cluster.brokers[2].start()
    cluster.settle()
    assert update(cluster, (TREE, 1))[1].endswith("Broker 2 does not support this feature.")
    cluster.brokers[2].kill()
    cluster.settle()
    assert update(cluster, (ELR, 1), (TREE, 1)) == (ErrorCode.NONE, None)
    assert tree.parse_features(cluster.tree.nodes[tree.FEATURE].data) == {ELR: 1, TREE: 1}
    assert cluster.brokers[1].image.features == {ELR: 1, TREE: 1}


def test_a_finalized_level_is_never_lowered(founded_earlier):
    assert update(founded_earlier, (TREE, 1)) == (ErrorCode.NONE, None)
    for kind in (2, 3):
        code, message = update(founded_earlier, (TREE, 0), kind=kind)
        assert code == ErrorCode.INVALID_UPDATE_VERSION
        assert "Refusing to perform the requested downgrade" in message


def test_a_broker_of_an_earlier_version_is_refused_with_one_sentence(founded_earlier):
    cluster = founded_earlier
    assert update(cluster, (TREE, 1)) == (ErrorCode.NONE, None)
    cluster.brokers[2].start()
    cluster.settle()
    cluster.brokers[1].kill()
    cluster.settle()
    assert cluster.state.brokers.keys() == {0}
    assert cluster.brokers[2].image.brokers == {}, "nothing is pushed to it"
    (refused,) = cluster.kinds("broker.refused")
    assert refused["broker"] == 2
    assert refused["reason"] == (
        "the cluster has tidelog.metadata 1, and the broker's version supports none; start a newer version"
    )
    assert cluster.leader.controller.refused == {2: refused["reason"]}
    cluster.brokers[2].kill()
    cluster.settle()
    assert cluster.leader.controller.refused == {}


def test_a_controller_of_an_earlier_version_is_replaced_before_it_writes(founded_earlier):
    cluster = founded_earlier
    assert update(cluster, (TREE, 1)) == (ErrorCode.NONE, None)
    cluster.brokers[2].start()
    cluster.settle()
    earlier, first = cluster.brokers[2], cluster.leader
    first.kill()
    while not earlier.controller.leading:  # it is the first to hear of it
        for path in earlier.session.events():
            earlier.run(earlier.controller.store_event(path, cluster.now))
        cluster.step_store()
    cluster.settle()
    assert cluster.leader is not earlier
    assert not earlier.controller.leading
    assert [event["broker"] for event in cluster.kinds("controller.refused")] == [2]


def test_what_a_broker_supports_decides():
    assert refusal(SUPPORTED, {ELR: 1, TREE: 1}) is None
    assert refusal(SUPPORTED, {"later.version": 0}) is None
    assert "later.version 1" in refusal(SUPPORTED, {"later.version": 1})
    assert "supports levels 0 to 1" in refusal(SUPPORTED, {TREE: 2})
