"""`--zookeeper`: the form in which tools of Kafka 3 named the cluster. It reaches whichever store the cluster uses.

What is given names ZooKeeper (`host:port,…/chroot`), a SQLite store (its file, or `sqlite:PATH`), the folder of
`tidelog up`, or, where someone kept the habit and has no ZooKeeper, a broker. The store says which brokers live; the
command then asks these, so that what is wrong is refused in both forms alike.
"""

from pathlib import Path

from tidelog.cli.options import CommandFailed
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
)
from tidelog.shell.supervisor import metadata_view

SESSION_MS = 10_000
CONNECT_MS = 3000


def bootstrap_from_store(text: str) -> str:
    """Addresses of living brokers; CommandFailed where there is no such store, or no broker in it."""
    if _is_broker(text):
        return text
    try:
        store_address = _parse_store(text)
        return _registered_brokers(store_address)
    except (StoreUnavailable, InvalidOption) as error:
        raise CommandFailed(str(error)) from None


def _parse_store(text: str) -> StoreAddress:
    if text.startswith(("sqlite:", "zookeeper:")):
        return parse_address(text, "--zookeeper")
    path = Path(text)
    if path.is_dir():
        return store_address_in(path)
    if path.is_file() or text.endswith(".sqlite"):
        return SqliteAddress(path.absolute())
    return parse_connect(text, "--zookeeper")


def store_address_in(folder: Path) -> StoreAddress:
    """The memory of the cluster that `tidelog up` runs, or ran, in this folder."""
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
        raise CommandFailed(f"No broker is registered in {store_address}.")
    return ",".join(addresses)


def _address(node: Node) -> str:
    """Where clients reach the broker."""
    for endpoint in tree.parse_registration(node.data).endpoints:
        if endpoint.listener != INTER_BROKER_LISTENER:
            return f"{endpoint.host}:{endpoint.port}"
    return ""
