"""Where the cluster's memory is: what an operator may write, and the store that is opened there.

`sqlite:PATH` is a file for the brokers of one machine, `zookeeper://HOST:PORT,…/CHROOT` a tree in ZooKeeper for those
of many. kazoo is imported only where ZooKeeper is meant.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.errors import InvalidOption
from tidelog.shell.store.sqlite_store import SqliteStore
from tidelog.shell.store.sqlite_tree import StoreDamaged
from tidelog.shell.store.sqlite_turns import newest_database
from tidelog.shell.store.store_thread import Session

if TYPE_CHECKING:
    from tidelog.shell.store.zookeeper_store import StoreRefused, ZookeeperStore

ZOOKEEPER = "zookeeper://"
MOST_PORT = 65_535


class SqliteAddress(NamedTuple):
    path: Path

    def __str__(self) -> str:
        return f"sqlite:{self.path}"


class ZookeeperAddress(NamedTuple):
    hosts: str
    chroot: str = ""

    def __str__(self) -> str:
        return f"{ZOOKEEPER}{self.hosts}{self.chroot}"


StoreAddress = SqliteAddress | ZookeeperAddress


class StoreUnavailable(Exception):
    """Why a store cannot be opened, as one sentence."""


def parse_address(text: str, option: str = "metadata.store") -> StoreAddress:
    """InvalidOption names the `option` where the text is neither kind of address."""
    if text.startswith(ZOOKEEPER):
        return parse_connect(text.removeprefix(ZOOKEEPER), option)
    kind, _, path = text.partition(":")
    if kind != "sqlite" or not path:
        raise InvalidOption(f"{option} must be sqlite:PATH or zookeeper://HOST:PORT/CHROOT, not {text}.")
    return SqliteAddress(Path(path).absolute())


def parse_connect(text: str, option: str = "zookeeper.connect") -> ZookeeperAddress:
    """`host:port,host:port/chroot`, as Kafka's zookeeper.connect; InvalidOption where it is not that."""
    hosts, _, chroot = text.strip().partition("/")
    parts = [part for part in chroot.split("/") if part]
    for each in hosts.split(","):
        host, _, port = each.strip().rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) <= MOST_PORT:
            raise InvalidOption(
                f"{option} must be HOST:PORT,HOST:PORT/CHROOT, not {text}: {each!r} has no host and port."
            )
    if any(part in {".", ".."} for part in parts):
        raise InvalidOption(f"{option} must be HOST:PORT,HOST:PORT/CHROOT, not {text}: no such chroot can be.")
    return ZookeeperAddress(",".join(each.strip() for each in hosts.split(",")), "".join(f"/{part}" for part in parts))


def address_of(config: BrokerConfig) -> StoreAddress:
    """What the options of a broker say; without any the file beside its first log folder."""
    connect, store = config.zookeeper_connect, config.metadata_store
    if connect is not None and store is not None:
        raise InvalidOption(
            f"metadata.store={store} and zookeeper.connect={connect} are two memories of one cluster: leave one out."
        )
    if connect is not None:
        return parse_connect(connect)
    if store is not None:
        return parse_address(store)
    first = Path(config.folders[0])
    return SqliteAddress(first.absolute().with_name(first.name + "-metadata") / "metadata.sqlite")


def session_timeout_ms(config: BrokerConfig, address: StoreAddress) -> int:
    """The term of a broker's session; ZooKeeper's servers may grant another one."""
    if isinstance(address, SqliteAddress):
        return config.broker_session_timeout_ms
    return config.zookeeper_session_timeout_ms


def open_store(
    address: StoreAddress,
    *,
    session_timeout_ms: int,
    connection_timeout_ms: int | None = None,
    create: bool = True,
    folder: Path | None = None,
    notify: Callable[[], None] = lambda: None,
    is_alive: Callable[[], bool] = lambda: True,
) -> Session:
    """A session with the store; StoreUnavailable if none can be opened. `create`: create a store that is missing.
    `folder` is the broker's own and locked: the session that it left in ZooKeeper when it was killed is ended now
    (`zookeeper_session_file`)."""
    if isinstance(address, ZookeeperAddress):
        zookeeper_store, store_refused = _zookeeper()
        try:
            return zookeeper_store(
                address.hosts,
                address.chroot,
                session_timeout_ms=session_timeout_ms,
                connection_timeout_ms=connection_timeout_ms,
                create=create,
                folder=folder,
                notify=notify,
                is_alive=is_alive,
            )
        except store_refused as refused:
            raise StoreUnavailable(str(refused)) from None
    if not create and newest_database(address.path) is None:
        raise StoreUnavailable(f"There is no metadata store at {address.path}.")
    try:
        return SqliteStore(address.path, session_timeout_ms=session_timeout_ms, notify=notify, is_alive=is_alive)
    except (StoreDamaged, sqlite3.Error, OSError) as error:
        raise StoreUnavailable(f"The metadata store {address.path} cannot be opened: {error}.") from error


def _zookeeper() -> "tuple[type[ZookeeperStore], type[StoreRefused]]":
    try:
        from tidelog.shell.store.zookeeper_store import StoreRefused, ZookeeperStore
    except ImportError:
        raise StoreUnavailable("ZooKeeper needs the package kazoo: pip install 'tidelog[zookeeper]'.") from None
    return ZookeeperStore, StoreRefused
