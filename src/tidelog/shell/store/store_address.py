"""Where the cluster's metadata is: the addresses that an operator may configure, and opening the store there.

`sqlite:PATH` is a file for brokers of one machine, `zookeeper://HOST:PORT,…/CHROOT` a tree in ZooKeeper for brokers of
many. kazoo is imported only for ZooKeeper.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.errors import InvalidOption
from tidelog.shell.store.sqlite_seal import StoreDamaged
from tidelog.shell.store.sqlite_store import SqliteStore
from tidelog.shell.store.sqlite_turns import newest_database
from tidelog.shell.store.store_thread import Session
from tidelog.shell.store.zookeeper_security import NO_SECURITY, ZookeeperSecurity, security_of

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
    security: ZookeeperSecurity = NO_SECURITY

    def __str__(self) -> str:
        return f"{ZOOKEEPER}{self.hosts}{self.chroot}"


StoreAddress = SqliteAddress | ZookeeperAddress


class StoreUnavailable(Exception):
    """A store cannot be opened; the message says why."""


def parse_address(text: str, option: str = "metadata.store") -> StoreAddress:
    """The address in `text`; InvalidOption, naming `option`, if it is neither kind of address."""
    if text.startswith(ZOOKEEPER):
        return parse_connect(text.removeprefix(ZOOKEEPER), option)
    kind, _, path = text.partition(":")
    if kind != "sqlite" or not path:
        raise InvalidOption(f"{option} must be sqlite:PATH or zookeeper://HOST:PORT/CHROOT, not {text}.")
    return SqliteAddress(Path(path).absolute())


def parse_connect(text: str, option: str = "zookeeper.connect") -> ZookeeperAddress:
    """The address in `host:port,host:port/chroot`, the format of zookeeper.connect; InvalidOption if it is
    malformed."""
    hosts, _, chroot = text.strip().partition("/")
    parts = [part for part in chroot.split("/") if part]
    for each in hosts.split(","):
        host, _, port = each.strip().rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) <= MOST_PORT:
            raise InvalidOption(
                f"{option} must be HOST:PORT,HOST:PORT/CHROOT, not {text}: {each!r} has no host and port."
            )
    if any(part in {".", ".."} for part in parts):
        raise InvalidOption(
            f"{option} must be HOST:PORT,HOST:PORT/CHROOT, not {text}: the chroot contains '.' or '..'."
        )
    return ZookeeperAddress(",".join(each.strip() for each in hosts.split(",")), "".join(f"/{part}" for part in parts))


def address_of(config: BrokerConfig) -> StoreAddress:
    """The address that the options of a broker give; by default a file beside its first log folder."""
    if config.has_quorum:
        raise InvalidOption(
            "process.roles: the metadata is in a quorum of controllers, not in a store that can be opened; ask a broker"
        )
    connect, store = config.zookeeper_connect, config.metadata_store
    if connect is not None and store is not None:
        raise InvalidOption(
            f"metadata.store={store} and zookeeper.connect={connect} name two metadata stores: set only one."
        )
    if connect is not None:
        return secured(parse_connect(connect), config)
    if store is not None:
        return secured(parse_address(store), config)
    first = Path(config.folders[0])
    return SqliteAddress(first.absolute().with_name(first.name + "-metadata") / "metadata.sqlite")


def secured(address: StoreAddress, config: BrokerConfig) -> StoreAddress:
    """The address with the options that secure connections to it; InvalidOption if they cannot work."""
    return address._replace(security=security_of(config)) if isinstance(address, ZookeeperAddress) else address


def session_timeout_ms(config: BrokerConfig, address: StoreAddress) -> int:
    """The session timeout of a broker; ZooKeeper's servers may grant another one."""
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
    """Open a session with the store; StoreUnavailable if that fails. `create`: create a store that is missing. `folder`
    is the broker's own and locked: a session that it left in ZooKeeper when it was killed is ended first
    (`zookeeper_session_file`)."""
    if isinstance(address, ZookeeperAddress):
        zookeeper_store, store_refused = _zookeeper()
        try:
            return zookeeper_store(
                address.hosts,
                address.chroot,
                security=address.security,
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
