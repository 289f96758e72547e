import pytest

from tidelog.controller.image import FULL, INCREMENTAL, LEADER_DURING_DELETE, ClusterImage
from tidelog.errors import ApiError
from tidelog.model import Endpoint
from tidelog.wire.messages.cluster.controller_pushes import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

ONE, TWO, OLD = b"1" * 16, b"2" * 16, b"3" * 16


def topic(name, topic_id, **leaders):
    states = [
        UpdateMetadataPartitionState(
            partition_index=int(index[1:]), leader=leader, leader_epoch=3, zk_version=8, isr=[1], replicas=[1, 2]
        )
        for index, leader in leaders.items()
    ]
    return UpdateMetadataTopicState(topic_name=name, topic_id=topic_id, partition_states=states)


def push(image, *topics, kind=INCREMENTAL, brokers=(1, 2), part=0, has_more=False, epoch=4):
    live = [
        UpdateMetadataBroker(
            id=id_, rack="r", endpoints=[UpdateMetadataEndpoint(port=9, host="h", listener="L", security_protocol=3)]
        )
        for id_ in brokers
    ]
    request = UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=epoch,
        type=kind,
        topic_states=list(topics),
        live_brokers=live,
        part=part,
        has_more=has_more,
    )
    changed = image.apply(request)
    image.check_invariants()
    return changed and changed.touched


def test_an_increment_adds_and_changes():
    image = ClusterImage("id")
    assert push(image, topic("t", ONE, p0=1, p1=2)) == {"t"}
    push(image, topic("t", ONE, p1=-1))
    assert [image.partition("t", index).leader for index in (0, 1)] == [1, -1]
    found = image.partition("t", 0)
    assert (found.leader_epoch, found.partition_epoch, found.isr, found.replicas) == (3, 8, [1], [1, 2])
    assert image.topic_by_id(ONE).name == "t"
    assert image.brokers[2].endpoints == {"L": Endpoint("L", "SASL_SSL", "h", 9)}
    assert (image.controller_id, image.controller_epoch) == (1, 4)


def test_every_push_names_all_live_brokers():
    image = ClusterImage()
    push(image)
    push(image, brokers=(2,))
    assert list(image.brokers) == [2]


def test_a_full_push_replaces_all():
    image = ClusterImage()
    push(image, topic("t", ONE, p0=1), topic("u", TWO, p0=1))
    assert push(image, topic("u", TWO, p0=2), kind=FULL) == {"t", "u"}
    assert list(image.topics) == ["u"]
    assert image.topic_by_id(ONE) is None


def test_a_deleted_topic_goes_with_its_last_partition():
    image = ClusterImage()
    push(image, topic("t", ONE, p0=1, p1=1))
    push(image, topic("t", ONE, p0=LEADER_DURING_DELETE))
    assert list(image.topics["t"].partitions) == [1]
    push(image, topic("t", ONE, p1=LEADER_DURING_DELETE))
    assert image.topics == {}
    assert image.topic_by_id(ONE) is None


def test_a_topic_made_again_replaces_the_old_one():
    image = ClusterImage()
    push(image, topic("t", ONE, p0=1, p1=1))
    push(image, topic("t", TWO, p0=2))
    assert list(image.topics["t"].partitions) == [0]
    assert (image.topic_by_id(ONE), image.topic_by_id(TWO).name) == (None, "t")


def test_the_end_of_an_earlier_topic_of_the_name_does_not_touch_the_new_one():
    image = ClusterImage()
    push(image, topic("t", TWO, p0=2))
    push(image, topic("t", ONE, p0=LEADER_DURING_DELETE))
    assert image.topic_by_id(TWO).partitions[0].leader == 2


@pytest.mark.parametrize("kind", [INCREMENTAL, FULL])
def test_parts_of_a_push_take_effect_together(kind):
    image = ClusterImage()
    push(image, topic("t", ONE, p0=1, p1=1), topic("old", OLD, p0=1))
    assert push(image, topic("t", TWO, p0=2), kind=kind, has_more=True) is None
    assert (
        push(image, topic("t", TWO, p1=2), topic("new", ONE, p0=1), brokers=(1,), kind=kind, part=1, has_more=True)
        is None
    )
    assert (image.topics["t"].id, image.partition("t", 0).leader, len(image.brokers)) == (ONE, 1, 2)
    assert "new" not in image.topics
    touched = push(image, topic("old", OLD, p0=-2), brokers=(1,), kind=kind, part=2)
    assert touched == {"t", "new", "old"}
    assert image.topic_names == {ONE: "new", TWO: "t"}
    assert [image.partition("t", index).leader for index in (0, 1)] == [2, 2]
    assert list(image.brokers) == [1]


def test_parts_change_and_delete_partitions_of_a_topic_that_others_still_see():
    image = ClusterImage()
    push(image, topic("t", ONE, p0=1, p1=1))
    push(image, topic("t", ONE, p0=-2), has_more=True)
    assert image.topics["t"].partitions.keys() == {0, 1}
    push(image, topic("t", ONE, p1=-2), part=1, has_more=True)
    assert image.topics["t"].partitions.keys() == {0, 1}
    assert push(image, part=2) == {"t"}
    assert not image.topics


def test_a_part_whose_predecessor_is_missing_is_refused():
    image = ClusterImage()
    push(image, topic("t", ONE, p0=1), has_more=True)
    for given in ({"part": 2}, {"part": 1, "epoch": 5}):
        with pytest.raises(ApiError):
            push(image, topic("t", ONE, p1=1), **given)
    push(image, topic("u", TWO, p0=1))  # another push ends the one that was under way
    with pytest.raises(ApiError):
        push(image, topic("t", ONE, p1=1), part=1)
    assert image.topics.keys() == {"u"}
