"""What is taken from the wire: who asked as a follower, from where an answer came, and what clients received."""

from types import SimpleNamespace

from tests.sim.checks.support import NAME, REPLICAS, batch, ghosts
from tidelog.sim.checks.wire.wire_tap import EPOCHS, FETCH, AnsweredPush, FetchPosition, ResponseSource, WireTap
from tidelog.wire.codec import encode_request, encode_response
from tidelog.wire.messages.cluster.brokers import ControlledShutdownRequest, ControlledShutdownResponse
from tidelog.wire.messages.cluster.controller_pushes import StopReplicaRequest, StopReplicaResponse
from tidelog.wire.messages.records import fetch, offsets, produce
from tidelog.wire.messages.records.offsets import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

ID = b"T" * 16


class Link:
    """As much of one as is looked at."""

    def __init__(self, *, is_open=True):
        self.open = is_open


class Scene:
    """A leader, `broker-0`, and somebody who talks to it."""

    def __init__(self, *, epoch=1, before=1, listener="REPLICATION"):
        self.ghosts = ghosts()
        self.wire_tap = WireTap(self.ghosts, lambda *_: before)
        partition = SimpleNamespace(name=NAME, epoch=epoch, replicas=REPLICAS, high_watermark=4, last_stable_offset=3)
        replicas = SimpleNamespace(get=lambda *_: partition, topic_name=lambda _: "t")
        trace = SimpleNamespace(step=9)
        self.host = SimpleNamespace(
            broker_id=0, name="broker-0", node=SimpleNamespace(replicas=replicas), world=SimpleNamespace(trace=trace)
        )
        link = Link()
        self.near = SimpleNamespace(link=link, listener=listener, party=SimpleNamespace(name="broker-0"))
        self.far = SimpleNamespace(link=link, listener="", party=SimpleNamespace(name="broker-1"), other=self.near)
        self.near.other = self.far
        self.correlation = 0

    def ask(self, key, version, request):
        self.correlation += 1
        frame = b"".join(map(bytes, encode_request(key, version, self.correlation, "x", request)))
        self.wire_tap.received(self.host, self.near, [memoryview(frame)[4:]])

    def answer(self, key, version, response):
        """Returns the frame as it arrives."""
        frame = b"".join(map(bytes, encode_response(key, version, self.correlation, response)))
        self.wire_tap.sent(self.host, self.near, frame)
        return memoryview(frame)[4:]

    def fetch(self, follower=1, *, epoch=1, session=0, offset=7, life=11):
        wanted = fetch.FetchPartition(
            partition=0, current_leader_epoch=epoch, fetch_offset=offset, last_fetched_epoch=1, partition_max_bytes=9
        )
        topics = [fetch.FetchTopic(topic_id=ID, partitions=[wanted])] if offset is not None else []
        state = fetch.ReplicaState(replica_id=follower, replica_epoch=life)
        self.ask(FETCH, 15, fetch.FetchRequest(replica_state=state, session_epoch=session, topics=topics))

    def serve(self, records=b"", code=0):
        data = fetch.PartitionData(partition_index=0, error_code=code, high_watermark=4, records=records)
        topic = fetch.FetchableTopicResponse(topic_id=ID, partitions=[data])
        return self.answer(FETCH, 15, fetch.FetchResponse(responses=[topic]))


def test_where_a_follower_says_to_be():
    scene = Scene()
    scene.fetch()
    assert scene.wire_tap.fetched[0, NAME] == {(1, 1, 11): [FetchPosition(7, 1)]}


def test_a_follower_that_registered_anew_vouches_for_all_of_its_session():
    scene = Scene()
    scene.fetch()
    scene.fetch(session=1, offset=None, life=21)
    assert set(scene.wire_tap.fetched[0, NAME]) == {(1, 1, 11), (1, 1, 21)}


def test_what_comes_late_on_an_older_connection_is_of_another_session():
    scene = Scene()
    scene.fetch(epoch=1)
    present, scene.near.link = scene.near.link, Link()
    scene.fetch(epoch=0)
    scene.near.link = present
    scene.fetch(session=1, offset=None)
    scene.serve()
    assert scene.wire_tap.unassigned == []


def test_what_comes_on_a_link_that_was_given_up_may_be_older_or_newer():
    """A follower that was cut goes back, and its next fetch may outlive it: seed 1034."""
    scene = Scene()
    scene.fetch()
    scene.near.link = Link(is_open=False)
    scene.fetch(offset=5)
    assert scene.wire_tap.fetched[0, NAME] == {(1, 1, 11): [FetchPosition(7, 1), FetchPosition(5, 1)]}
    scene.near.link = Link()
    scene.fetch(offset=9)
    assert scene.wire_tap.fetched[0, NAME] == {(1, 1, 11): [FetchPosition(9, 1)]}


def test_an_assigned_follower_may_be_answered_and_others_must_be_refused():
    for follower, epoch, code, seen in ((1, 1, 0, 0), (7, 1, 0, 1), (7, 1, 6, 0), (1, 0, 0, 1), (1, 0, 74, 0)):
        scene = Scene()
        scene.fetch(follower, epoch=epoch)
        scene.serve(code=code)
        assert len(scene.wire_tap.unassigned) == seen, (follower, epoch, code)


def test_an_answer_of_the_step_in_which_the_epoch_changed():
    scene = Scene(epoch=2, before=1)
    scene.fetch(epoch=1)
    arrived = scene.serve()
    assert scene.wire_tap.unassigned == []
    scene.wire_tap.received(scene.host, scene.far, [arrived])
    assert scene.wire_tap.sources == {NAME: ResponseSource(0, 2, 1)}
    assert [scene.wire_tap.sources[NAME].is_from_epoch(epoch) for epoch in (0, 1, 2)] == [False, True, True]
    scene.wire_tap.step_over()
    assert scene.wire_tap.sources == {}


def test_an_answer_on_epochs_has_a_source_too():
    scene = Scene()
    asked = OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=1)])
    scene.ask(EPOCHS, 3, OffsetForLeaderEpochRequest(replica_id=1, topics=[asked]))
    arrived = scene.answer(EPOCHS, 3, OffsetForLeaderEpochResponse())
    scene.wire_tap.received(scene.host, scene.far, [arrived])
    assert scene.wire_tap.sources[NAME] == ResponseSource(0, 1, 1)


def test_what_producers_and_consumers_are_told():
    scene = Scene(listener="PLAINTEXT")
    content = bytes(batch([b"a"], producer=(7, 0, 0)))
    data = produce.PartitionProduceData(index=0, records=content)
    topic = produce.TopicProduceData(name="t", partition_data=[data])
    for acks in (1, -1):
        scene.ask(0, 9, produce.ProduceRequest(acks=acks, timeout_ms=1, topic_data=[topic]))
        said = produce.PartitionProduceResponse(index=0, base_offset=3)
        scene.answer(
            0,
            9,
            produce.ProduceResponse(
                responses=[produce.TopicProduceResponse(name="t", topic_id=ID, partition_responses=[said])]
            ),
        )
    (success,) = scene.wire_tap.acked_batches
    assert (success.name, success.base, success.sent.producer_id) == (NAME, 3, 7)
    scene.fetch(follower=-1)
    scene.serve(content)
    assert [(given.records, given.limit) for given in scene.wire_tap.served] == [(content, 4)]


def test_what_the_latest_offset_is_said_to_be():
    scene = Scene(listener="PLAINTEXT")
    for timestamp in (-2, -1):
        asked = offsets.ListOffsetsPartition(partition_index=0, current_leader_epoch=1, timestamp=timestamp)
        topic = offsets.ListOffsetsTopic(name="t", partitions=[asked])
        scene.ask(2, 7, offsets.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic]))
        found = offsets.ListOffsetsPartitionResponse(partition_index=0, offset=4)
        said = offsets.ListOffsetsTopicResponse(name="t", partitions=[found])
        scene.answer(2, 7, offsets.ListOffsetsResponse(topics=[said]))
    assert [(latest.offset, latest.epoch) for latest in scene.wire_tap.latest_offsets] == [(4, 1)]


def test_a_shutdown_that_the_controller_agreed_to():
    scene = Scene()
    scene.ghosts.controller_epoch = 3
    scene.ask(7, 3, ControlledShutdownRequest(broker_id=1, broker_epoch=11))
    scene.answer(7, 3, ControlledShutdownResponse())
    assert scene.ghosts.leaving == {(1, 3): (11, 9)}


def test_what_a_controller_pushed_and_how_it_was_answered():
    scene = Scene()
    broker = SimpleNamespace(controller=SimpleNamespace(known_epoch=4), pushes=SimpleNamespace(confirmed=2))
    scene.host.node.broker = broker
    scene.ask(5, 4, StopReplicaRequest(controller_epoch=3, push_number=9))
    broker.pushes.confirmed = 5
    assert scene.wire_tap.pushes == []
    scene.answer(5, 4, StopReplicaResponse(error_code=11))
    assert scene.wire_tap.pushes == [AnsweredPush("StopReplica", 3, 9, 4, 11)]
    scene.wire_tap.step_over()
    assert scene.wire_tap.pushes == []
