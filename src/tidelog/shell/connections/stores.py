"""Key and trust stores as PEM, by Kafka's `ssl.*` options: files, or text in the options themselves.

A file is PEM, PKCS#12 or JKS; as in Java, its content decides between the last two. Which options exclude each other,
and the sentences about them, are Kafka's.
"""

import os
import stat
from typing import NamedTuple

from tidelog.client.options import ClientOptions
from tidelog.config.broker import BrokerConfig
from tidelog.errors import InvalidOption
from tidelog.shell.connections import key_stores

MOST_STORE_BYTES = 16 * 1024 * 1024

Stores = BrokerConfig | ClientOptions
"""A broker or a client with `ssl.*` options."""


class Key(NamedTuple):
    """A private key and its certificates as PEM, and the password if the key is encrypted."""

    pem: bytes
    password: str | None
    option: str


def key_of(config: Stores) -> Key | None:
    """The key store; None if none is configured. InvalidOption if it cannot be read."""
    _check_key_options(config)
    if config.ssl_keystore_key:
        pem = f"{config.ssl_keystore_key}\n{config.ssl_keystore_certificate_chain}\n".encode()
        key_stores.check_rounds(pem, "ssl.keystore.key")
        return Key(pem, config.ssl_key_password, "ssl.keystore.key")
    location, option = config.ssl_keystore_location, "ssl.keystore.location"
    if not location:
        return None
    content = _read(location, option)
    if _is_pem(config.ssl_keystore_type):
        key_stores.check_rounds(content, option)
        return Key(content, config.ssl_key_password, option)
    passwords = config.ssl_keystore_password, config.ssl_key_password
    return Key(key_stores.key_as_pem(content, *passwords, f"{option}: {location}"), None, option)


def trusted(config: Stores) -> tuple[str, str] | None:
    """The trusted certificates as PEM text, and the option that names them; None if none are configured. InvalidOption
    if they cannot be read."""
    _check_trust_options(config)
    option = "ssl.truststore.certificates"
    if config.ssl_truststore_certificates:
        return config.ssl_truststore_certificates, option
    location, option = config.ssl_truststore_location, "ssl.truststore.location"
    if not location:
        return None
    content = _read(location, option)
    if not _is_pem(config.ssl_truststore_type):
        content = key_stores.certificates_as_pem(content, config.ssl_truststore_password, f"{option}: {location}")
    return content.decode("utf-8", "ignore"), option


def files(config: Stores) -> list[str]:
    """The paths of the store files."""
    return [path for path in (config.ssl_keystore_location, config.ssl_truststore_location) if path]


def _is_pem(kind: str) -> bool:
    return kind.upper() == "PEM"


def _check_key_options(config: Stores) -> None:
    kind, location, password = config.ssl_keystore_type, config.ssl_keystore_location, config.ssl_keystore_password
    if config.ssl_keystore_key:
        if not _is_pem(kind):
            raise InvalidOption(f"SSL private key can be specified only for PEM, but key store type is {kind}.")
        if not config.ssl_keystore_certificate_chain:
            raise InvalidOption("SSL private key is specified, but certificate chain is not specified.")
        if location:
            raise InvalidOption("Both SSL key store location and separate private key are specified.")
    elif config.ssl_keystore_certificate_chain:
        raise InvalidOption("SSL certificate chain is specified, but private key is not specified.")
    if _is_pem(kind) and password is not None and (location or config.ssl_keystore_key):
        raise InvalidOption(
            "SSL key store password cannot be specified with PEM format, only key password may be specified."
        )
    if location and not _is_pem(kind) and password is None:
        raise InvalidOption("SSL key store is specified, but key store password is not specified.")


def _check_trust_options(config: Stores) -> None:
    kind, location = config.ssl_truststore_type, config.ssl_truststore_location
    if config.ssl_truststore_certificates:
        if not _is_pem(kind):
            raise InvalidOption(f"SSL trust store certs can be specified only for PEM, but trust store type is {kind}.")
        if location:
            raise InvalidOption("Both SSL trust store location and separate trust certificates are specified.")
    if _is_pem(kind) and config.ssl_truststore_password is not None:
        raise InvalidOption("SSL trust store password cannot be specified for PEM format.")


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
