"""A listener that clients share with the brokers (`inter.broker.listener.name`)."""

from tests.shell.test_sasl import Wire
from tests.shell.test_tls import port_of
from tidelog.testing import Cluster
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreateTopicsRequest

OPTIONS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SHARED://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SHARED:PLAINTEXT",
    "inter.broker.listener.name": "SHARED",
}


def test_each_broker_forwards_what_clients_request_there():
    """One of the two is not the controller. It took the requests for what another broker had forwarded."""
    with Cluster(brokers=2, options=OPTIONS) as cluster:
        for number, broker in enumerate(cluster.brokers):
            topics = [CreatableTopic(name=f"by-{number}", num_partitions=1, replication_factor=2)]
            with Wire(port_of(broker, "SHARED")) as wire:
                answer = wire.ask(19, 7, CreateTopicsRequest(topics=topics, timeout_ms=30_000))
            assert [each.error_code for each in answer.topics] == [0]
