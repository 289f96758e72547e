"""The command line as a function, and a small cluster for it to talk to."""

import os
import sys
from typing import NamedTuple

import pytest

from tests.waiting import wait_for
from tidelog.cli.admin_requests import connect
from tidelog.cli.main import run
from tidelog.testing import Cluster
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self):
        return self.out.splitlines()


@pytest.fixture
def tidelog(capsys, monkeypatch):
    """`tidelog("topics", "--list")` → exit code, stdout, stderr; `given` is standard input."""

    def call(*arguments, given=b""):
        read_fd, write_fd = os.pipe()
        os.write(write_fd, given)
        os.close(write_fd)
        with os.fdopen(read_fd) as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            capsys.readouterr()
            code = run(arguments)
        return Result(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def cluster():
    with Cluster(brokers=3, auto_create_topics_enable=False) as started:
        yield started


class On:
    """The command line with --bootstrap-server of the shared cluster; tests take topics of their own."""

    def __init__(self, tidelog, bootstrap):
        self._tidelog = tidelog
        self._bootstrap = bootstrap

    def __call__(self, command, *arguments, given=b""):
        return self._tidelog(command, "--bootstrap-server", self._bootstrap, *arguments, given=given)

    def until(self, wanted, command, *arguments):
        """The first result that is as wanted: what one broker changed the others learn a moment later, as in Kafka."""

        def result():
            found = self(command, *arguments)
            return found if wanted(found) else None

        return wait_for(result, f"{command} {' '.join(arguments)} as wanted")

    def create(self, topic, *arguments):
        """Create a topic that every broker knows, with its leaders."""
        result = self("topics", "--create", "--topic", topic, *arguments)
        assert result.code == 0, result
        with connect(self._bootstrap) as admin:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
            for broker in range(3):
                wait_for(
                    lambda broker=broker: all(self._leaders(admin.ask(request, broker))),
                    f"broker {broker} to know {topic} with its leaders",
                )
        return result

    @staticmethod
    def _leaders(response):
        (topic,) = response.topics
        return [partition.leader_id >= 0 for partition in topic.partitions] or [False]


@pytest.fixture
def on(tidelog, cluster):
    return On(tidelog, cluster.bootstrap)
