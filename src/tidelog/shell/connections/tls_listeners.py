"""The TLS contexts of one broker's listeners, and how new stores replace them while the broker runs."""

import ssl
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tidelog.config import listeners, principals
from tidelog.config.broker import LISTENER_PREFIX, BrokerConfig, base_name
from tidelog.config.families.security_options import STORES
from tidelog.errors import InvalidOption
from tidelog.shell.connections import key_stores, stores, tls
from tidelog.shell.event_logger import EventLogger


class Served(NamedTuple):
    """The TLS settings of one listener, the certificate that it shows, and the state of the files from which they were
    read. `client` is the context of connections to other nodes, if they use this listener. A node without a key store
    does not open it, and only connects to it."""

    context: ssl.SSLContext | None
    rules: Sequence[principals.Rule]
    identity: key_stores.Identity | None
    files: Mapping[str, tuple[int, int, int]]
    client: ssl.SSLContext | None


LOOK_EVERY_S = 1.0
"""The minimum time between two checks of the store files, which happen when a connection is opened."""


class TlsListeners:
    """The TLS contexts of a node: one for each TLS listener, and one for connections to other nodes by each listener.

    A store file that changed is reloaded at the next connection. New stores must suit the current ones
    (`_check_successor`); otherwise the error is logged, and the current context stays in use.
    """

    def __init__(self, config: BrokerConfig, logger: EventLogger) -> None:
        """Load all contexts; InvalidOption if a store is missing or cannot be read."""
        self._config = config
        self._logger = logger
        self._looked_at = 0.0
        opened = {each.listener for each in listeners.opened(config) if each.security.endswith("SSL")}
        reached = {name for name, protocol in listeners.among_nodes(config).items() if protocol.endswith("SSL")}
        self._served = {name: _served(config, name, is_opened=name in opened) for name in sorted(opened | reached)}
        for name in sorted(opened & reached):
            _check_handshake(self._served[name], self._served[name])

    def __repr__(self) -> str:
        return f"TlsListeners({', '.join(self._served) or 'none'})"

    def server(self, listener: str) -> Served | None:
        """The settings of the listener; None if it does not use TLS."""
        if not self._served:
            return None
        self._look_at_files()
        return self._served.get(listener)

    def client(self, listener: str) -> ssl.SSLContext | None:
        """The context of connections to other nodes by this listener; None if it does not use TLS."""
        served = self.server(listener)
        return None if served is None else served.client

    def expiries(self) -> dict[str, int]:
        """When the certificates expire that the listeners show, in wall-clock milliseconds."""
        return {name: served.identity.expires_ms for name, served in self._served.items() if served.identity}

    def change(self, options: Mapping[str, str]) -> None:
        """Apply the stores among the changed dynamic options of this broker. Whether clients must show a certificate
        and what they may negotiate is decided in the broker's file only, as in Kafka."""
        before, self._config = self._config, self._changed(options)
        self._reload([name for name in self._served if _stores_of(before, name) != _stores_of(self._config, name)])

    def problem(self, options: Mapping[str, str]) -> str | None:
        """Why these dynamic options of this broker cannot be applied; None if they can."""
        config = self._changed(options)
        try:
            for name, current in self._served.items():
                if _is_named(name, options) or _stores_of(config, name) != _stores_of(self._config, name):
                    new = _served(config, name, is_opened=current.context is not None)
                    _check_successor(current, new, config.of_listener(name))
        except InvalidOption as problem:
            return str(problem)
        return None

    def _changed(self, options: Mapping[str, str]) -> BrokerConfig:
        named = {name: text for name, text in options.items() if base_name(name).startswith(STORES)}
        return self._config.changed({}, named)

    def _look_at_files(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < LOOK_EVERY_S:
            return
        self._looked_at = now
        self._reload([name for name, served in self._served.items() if _stamps(served.files) != served.files])

    def _reload(self, names: Sequence[str]) -> None:
        for name in names:
            current = self._served[name]
            try:
                new = _served(self._config, name, is_opened=current.context is not None)
                _check_successor(current, new, self._config.of_listener(name))
                self._served[name] = new
                self._logger.write("info", "tls.reloaded", {"listener": name})
            except InvalidOption as problem:
                self._served[name] = current._replace(files=_stamps(current.files))
                self._logger.write("error", "tls.not_reloaded", {"listener": name, "reason": problem})


def _served(config: BrokerConfig, listener: str, *, is_opened: bool) -> Served:
    own = config.of_listener(listener)
    stamps = _stamps(dict.fromkeys(stores.files(own)))  # before they are read: a change in between is detected later
    key = stores.key_of(own)
    if key is None and is_opened:
        raise InvalidOption("ssl.keystore.location: a TLS listener needs a key store (or ssl.keystore.key as PEM text)")
    key_stores.check_installed(f"{listener}: a TLS listener")
    context = tls.server_context(own, key) if key is not None and is_opened else None
    identity = key_stores.identity(key.pem, key.option) if key is not None else None
    client = tls.client_context(own) if listener in listeners.among_nodes(config) else None
    return Served(context, principals.parse(own.ssl_principal_mapping_rules), identity, stamps, client)


def _is_named(listener: str, options: Mapping[str, str]) -> bool:
    """Whether the options name stores of this listener; the same value again reads a file again."""
    prefix = f"{LISTENER_PREFIX}{listener.lower()}."
    return any(name.startswith(prefix) and base_name(name).startswith(STORES) for name in options)


def _stores_of(config: BrokerConfig, listener: str) -> dict[str, str]:
    """The options of the listener that name its stores."""
    return {name: text for name, text in config.of_listener(listener).explicit.items() if name.startswith(STORES)}


def _check_successor(current: Served, new: Served, config: BrokerConfig) -> None:
    """InvalidOption if clients or other brokers may refuse the new certificate: by Kafka's rules it keeps the
    distinguished name and all alternative names, unless the broker's file allows other ones. Between brokers, old and
    new stores must trust each other, because the brokers change one after another."""
    old, fresh = current.identity, new.identity
    if old is None or fresh is None:
        return  # it shows nobody a certificate
    if not config.ssl_allow_dn_changes and old.subject.casefold() != fresh.subject.casefold():
        raise InvalidOption(
            f"Keystore DistinguishedName does not match: existing={old.subject}, new={fresh.subject} "
            "(ssl.allow.dn.changes is false)"
        )
    lost = sorted(old.alternative_names - fresh.alternative_names)
    if lost and not config.ssl_allow_san_changes:
        raise InvalidOption(
            f"Keystore SubjectAltNames do not match: the new certificate lacks {', '.join(lost)} "
            "(ssl.allow.san.changes is false)"
        )
    if new.client is not None and new.context is not None:
        for server, client in ((current, new), (new, current), (new, new)):
            _check_handshake(server, client)


def _check_handshake(server: Served, client: Served) -> None:
    """InvalidOption if a broker with the client's settings cannot connect to one with the server's."""
    context = client.client
    assert context is not None
    assert server.context is not None
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    checks_host, context.check_hostname = context.check_hostname, False  # which host is known with a connection only
    try:
        connecting = context.wrap_bio(to_client, to_server)
    finally:
        context.check_hostname = checks_host
    sides = [connecting, server.context.wrap_bio(to_server, to_client, server_side=True)]
    try:
        while sides:
            for side in list(sides):
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
                    sides.remove(side)
    except ssl.SSLError as problem:
        reason = getattr(problem, "verify_message", "") or problem.reason
        raise InvalidOption(f"brokers with these stores do not trust each other: {reason}") from None


def _stamps(files: Mapping[str, object]) -> dict[str, tuple[int, int, int]]:
    found: dict[str, tuple[int, int, int]] = {}
    for path in files:
        with suppress(OSError, ValueError):
            status = Path(path).stat()
            found[path] = status.st_mtime_ns, status.st_size, status.st_ino
    return found
