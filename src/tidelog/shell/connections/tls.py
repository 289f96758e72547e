"""TLS of brokers and clients: contexts from Kafka's `ssl.*` options, and the principals of peers.

A context is immutable: a reload creates a new one, and open connections keep theirs.
"""

import os
import ssl
from collections.abc import Callable, Sequence

from tidelog.config import principals
from tidelog.config.broker import BrokerConfig
from tidelog.errors import InvalidOption
from tidelog.shell.connections import key_stores, stores
from tidelog.shell.connections.stores import Key, Stores
from tidelog.shell.tls_stream import TlsStream

ANONYMOUS = "User:ANONYMOUS"

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def server_context(config: BrokerConfig, key: Key) -> ssl.SSLContext:
    """The TLS context of a listener; `config` is that of the listener (`BrokerConfig.of_listener`). InvalidOption if a
    store cannot be used.

    Sessions can be resumed with OpenSSL's tickets. Their keys belong to the context, so a ticket is worth nothing at
    another listener, or after a reload.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 1  # as Java; each costs a twelfth of a handshake, since it holds the client's certificates
    _limit(context, config)
    _load_key(context, key)
    context.verify_mode = _CLIENT_AUTH[config.ssl_client_auth]
    if context.verify_mode != ssl.CERT_NONE:
        _load_trust(context, config)
    return context


def client_context(config: Stores) -> ssl.SSLContext:
    """The TLS context of connections to brokers. InvalidOption if a store is missing or cannot be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _limit(context, config)
    context.check_hostname = config.ssl_endpoint_identification_algorithm.lower() == "https"
    _load_trust(context, config)
    key = stores.key_of(config)
    if key is not None:
        _load_key(context, key)
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


def _load_key(context: ssl.SSLContext, key: Key) -> None:
    """Load a key. OpenSSL reads keys only from files, so the text is put into one in memory: it never reaches a
    disk."""
    try:
        with os.fdopen(os.memfd_create("tidelog-tls"), "wb") as file:
            file.write(key.pem)
            file.flush()
            # Without a password OpenSSL would prompt on the terminal.
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=key.password or _no_password(key.option))
    except (ssl.SSLError, OSError, ValueError) as problem:
        raise InvalidOption(
            f"{key.option}: not a PEM private key and its certificates, or the wrong password ({problem})"
        ) from None


def _no_password(option: str) -> Callable[[], str]:
    def refuse() -> str:
        raise InvalidOption(f"{option}: the key is encrypted; ssl.key.password is missing")

    return refuse


def _load_trust(context: ssl.SSLContext, config: Stores) -> None:
    """Load the certificates of `ssl.truststore.*`, or those of the machine if none are configured."""
    found = stores.trusted(config)
    if found is None:
        context.load_default_certs()
        return
    pem, option = found
    try:
        context.load_verify_locations(cadata=pem.encode("ascii", "ignore").decode())  # comments may be in any language
    except (ssl.SSLError, ValueError) as problem:
        raise InvalidOption(f"{option}: not PEM certificates ({problem})") from None


def principal_of(stream: TlsStream, rules: Sequence[principals.Rule], now_s: float) -> str | None:
    """`User:` and the mapped subject of the peer's certificate; ANONYMOUS without a certificate, None if no rule
    matches. Unusable if the certificate has no name or, on a resumed session, has expired since."""
    certificate = stream.getpeercert(binary_form=True)
    if certificate is None:
        return ANONYMOUS
    name = principals.principal_name(rules, key_stores.subject(certificate, now_s))
    return None if name is None else f"User:{name}"


def own_principal(config: BrokerConfig) -> str | None:
    """As whom other brokers know this one by its certificate, None if no rule matches; `config` is that of the listener
    between brokers."""
    key = stores.key_of(config)
    if key is None or config.ssl_client_auth == "none":
        return ANONYMOUS
    subject = key_stores.identity(key.pem, key.option).subject
    name = principals.principal_name(principals.parse(config.ssl_principal_mapping_rules), subject)
    return None if name is None else f"User:{name}"
