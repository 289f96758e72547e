"""What a client knows of leaders never goes back, whoever answered meanwhile."""

from tidelog.client.metadata import Metadata
from tidelog.errors import ErrorCode
from tidelog.model import NO_ID, TopicPartition
from tidelog.wire.messages.topics.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

T0 = TopicPartition("t", 0)
ID, OTHER_ID = b"i" * 16, b"o" * 16


def answer(leader, epoch, topic_id=ID):
    partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
    return of(MetadataResponseTopic(name="t", topic_id=topic_id, partitions=[partition]))


def unknown_topic():
    """What a broker answers that has just started."""
    return of(MetadataResponseTopic(name="t", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))


def of(topic):
    brokers = [MetadataResponseBroker(node_id=node, host=f"host{node}", port=9092) for node in range(3)]
    return MetadataResponse(brokers=brokers, topics=[topic])


def told(*answers):
    metadata = Metadata()
    metadata.interest = {"t"}
    for one in answers:
        metadata.update(one)
    return metadata


def test_an_older_epoch_changes_nothing():
    assert told(answer(0, 5), answer(1, 4)).leader(T0) == 0
    assert told(answer(0, 5), answer(1, 6)).leader(T0) == 1


def test_an_epoch_is_remembered_though_a_broker_that_just_started_knows_no_topic():
    """Seed 1001: then a broker that had slept through an election was believed, and had less than was read."""
    metadata = told(answer(0, 5), unknown_topic(), answer(1, 4))
    assert metadata.leader(T0) is None
    assert metadata.is_incomplete()
    metadata.update(answer(2, 6))
    assert metadata.leader(T0) == 2


def test_another_topic_of_the_same_name_begins_with_its_own_epochs():
    assert told(answer(0, 5), answer(1, 0, OTHER_ID)).leader(T0) == 1
    assert told(answer(0, 5), unknown_topic(), answer(1, 0, OTHER_ID)).leader(T0) == 1


def test_a_topic_that_is_gone_keeps_its_id_until_another_has_its_name():
    metadata = told(answer(0, 5), unknown_topic())
    assert (metadata.topic_id("t"), metadata.last_id("t")) == (NO_ID, ID)
    metadata.update(answer(0, 0, OTHER_ID))
    assert metadata.last_id("t") == OTHER_ID


def test_brokers_that_know_no_topic_ids_report_epochs_too():
    assert told(answer(0, 5, NO_ID), answer(1, 4, NO_ID)).leader(T0) == 0


def test_an_epoch_learned_elsewhere_makes_an_older_leader_one_of_the_past():
    metadata = told(answer(0, 5))
    assert not metadata.learn_epoch(T0, 5)
    assert metadata.leader(T0) == 0
    assert metadata.learn_epoch(T0, 6)
    assert metadata.leader(T0) is None
    metadata.update(answer(0, 5))
    assert metadata.leader(T0) is None
    metadata.update(answer(1, 6))
    assert metadata.leader(T0) == 1


def test_what_an_answer_says_of_the_leader_is_not_believed_if_it_is_older():
    metadata = told(answer(0, 5))
    assert not metadata.learn_leader(T0, 1, 5)
    assert metadata.learn_leader(T0, 1, 6)
    metadata.update(answer(0, 5))
    assert metadata.leader(T0) == 1


def test_topics_without_interest_are_forgotten_with_their_epochs():
    metadata = told(answer(0, 5))
    metadata.interest = set()
    metadata.update(MetadataResponse())
    metadata.interest = {"t"}
    metadata.update(answer(1, 4))
    assert metadata.leader(T0) == 1
