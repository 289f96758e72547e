"""The store in ZooKeeper keeps what every store promises: the tests of test_conformance.py once more."""

from collections.abc import Iterator

import pytest

from tests.ensemble import Ensemble
from tests.store.conftest import ZookeeperWorld
from tests.store.test_conformance import *  # noqa: F403 (all of its tests)


@pytest.fixture
def world(zookeeper: Ensemble) -> Iterator[ZookeeperWorld]:
    world = ZookeeperWorld(zookeeper.hosts)
    yield world
    world.close()
