"""TLS on the broker's sockets: contexts from Kafka's `ssl.*` options, non-blocking streams, and the principals of
peers.

Stores are PEM (a file, or the text itself), PKCS#12 or JKS; as in Java, the content of the file decides between the
last two. A context is immutable: a reload creates a new one, and open connections keep theirs.
"""

import os
import ssl
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from socket import socket
from typing import NamedTuple

from tidelog.client.options import ClientOptions
from tidelog.config import listeners, principals
from tidelog.config.broker import BrokerConfig, base_name
from tidelog.errors import InvalidOption
from tidelog.model import Endpoint
from tidelog.shell.connections import key_stores
from tidelog.shell.event_logger import EventLogger

ANONYMOUS = "User:ANONYMOUS"
MOST_STORE_BYTES = 16 * 1024 * 1024

Stores = BrokerConfig | ClientOptions
"""Whoever has `ssl.*` options."""

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_STORES = ("ssl.keystore.", "ssl.truststore.", "ssl.key.")
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def server_context(config: BrokerConfig) -> ssl.SSLContext:
    """The TLS context of a listener; `config` is that of the listener (`BrokerConfig.of_listener`). InvalidOption if a
    store is missing or cannot be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _limit(context, config)
    if not _load_key(context, config):
        raise InvalidOption("ssl.keystore.location: a TLS listener needs a key store (or ssl.keystore.key as PEM text)")
    context.verify_mode = _CLIENT_AUTH[config.ssl_client_auth]
    if context.verify_mode != ssl.CERT_NONE:
        key_stores.check_subjects("ssl.client.auth")
        _load_trust(context, config)
    return context


def client_context(config: Stores) -> ssl.SSLContext:
    """The TLS context of connections to brokers. InvalidOption if a store is missing or cannot be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _limit(context, config)
    context.check_hostname = config.ssl_endpoint_identification_algorithm.lower() == "https"
    _load_trust(context, config)
    _load_key(context, config)
    return context


def _limit(context: ssl.SSLContext, config: Stores) -> None:
    """Set versions and ciphers; disable renegotiation and compression."""
    unknown = [name for name in config.ssl_enabled_protocols if name not in _VERSIONS]
    if unknown or not config.ssl_enabled_protocols:
        raise InvalidOption(
            f"ssl.enabled.protocols: {', '.join(unknown) or 'an empty list'} is not supported; "
            f"expected {', '.join(_VERSIONS)}"
        )
    versions = [_VERSIONS[name] for name in config.ssl_enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if config.ssl_cipher_suites:
        _choose_ciphers(context, config.ssl_cipher_suites)


def _choose_ciphers(context: ssl.SSLContext, names: Sequence[str]) -> None:
    """Set the TLS 1.2 cipher suites by their Java names. Those of TLS 1.3 are always offered: Python cannot choose
    among them."""
    wanted = [_openssl_name(name) for name in names if not name.startswith(("TLS_AES_", "TLS_CHACHA20_"))]
    if not wanted:
        return
    try:
        context.set_ciphers(":".join(wanted))
    except (ssl.SSLError, ValueError):
        raise InvalidOption(f"ssl.cipher.suites: OpenSSL has none of {', '.join(names)}") from None


def _openssl_name(name: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 → ECDHE-RSA-AES128-GCM-SHA256."""
    text = name.removeprefix("TLS_").removeprefix("RSA_WITH_").replace("_WITH_", "_")
    text = text.replace("_CBC_SHA", "_SHA").replace("POLY1305_SHA256", "POLY1305").replace("AES_", "AES")
    return text.replace("_", "-")


def _load_key(context: ssl.SSLContext, config: Stores) -> bool:
    """Load the key store; return whether one is configured."""
    if config.ssl_keystore_key:
        if config.ssl_keystore_location:
            raise InvalidOption("ssl.keystore.key and ssl.keystore.location must not both be given")
        if not config.ssl_keystore_certificate_chain:
            raise InvalidOption(
                "ssl.keystore.certificate.chain: ssl.keystore.key needs the certificates that belong to it"
            )
        pem = f"{config.ssl_keystore_key}\n{config.ssl_keystore_certificate_chain}\n".encode()
        _load_pem(context, pem, config.ssl_key_password, "ssl.keystore.key")
        return True
    location = config.ssl_keystore_location
    if not location:
        return False
    if config.ssl_keystore_type.upper() == "PEM":
        _load_pem(context, _read(location, "ssl.keystore.location"), config.ssl_key_password, "ssl.keystore.location")
        return True
    content = _read(location, "ssl.keystore.location")
    pem = key_stores.key_as_pem(
        content, config.ssl_keystore_password, config.ssl_key_password, f"ssl.keystore.location: {location}"
    )
    _load_pem(context, pem, None, "ssl.keystore.location")
    return True


def _load_pem(context: ssl.SSLContext, pem: bytes, password: str | None, option: str) -> None:
    """Load a key. OpenSSL reads keys only from files, so the text is put into one in memory: it never reaches a
    disk."""
    try:
        with os.fdopen(os.memfd_create("tidelog-tls"), "wb") as file:
            file.write(pem)
            file.flush()
            # Without a password OpenSSL would prompt on the terminal.
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=password or _no_password(option))
    except (ssl.SSLError, OSError, ValueError) as problem:
        raise InvalidOption(
            f"{option}: not a PEM private key and its certificates, or the wrong password ({problem})"
        ) from None


def _no_password(option: str) -> Callable[[], str]:
    def refuse() -> str:
        raise InvalidOption(f"{option}: the key is encrypted; ssl.key.password is missing")

    return refuse


def _load_trust(context: ssl.SSLContext, config: Stores) -> None:
    """Load the certificates of `ssl.truststore.*`, or those of the machine if none are configured."""
    if config.ssl_truststore_certificates:
        if config.ssl_truststore_location:
            raise InvalidOption("ssl.truststore.certificates and ssl.truststore.location must not both be given")
        pem = config.ssl_truststore_certificates
        option = "ssl.truststore.certificates"
    elif config.ssl_truststore_location:
        option = "ssl.truststore.location"
        content = _read(config.ssl_truststore_location, option)
        if config.ssl_truststore_type.upper() != "PEM":
            content = key_stores.certificates_as_pem(
                content, config.ssl_truststore_password, f"{option}: {config.ssl_truststore_location}"
            )
        pem = content.decode("utf-8", "ignore")
    else:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cadata=pem.encode("ascii", "ignore").decode())  # comments may be in any language
    except (ssl.SSLError, ValueError) as problem:
        raise InvalidOption(f"{option}: not PEM certificates ({problem})") from None


def _read(location: str, option: str) -> bytes:
    """The content of a store. A client can name any file (AlterConfigs): devices and pipes have no end, or block."""
    try:
        descriptor = os.open(location, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_STORE_BYTES:
                raise InvalidOption(f"{option}: {location} is not a file of at most {MOST_STORE_BYTES} bytes")
            return os.pread(descriptor, MOST_STORE_BYTES, 0)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise InvalidOption(f"{option}: cannot read {location}: {reason}") from None


def principal_of(sock: ssl.SSLSocket, rules: Sequence[principals.Rule]) -> str | None:
    """`User:` and the mapped subject of the peer's certificate; ANONYMOUS without a certificate, None if no rule
    matches."""
    certificate = sock.getpeercert(binary_form=True)
    if certificate is None:
        return ANONYMOUS
    name = principals.principal_name(rules, key_stores.subject(certificate))
    return None if name is None else f"User:{name}"


def wrap(sock: socket, context: ssl.SSLContext, server_name: str | None) -> ssl.SSLSocket:
    """A TLS socket whose handshake has not begun; `server_name` is None on the server side. ValueError if it is not
    a host name."""
    if server_name is not None:
        server_name.encode("idna")  # fails here, not within wrap_socket, which would leave the socket open
    return context.wrap_socket(
        sock,
        server_side=server_name is None,
        do_handshake_on_connect=False,
        suppress_ragged_eofs=True,
        server_hostname=server_name,
    )


class Served(NamedTuple):
    """The TLS settings of one listener, and the state of the files from which they were read."""

    context: ssl.SSLContext
    rules: Sequence[principals.Rule]
    files: Mapping[str, tuple[int, int, int]]


LOOK_EVERY_S = 1.0
"""The minimum time between two checks of the store files, which happen when a connection arrives."""


class TlsListeners:
    """The TLS contexts of a broker: one for each TLS listener, one for connections to other brokers.

    A store file that changed is reloaded at the next connection. If it cannot be read, the error is logged and the
    current context stays in use.
    """

    def __init__(self, config: BrokerConfig, logger: EventLogger) -> None:
        """Load all contexts; InvalidOption if a store is missing or cannot be read."""
        self._config = config
        self._logger = logger
        self._looked_at = 0.0
        self._served = {each.listener: _served(config, each.listener) for each in self._protected()}
        self.client = self._client_context()

    def __repr__(self) -> str:
        return f"TlsListeners({', '.join(self._served) or 'none'})"

    def server(self, listener: str) -> Served | None:
        """The settings of the listener; None if it does not use TLS."""
        if not self._served:
            return None
        self._look_at_files()
        return self._served.get(listener)

    def change(self, options: Mapping[str, str]) -> None:
        """Apply the stores among the changed dynamic options of this broker. Whether clients must show a certificate
        and what they may negotiate is decided in the broker's file only, as in Kafka."""
        stores = {name: text for name, text in options.items() if base_name(name).startswith(_STORES)}
        self._config = self._config.changed({}, stores)
        self._reload(list(self._served))

    def _protected(self) -> list[Endpoint]:
        return [each for each in listeners.bound(self._config) if each.security.endswith("SSL")]

    def _client_context(self) -> ssl.SSLContext | None:
        between = listeners.inter_broker_listener(self._config)
        if any(each.listener == between for each in self._protected()):
            return client_context(self._config.of_listener(between))
        return None

    def _look_at_files(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < LOOK_EVERY_S:
            return
        self._looked_at = now
        changed = [name for name, served in self._served.items() if _stamps(served.files) != served.files]
        if changed:
            self._reload(changed)

    def _reload(self, names: Sequence[str]) -> None:
        for name in names:
            try:
                self._served[name] = _served(self._config, name)
                if name == listeners.inter_broker_listener(self._config):
                    self.client = self._client_context()
                self._logger.write("info", "tls.reloaded", {"listener": name})
            except InvalidOption as problem:
                self._served[name] = self._served[name]._replace(files=_stamps(self._served[name].files))
                self._logger.write("error", "tls.not_reloaded", {"listener": name, "reason": problem})


def _served(config: BrokerConfig, listener: str) -> Served:
    own = config.of_listener(listener)
    files = [path for path in (own.ssl_keystore_location, own.ssl_truststore_location) if path]
    stamps = _stamps(dict.fromkeys(files))  # before the files are read, so a change in between is detected later
    return Served(server_context(own), principals.parse(own.ssl_principal_mapping_rules), stamps)


def _stamps(files: Mapping[str, object]) -> dict[str, tuple[int, int, int]]:
    found: dict[str, tuple[int, int, int]] = {}
    for path in files:
        with suppress(OSError, ValueError):
            status = Path(path).stat()
            found[path] = status.st_mtime_ns, status.st_size, status.st_ino
    return found
