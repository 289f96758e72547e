"""`--zookeeper`, the option of Kafka 3's tools: finds the brokers of a cluster by its metadata store, whichever it is.

The value names ZooKeeper (`host:port,…/chroot`), a SQLite store (its file, or `sqlite:PATH`), the folder of
`tidelog up`, or a broker, for users who have no ZooKeeper. The store lists the live brokers, and the command sends its
requests to them, so that errors are the same as with `--bootstrap-server`.
"""

from collections.abc import Mapping
from pathlib import Path

from tidelog.config.broker import BrokerConfig
from tidelog.controller import tree
from tidelog.errors import InvalidOption
from tidelog.model import INTER_BROKER_LISTENER
from tidelog.ports import Children, Node, Read
from tidelog.shell.broker import load_config
from tidelog.shell.store.store_address import (
    SqliteAddress,
    StoreAddress,
    StoreUnavailable,
    address_of,
    open_store,
    parse_address,
    parse_connect,
    secured,
)
from tidelog.shell.supervisor import metadata_view

SESSION_MS = 10_000
CONNECT_MS = 3000


def bootstrap_from_store(text: str, options: Mapping[str, str]) -> str:
    """Addresses of the live brokers; InvalidOption if there is no such store, or no broker is registered in it.
    `options` secure connections to ZooKeeper."""
    if _is_broker(text):
        return text
    try:
        return _registered_brokers(_parse_store(text, BrokerConfig(options)))
    except StoreUnavailable as error:
        raise InvalidOption(str(error)) from None


def _parse_store(text: str, config: BrokerConfig) -> StoreAddress:
    if text.startswith(("sqlite:", "zookeeper:")):
        return secured(parse_address(text, "--zookeeper"), config)
    path = Path(text)
    if path.is_dir():
        return store_address_in(path)
    if path.is_file() or text.endswith(".sqlite"):
        return SqliteAddress(path.absolute())
    if ":" not in text:
        raise InvalidOption(f"--zookeeper: {text!r} is neither HOST:PORT/CHROOT nor an existing folder or SQLite file.")
    return secured(parse_connect(text, "--zookeeper"), config)


def store_address_in(folder: Path) -> StoreAddress:
    """The metadata store of the cluster that `tidelog up` runs, or ran, in this folder."""
    files = sorted(folder.glob("broker-*/server.properties"))
    return address_of(load_config(files[0])) if files else SqliteAddress((folder / "metadata.sqlite").absolute())


def _is_broker(text: str) -> bool:
    host, _, port = text.partition(",")[0].rpartition(":")
    return bool(host) and port.isdigit() and 0 < int(port) <= 65_535 and bool(metadata_view(host, int(port)).brokers)


def _registered_brokers(store_address: StoreAddress) -> str:
    store = open_store(store_address, session_timeout_ms=SESSION_MS, connection_timeout_ms=CONNECT_MS, create=False)
    try:
        listed = store.apply([Children(tree.BROKER_IDS)])
        names = [str(name) for value in listed.values for name in value or ()]
        nodes = store.apply([Read(f"{tree.BROKER_IDS}/{name}") for name in names]).values if names else []
    finally:
        store.close()
    found = [_address(node) for node in nodes if isinstance(node, Node)]
    addresses = [address for address in found if address]
    if not addresses:
        raise InvalidOption(f"No broker is registered in {store_address}.")
    return ",".join(addresses)


def _address(node: Node) -> str:
    """The address of the broker's client listener, or '' if it has none."""
    for endpoint in tree.parse_registration(node.data).endpoints:
        if endpoint.listener != INTER_BROKER_LISTENER:
            return f"{endpoint.host}:{endpoint.port}"
    return ""
