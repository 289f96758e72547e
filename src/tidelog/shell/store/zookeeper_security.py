"""How connections to ZooKeeper are secured, by the options of Kafka 3: TLS (`zookeeper.ssl.*`), a SASL login as user of
DIGEST-MD5, and who may read the nodes that brokers create (`zookeeper.set.acl`).

Kafka 3 took the login from the section `Client` of a JAAS file that a Java system property names. Tidelog takes it from
there, too, or from an option.
"""

import os
import re
import ssl
from pathlib import Path
from typing import NamedTuple

from tidelog.client.options import ClientOptions
from tidelog.config.broker import BrokerConfig
from tidelog.errors import InvalidOption
from tidelog.security import jaas

JAAS_FILE = re.compile(r"-Djava\.security\.auth\.login\.config=(\S+)")
SECTION = "Client"
LOGIN_OPTION = "zookeeper.sasl.jaas.config"
DIGEST = "DigestLoginModule"


class Login(NamedTuple):
    user: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.user})"


class ZookeeperSecurity(NamedTuple):
    """`context` is None without TLS, `login` without SASL. `restricts`: only this user may change the nodes that it
    creates."""

    context: ssl.SSLContext | None = None
    login: Login | None = None
    restricts: bool = False


NO_SECURITY = ZookeeperSecurity()


def security_of(config: BrokerConfig) -> ZookeeperSecurity:
    """InvalidOption if a store cannot be read, or if an option requires what is missing or not supported."""
    login = _login(config)
    context = _context(config) if config.zookeeper_ssl_client_enable else None
    if config.zookeeper_set_acl and login is None and not (context and config.zookeeper_ssl_keystore_location):
        raise InvalidOption(
            f"zookeeper.set.acl=true needs a login ({LOGIN_OPTION}) or a client certificate "
            "(zookeeper.ssl.client.enable and zookeeper.ssl.keystore.location)"
        )
    return ZookeeperSecurity(context, login, config.zookeeper_set_acl)


def _context(config: BrokerConfig) -> ssl.SSLContext:
    from tidelog.shell.connections import tls

    if config.zookeeper_ssl_crl_enable or config.zookeeper_ssl_ocsp_enable:
        raise InvalidOption("zookeeper.ssl.crl.enable and zookeeper.ssl.ocsp.enable are not supported; remove them")
    key, trust = config.zookeeper_ssl_keystore_location or "", config.zookeeper_ssl_truststore_location or ""
    key_type = _store_type(key, config.zookeeper_ssl_keystore_type)
    trust_type = _store_type(trust, config.zookeeper_ssl_truststore_type)
    options = ClientOptions(
        ssl_keystore_location=key,
        ssl_keystore_type=key_type,
        ssl_keystore_password=None if key_type.upper() == "PEM" else config.zookeeper_ssl_keystore_password,
        ssl_key_password=config.zookeeper_ssl_keystore_password,
        ssl_truststore_location=trust,
        ssl_truststore_type=trust_type,
        ssl_truststore_password=None if trust_type.upper() == "PEM" else config.zookeeper_ssl_truststore_password,
        ssl_enabled_protocols=tuple(config.zookeeper_ssl_enabled_protocols or ("TLSv1.2", "TLSv1.3")),
        ssl_cipher_suites=tuple(config.zookeeper_ssl_cipher_suites or ()),
        ssl_endpoint_identification_algorithm=config.zookeeper_ssl_endpoint_identification_algorithm,
    )
    try:
        return tls.client_context(options)
    except InvalidOption as problem:
        named = str(problem)
        raise InvalidOption(f"zookeeper.{named}" if named.startswith("ssl.") else f"zookeeper.ssl: {named}") from None


def _store_type(location: str, given: str | None) -> str:
    """As ZooKeeper, by the file's name if no type is given."""
    return given or ("PEM" if location.lower().endswith(".pem") else "PKCS12")


def _login(config: BrokerConfig) -> Login | None:
    text = config.zookeeper_sasl_jaas_config
    if text is not None:
        return _digest(jaas.parse(text, LOGIN_OPTION), LOGIN_OPTION)
    file = JAAS_FILE.search(os.environ.get("KAFKA_OPTS", ""))
    if file is None:
        return None
    try:
        section = jaas.section(Path(file[1]).read_text(encoding="utf-8"), SECTION)
    except OSError as problem:
        raise InvalidOption(f"KAFKA_OPTS: cannot read the JAAS file {file[1]}: {problem.strerror}") from None
    return None if section is None else _digest(jaas.parse(section, file[1]), f"{SECTION} in {file[1]}")


def _digest(login: jaas.Login, place: str) -> Login:
    if login.module != DIGEST:
        raise InvalidOption(f"{place}: {login.module} is not supported for ZooKeeper; expected {DIGEST}")
    try:
        return Login(login.options["username"], login.options["password"])
    except KeyError as missing:
        raise InvalidOption(f"{place}: {missing.args[0]} is missing") from None
