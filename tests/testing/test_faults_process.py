"""Faults of brokers and of the network between them, which others notice only after a session timeout."""

import socket

import pytest

from tests.waiting import wait_for
from tidelog.shell.supervisor import metadata_view
from tidelog.shell.transport import Admin
from tidelog.testing import Cluster
from tidelog.wire.messages.topics.metadata import MetadataRequest


@pytest.fixture(scope="module")
def three():
    with Cluster(brokers=3, broker_session_timeout_ms=1000) as cluster:
        yield cluster


def test_a_paused_broker_answers_nothing_until_it_goes_on(three):
    three.create_topic("paused")
    broker = three.leader("paused")
    port = three.brokers[broker].port
    with socket.create_connection(("127.0.0.1", port)) as idle:
        three.pause(broker)
        three.pause(broker)
        assert three.brokers[broker].is_paused
        assert "paused" in repr(three)
        assert not metadata_view("127.0.0.1", port, timeout_s=0.05).brokers
        wait_for(lambda: three.leader("paused") != broker, "the others to end its session")
        three.resume(broker)
        with Admin(f"127.0.0.1:{port}") as admin:
            assert admin.ask(MetadataRequest(topics=[])).brokers
        idle.settimeout(0.01)
        with pytest.raises(TimeoutError):
            idle.recv(1)  # its connection is still open
    three.wait_ready()
