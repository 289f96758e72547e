from tidelog.controller.image import FULL, INCREMENTAL, LEADER_DURING_DELETE, ClusterImage
from tidelog.model import Endpoint
from tidelog.wire.messages.cluster.controller_pushes import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

ONE, TWO = b"1" * 16, b"2" * 16


def topic(name, topic_id, **leaders):
    states = [
        UpdateMetadataPartitionState(
            partition_index=int(index[1:]), leader=leader, leader_epoch=3, zk_version=8, isr=[1], replicas=[1, 2]
        )
        for index, leader in leaders.items()
    ]
    return UpdateMetadataTopicState(topic_name=name, topic_id=topic_id, partition_states=states)


def push(image, *topics, kind=INCREMENTAL, brokers=(1, 2)):
    live = [
        UpdateMetadataBroker(
            id=id_, rack="r", endpoints=[UpdateMetadataEndpoint(port=9, host="h", listener="L", security_protocol=3)]
        )
        for id_ in brokers
    ]
    request = UpdateMetadataRequest(
        controller_id=1, controller_epoch=4, type=kind, topic_states=list(topics), live_brokers=live
    )
    touched = image.apply(request)
    image.check_invariants()
    return touched


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
