"""Writes SCRAM users into the metadata store before any broker runs: nobody could log in to add the first one."""

from collections.abc import Iterable

from tidelog.config.quotas import node_name
from tidelog.controller import tree
from tidelog.ports import Create, MetadataStore, Node, Read, Write
from tidelog.security.added_users import User
from tidelog.security.scram import format_credential
from tidelog.shell.store.store_address import StoreAddress, StoreUnavailable, open_store

ATTEMPTS = 10
SESSION_MS = 10_000


def add(address: StoreAddress, users: Iterable[User], *, only_missing: bool = False) -> None:
    """Write the users' credentials beside their quotas, into a store that is created if it is missing; `only_missing`
    leaves existing credentials as they are. StoreUnavailable if the store does not answer."""
    store = open_store(address, session_timeout_ms=SESSION_MS)
    try:
        for user in users:
            _add(store, user, only_missing)
    finally:
        store.close()


def _add(store: MetadataStore, user: User, only_missing: bool) -> None:
    path = f"{tree.USER_CONFIGS}/{node_name(user.name)}"
    for _ in range(ATTEMPTS):
        found = store.apply([Read(path)])
        node = found.values[0] if found.outcome == "ok" else None
        if found.outcome == "ok":
            values = tree.parse_config(node.data) if isinstance(node, Node) else {}
            if only_missing and user.mechanism.name in values:
                return
            data = tree.format_config({**values, user.mechanism.name: format_credential(user.credential)})
            change = Write(path, data, node.version) if isinstance(node, Node) else Create(path, data)
            if store.apply([change]).outcome == "ok":
                return
    raise StoreUnavailable(f"The metadata store did not answer; the user {user.name} may not exist.")
