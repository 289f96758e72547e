"""One broker process and its canary for each file; whatever a test did, both must live after it."""

from collections.abc import Iterator

import pytest

from tests.compatibility.differential.side import Side
from tests.fuzz.hostile import TOPIC, Canary
from tests.processes import Processes
from tidelog.shell.child import Child

LIMITS = {"socket.request.max.bytes": "2000000"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory) -> Iterator[Child]:
    with Processes(tmp_path_factory.mktemp("hostile"), brokers=1, port=0, overrides=LIMITS) as running:
        side = Side("canary", running.children[0].port)
        side.topic(TOPIC, 1)
        side.close()
        yield running.children[0]


@pytest.fixture(scope="module")
def canary(broker) -> Iterator[Canary]:
    bird = Canary(broker.port)
    yield bird
    bird.close()


@pytest.fixture(autouse=True)
def sings_before_and_after(broker, canary) -> Iterator[None]:
    canary.sings()
    yield
    canary.sings()
    assert broker.process is not None
    assert broker.process.poll() is None
