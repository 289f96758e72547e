"""The command line as a function, and a small cluster for it to talk to."""

import os
import sys
from typing import NamedTuple

import pytest

from tidelog.cli.main import run
from tidelog.testing import Cluster


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


@pytest.fixture
def on(tidelog, cluster):
    """The same with --bootstrap-server of the shared cluster; tests take topics of their own."""

    def call(command, *arguments, given=b""):
        return tidelog(command, "--bootstrap-server", cluster.bootstrap, *arguments, given=given)

    return call
