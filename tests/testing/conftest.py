"""The cluster of the tests of this folder, one for each file and whole again after each test, and their clients."""

import pytest

from tests.testing.clients import CLIENTS
from tidelog.testing import Cluster


@pytest.fixture(scope="module")
def shared():
    with Cluster(brokers=3, broker_session_timeout_ms=1000, auto_leader_rebalance_enable=False) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared):
    yield shared
    shared.heal()
    shared.start()
    shared.forget_requests()


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request):
    return request.param
