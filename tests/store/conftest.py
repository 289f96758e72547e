"""Every store that the conformance suite holds to `ports.MetadataStore`. A new one registers in `WORLDS`."""

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Protocol

import pytest
from kazoo.client import KazooClient

from tests.node.quorum.member_world import MemberStore, MemberWorld
from tests.quorum.trees import QuorumStore, Replica, through_bytes
from tidelog.ports import MetadataStore
from tidelog.quorum.tree import Tree as QuorumTree
from tidelog.shell.store.sqlite_store import SqliteStore
from tidelog.shell.store.zookeeper_store import ZookeeperStore
from tidelog.shell.store.zookeeper_wire import sync
from tidelog.sim.store import Session, Tree


class StoreWorld(Protocol):
    def session(self) -> MetadataStore:
        """Begin another session with the same tree, as another broker would."""

    def kill(self, store: MetadataStore) -> None:
        """The owner of the session dies without closing it; when this returns the others have noticed."""

    def restart(self) -> None:
        """Everything that runs ends, and starts again from what is stored."""

    def close(self) -> None: ...


class SqliteWorld:
    """Sessions of one process, each with its own connections and locks; `test_sqlite_store.py` uses real processes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "metadata.sqlite"
        self.stores: list[SqliteStore] = []

    def session(self) -> MetadataStore:
        self.stores.append(SqliteStore(self.path))
        return self.stores[-1]

    def kill(self, store: MetadataStore) -> None:
        """The kernel's part of a death: the lock goes, and nothing else happens."""
        assert isinstance(store, SqliteStore)
        store.closed = True
        os.dup2(os.open(os.devnull, os.O_RDWR), store._own._fd)
        for other in self.stores:
            if not other.closed:
                other.end_session(store.session)

    def restart(self) -> None:
        for store in self.stores:
            store.close()

    def close(self) -> None:
        self.restart()


class SimulatedWorld:
    def __init__(self, folder: Path) -> None:
        self.tree = Tree()

    def session(self) -> MetadataStore:
        return self.tree.session()

    def kill(self, store: MetadataStore) -> None:
        self.tree.expire(store.session)

    def restart(self) -> None:
        for session in list(self.tree.sessions.values()):
            assert isinstance(session, Session)
            session.close()

    def close(self) -> None:
        """Nothing is held."""


class QuorumWorld:
    """The tree of the metadata quorum, on one node."""

    def __init__(self, folder: Path) -> None:
        self.replica = Replica()

    def session(self) -> MetadataStore:
        return QuorumStore(self.replica)

    def kill(self, store: MetadataStore) -> None:
        self.replica.end(store.session)

    def restart(self) -> None:
        """Everything is read again from a snapshot."""
        for session in list(self.replica.tree.sessions):
            self.replica.end(session)
        picture, self.replica.tree = self.replica.tree.picture(), QuorumTree()
        for record in picture.records():
            self.replica.tree.load(through_bytes(record))

    def close(self) -> None:
        """Nothing is held."""


class QuorumNodesWorld:
    """The tree of a metadata quorum of three nodes; each session is on another node, which does not vote."""

    def __init__(self, folder: Path) -> None:
        self.world = MemberWorld()
        self.world.begin()
        self.stores: list[MemberStore] = []

    def session(self) -> MetadataStore:
        machine = self.world.machines[3 + len(self.stores)]
        self.stores.append(MemberStore(self.world, machine))
        return self.stores[-1]

    def kill(self, store: MetadataStore) -> None:
        store.close()

    def restart(self) -> None:
        """The machines of the sessions end for good, the others start again."""
        for store in self.stores:
            store.close()
        for machine in self.world.machines[:3]:
            self.world.kill(machine)
        self.world.begin()

    def close(self) -> None:
        """Nothing is held."""


class PromptStore(ZookeeperStore):
    """Knows of every change that was answered before it is asked: a server tells its watches in order."""

    def events(self):
        if not (self.closed or self.lost):
            self._client.send(sync("")).get(timeout=60)
        return super().events()


class ZookeeperWorld:
    """A tree of its own in a server that all tests share."""

    chroots = count()

    def __init__(self, hosts: str) -> None:
        self.hosts = hosts
        self.chroot = f"/tests/conformance-{next(self.chroots)}"
        self.stores: list[ZookeeperStore] = []

    def session(self) -> MetadataStore:
        self.stores.append(PromptStore(self.hosts, self.chroot, session_timeout_ms=60_000))
        return self.stores[-1]

    def kill(self, store: MetadataStore) -> None:
        """Whoever knows a session's password may end it: to the servers this is the owner's own word."""
        assert isinstance(store, ZookeeperStore)
        end_session(self.hosts, store)

    def restart(self) -> None:
        for store in self.stores:
            store.close()

    def close(self) -> None:
        self.restart()


def end_session(hosts: str, store: ZookeeperStore) -> None:
    """Have the servers end the session of a store, which hears of it as of an expiry."""
    thief = KazooClient(hosts, client_id=store.identity)
    thief.start()
    thief.stop()
    thief.close()


WORLDS: dict[str, Callable[[Path], StoreWorld]] = {
    "sqlite": SqliteWorld,
    "simulated": SimulatedWorld,
    "quorum": QuorumWorld,
    "quorum nodes": QuorumNodesWorld,
}


@pytest.fixture(params=sorted(WORLDS))
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreWorld]:
    """The one in ZooKeeper is in test_conformance_java.py."""
    world = WORLDS[request.param](tmp_path)
    yield world
    world.close()


@pytest.fixture
def store(world: StoreWorld) -> MetadataStore:
    return world.session()
