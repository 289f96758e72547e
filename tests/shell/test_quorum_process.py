"""Three real brokers that are their own metadata quorum: kills of the active controller, and of all, under load."""

import json

import pytest

from tests.waiting import PATIENCE_S, wait_for
from tidelog.quorum.formatting import METADATA_FOLDER
from tidelog.shell.supervisor import NotReady, Supervisor, metadata_view
from tidelog.shell.transport import Admin, Consumer, Producer
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreateTopicsRequest

OPTIONS = {"min.insync.replicas": "2", "default.replication.factor": "3", "group.initial.rebalance.delay.ms": "0"}


class Load:
    """Sends numbered records with acks=all, one after the other, and notes which were acknowledged."""

    def __init__(self, bootstrap):
        self.producer = Producer(bootstrap, acks="all", linger_ms=0)
        self.sent = 0
        self.acknowledged = []

    def step(self):
        number, self.sent = self.sent, self.sent + 1
        self.producer.send("t", value=b"%d" % number, partition=number % 6)
        (delivery,) = self.producer.flush(timeout=PATIENCE_S)
        assert delivery.is_acknowledged, delivery
        self.acknowledged.append(number)

    def steps(self, count):
        for _ in range(count):
            self.step()


def controller_of(cluster):
    def found():
        views = [metadata_view(child.host, child.port).controller for child in cluster.children if child.process]
        return views if len(set(views)) == 1 and views[0] >= 0 else None

    return wait_for(found, "one controller that all know")[0]


def records(bootstrap, wanted):
    with Consumer(bootstrap) as consumer:
        consumer.assign([("t", partition) for partition in range(6)])
        consumer.seek_to_beginning()
        found = set()

        def is_complete():
            found.update(int(record.value) for record in consumer.poll(timeout=0.1))
            return found >= wanted

        wait_for(is_complete, "all acknowledged records")


def test_nothing_acknowledged_is_lost_over_kills_of_the_controller_and_of_all(tmp_path):
    with Supervisor(tmp_path, brokers=3, port=0, overrides=OPTIONS, quorum=True) as cluster:
        with Admin(cluster.bootstrap) as admin:
            topic = CreatableTopic(name="t", num_partitions=6, replication_factor=3, assignments=[], configs=[])
            answer = admin.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
            assert not answer.topics[0].error_code, answer
        load = Load(cluster.bootstrap)
        load.steps(20)
        for _ in range(2):
            before = controller_of(cluster)
            cluster.kill(before)
            load.steps(20)
            assert controller_of(cluster) != before
            cluster.start_broker(before)
            cluster.wait_ready()
            load.steps(20)
        load.producer.close()
        for number in range(3):
            cluster.kill(number)
        for number in range(3):
            cluster.start_broker(number)
        cluster.wait_ready()
        records(cluster.bootstrap, set(load.acknowledged))
        states = [
            json.loads((tmp_path / f"broker-{n}" / METADATA_FOLDER / "quorum-state").read_text()) for n in range(3)
        ]
        assert all(state["data_version"] == 1 for state in states)
    with pytest.raises(NotReady, match="has a metadata quorum: start it with --metadata quorum"):
        Supervisor(tmp_path, brokers=3, port=0, overrides=OPTIONS).start()
