"""What `tidelog up --secure` keeps in the folder `security` of a cluster's data: a certificate authority, the brokers'
certificate, the secret of delegation tokens, and the administrator's options for clients.

Everything is created once and used again at each start. The brokers' certificate is replaced when the authority's
clients could no longer verify a host with it. The brokers' options name these files; only the secret of delegation
tokens, for which Kafka has no file, is among them.
"""

import os
import secrets
import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.client import properties as client_properties
from tidelog.client.options import ClientOptions
from tidelog.config import properties
from tidelog.config.broker import BrokerConfig
from tidelog.config.families.security_options import STANDARD_AUTHORIZER
from tidelog.errors import InvalidOption
from tidelog.model import INTER_BROKER_LISTENER
from tidelog.security import added_users, jaas, scram

if TYPE_CHECKING:
    from tidelog.shell.certificates import Authority
    from tidelog.shell.client_security import Security

PROTOCOL = "SASL_SSL"
"""Of the clients' listener. Brokers use TLS with certificates among themselves."""
ADMIN = "admin"
MECHANISM = scram.MECHANISMS["SCRAM-SHA-512"]
PASSWORD_BYTES = TOKEN_SECRET_BYTES = 24
BROKER_NAME = "tidelog-broker"
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
ONLY_OWNER = 0o077
"""The umask of processes of a secured cluster: the metadata store holds credentials, too."""


@contextmanager
def only_owner() -> Iterator[None]:
    """Files that are made meanwhile hold credentials: only this user may read them."""
    before = os.umask(ONLY_OWNER)
    try:
        yield
    finally:
        os.umask(before)


_BETWEEN = f"listener.name.{INTER_BROKER_LISTENER.lower()}"
_PROTOCOLS = BrokerConfig.OPTIONS["listener.security.protocol.map"].default
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_DECIDED_BY_LISTENERS = (
    "listeners",
    "listener.security.protocol.map",
    "inter.broker.listener.name",
    "allow.everyone.if.no.acl.found",
)


class SecureFolder:
    """The files in `data`/security. They may be missing until `prepare`."""

    def __init__(self, data: Path) -> None:
        self.folder = data / "security"
        self.trusted = self.folder / "ca.pem"
        self.client_file = self.folder / "client.properties"
        self._authority_key = self.folder / "ca.key"
        self._broker = self.folder / "broker.pem"
        self._token_key = self.folder / "token.key"

    def __repr__(self) -> str:
        return f"SecureFolder({self.folder})"

    @property
    def exists(self) -> bool:
        return self.folder.exists()

    def options(self, controllers: str = "") -> dict[str, str]:
        """The options of every broker. `controllers` is their listener, where the brokers keep the metadata."""
        of_controllers = {
            "listener.security.protocol.map": f"{_PROTOCOLS},{controllers}:SSL",
            f"listener.name.{controllers.lower()}.ssl.client.auth": "required",
        }
        return {
            **(of_controllers if controllers else {}),
            "security.inter.broker.protocol": "SSL",
            "sasl.enabled.mechanisms": ",".join(sorted(scram.MECHANISMS)),
            **{
                f"listener.name.{PROTOCOL.lower()}.{name.lower()}.sasl.jaas.config": _LOGIN for name in scram.MECHANISMS
            },
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
            f"{_BETWEEN}.ssl.client.auth": "required",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": f"User:{ADMIN};User:CN={BROKER_NAME}",
        }

    def token_options(self) -> dict[str, str]:
        """The option that enables delegation tokens. An operator may give another secret."""
        return {"delegation.token.secret.key": self._token_secret}

    @cached_property
    def _token_secret(self) -> str:
        """That of the file, or the one that `prepare` writes there."""
        if self._token_key.exists():
            return self._token_key.read_text(encoding="ascii").strip()
        return secrets.token_urlsafe(TOKEN_SECRET_BYTES)

    def check(self, overrides: Mapping[str, str]) -> None:
        """InvalidOption if an override would change what a secured cluster is."""
        for name in overrides:
            if name.lower() in self.options().keys() | set(_DECIDED_BY_LISTENERS):
                raise InvalidOption(f"{name} is set by --secure; remove the override, or use a server.properties file.")

    def client_options(self) -> dict[str, str]:
        """The administrator's options by the names of Java's clients."""
        return client_properties.read(self.client_file.read_text(encoding="utf-8"))

    def librdkafka_options(self) -> dict[str, str]:
        """The administrator's options by the names of librdkafka, for clients of this machine."""
        return {
            "security.protocol": PROTOCOL,
            "sasl.mechanisms": MECHANISM.name,
            "sasl.username": ADMIN,
            "sasl.password": self.password,
            "ssl.ca.location": str(self.trusted),
        }

    @property
    def password(self) -> str:
        return jaas.parse(self.client_options()["sasl.jaas.config"]).options["password"]

    def client_security(self) -> "Security | None":
        """What the administrator's connections begin with."""
        from tidelog.shell.client_security import security_of

        return security_of(client_properties.options(ClientOptions, self.client_options()))

    def administrator(self) -> added_users.User:
        """The administrator, with the password of the file."""
        return added_users.with_password(ADMIN, MECHANISM, self.password, os.urandom)

    def prepare(self, hosts: Collection[str]) -> None:
        """Create what is missing. `hosts` are names and addresses of the brokers, besides those of this machine."""
        _check_cryptography()
        from tidelog.shell.certificates import serves

        self.folder.mkdir(parents=True, exist_ok=True)
        wanted = list(dict.fromkeys([*LOCAL_HOSTS, socket.gethostname(), *hosts]))
        if not (self._broker.exists() and serves(self._broker.read_bytes(), wanted)):
            _write(self._broker, self._authority(wanted).issue(BROKER_NAME, wanted))
        if not self._token_key.exists():
            _write(self._token_key, f"{self._token_secret}\n".encode())
        if not self.client_file.exists():
            _write(self.client_file, self._client_text(secrets.token_urlsafe(PASSWORD_BYTES)).encode())

    def _authority(self, hosts: Collection[str]) -> "Authority":
        """The authority that clients trust. Its key may be kept elsewhere once the brokers have their certificate."""
        from tidelog.shell.certificates import Authority

        if not self.trusted.exists():
            made = Authority.new()
            _write(self._authority_key, made.key_pem)
            _write(self.trusted, made.certificate_pem, mode=0o644)
        if not self._authority_key.exists():
            raise InvalidOption(
                f"{self._authority_key} is missing: it must sign a new certificate for {', '.join(hosts)}."
            )
        return Authority.of_pem(self._authority_key.read_bytes(), self.trusted.read_bytes())

    def _client_text(self, password: str) -> str:
        """The authority's certificate is in the file, so that a copy of it works on any machine."""
        return properties.text(
            {
                "security.protocol": PROTOCOL,
                "sasl.mechanism": MECHANISM.name,
                "sasl.jaas.config": client_properties.login(MECHANISM.name, ADMIN, password),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": self.trusted.read_text(encoding="ascii"),
            }
        )


def _check_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise InvalidOption("--secure needs the package cryptography: pip install 'tidelog[tls]'.") from None


def _write(file: Path, content: bytes, mode: int = 0o600) -> None:
    """Whole or not at all: a start after a crash continues."""
    partial = file.with_name(f"{file.name}.partial")
    partial.unlink(missing_ok=True)
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(fd, "wb") as target:
        os.fchmod(fd, mode)
        target.write(content)
        target.flush()
        os.fsync(fd)
    partial.replace(file)
