"""The table of tests/compatibility/security/test_clients_by_protocol.py: how clients reach a secured cluster, and what
is wrong in each case. `Ground` has the certificates, passwords and tokens; `tidelog` and `kafka` start the cluster."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from tests.compatibility.differential import brokers
from tests.compatibility.differential.wire import Connection
from tests.ports import free_ports
from tests.processes import Processes
from tests.security.tokens import AUDIENCE, ISSUER, RSA_KEYS, Provider
from tidelog.config.families.security_options import STANDARD_AUTHORIZER
from tidelog.security import added_users, scram
from tidelog.security.acls import AclOperation, PatternType, Permission, ResourceType

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Each has a listener of this name. That of SSL requires a certificate of the client."""
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
HOST, OTHER_NAME = "127.0.0.1", "localhost"
"""The broker's certificate is for the first one."""
USERS = {"PLAIN": "alice", "SCRAM-SHA-256": "bob", "SCRAM-SHA-512": "bob", "OAUTHBEARER": "carol"}
OF_CERTIFICATE = "dave"
PASSWORDS = {"alice": "wonder land", "bob": "builder"}
HOUR_S = 3600
CLIENTS = ("confluent-kafka", "aiokafka", "kafka-python", "franz-go", "Java")
LONG_S, SHORT_S = 90, 1
"""How long a client tries."""
PERSISTENT = ("kafka-python", "Java")
"""Clients that try until their time is up where they only see that the connection is closed."""


class Way(NamedTuple):
    protocol: str
    mechanism: str = ""

    @property
    def user(self) -> str:
        """Whom the broker takes the client for; "" for anonymous."""
        return USERS.get(self.mechanism, OF_CERTIFICATE if self.protocol == "SSL" else "")

    def __str__(self) -> str:
        return f"{self.protocol} {self.mechanism}".strip()


WAYS = (
    Way("PLAINTEXT"),
    Way("SSL"),
    *(Way(protocol, mechanism) for protocol in PROTOCOLS[2:] for mechanism in MECHANISMS),
)


@dataclass(frozen=True)
class Attempt:
    """One record is written to partition 0 of an empty topic, and read."""

    protocol: str
    mechanism: str
    host: str
    at: str
    """The protocol of the listener whose port the client uses."""
    user: str
    password: str
    token: str
    trusted: Path
    certificate: Path | None
    topic: str
    within_s: int = LONG_S

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")


class Case(NamedTuple):
    """What is wrong, in which ways it is tried, and whether the client only sees that the connection is closed."""

    ways: tuple[Way, ...]
    change: Callable[["Ground", Attempt], Attempt]
    is_silent: bool = False


CASES = {
    "nothing": Case(WAYS, lambda _, right: right),
    "wrong password": Case(
        (Way("SASL_SSL", "PLAIN"), Way("SASL_PLAINTEXT", "SCRAM-SHA-256"), Way("SASL_SSL", "SCRAM-SHA-512")),
        lambda _, right: replace(right, password="wrong"),
    ),
    "unknown user": Case(
        (Way("SASL_SSL", "SCRAM-SHA-512"), Way("SASL_PLAINTEXT", "PLAIN")),
        lambda _, right: replace(right, user="nobody"),
    ),
    "expired token": Case(
        (Way("SASL_SSL", "OAUTHBEARER"), Way("SASL_PLAINTEXT", "OAUTHBEARER")),
        lambda ground, right: replace(right, token=ground.expired_token),
    ),
    "untrusted certificate": Case(
        (Way("SSL"), Way("SASL_SSL", "PLAIN")), lambda ground, right: replace(right, trusted=ground.others)
    ),
    "wrong host name": Case((Way("SSL"), Way("SASL_SSL", "PLAIN")), lambda _, right: replace(right, host=OTHER_NAME)),
    "no client certificate": Case((Way("SSL"),), lambda _, right: replace(right, certificate=None)),
    "TLS missing": Case(
        (Way("PLAINTEXT"), Way("SASL_PLAINTEXT", "PLAIN")),
        lambda _, right: replace(right, at="SASL_SSL" if right.mechanism else "SSL"),
        is_silent=True,
    ),
    "TLS at a port without": Case(
        (Way("SSL"), Way("SASL_SSL", "PLAIN")),
        lambda _, right: replace(right, at="SASL_PLAINTEXT" if right.mechanism else "PLAINTEXT"),
        is_silent=True,
    ),
    "login missing": Case((Way("PLAINTEXT"),), lambda _, right: replace(right, at="SASL_PLAINTEXT"), is_silent=True),
    "login at a port without": Case((Way("SASL_PLAINTEXT", "PLAIN"),), lambda _, right: replace(right, at="PLAINTEXT")),
    "another's topic": Case(
        (Way("SASL_SSL", "PLAIN"), Way("SSL")), lambda _, right: replace(right, topic="bob.secret")
    ),
}


class Row(NamedTuple):
    client: str
    way: Way
    case: str

    def __str__(self) -> str:
        return f"{self.client}, {self.way}, {self.case}"

    @property
    def topic(self) -> str:
        """A topic of its own, to which nobody else has written."""
        return f"{self.way.user or 'anyone'}.{self.client}.{self.way.protocol}.{self.way.mechanism or 'none'}"


def rows(client: str) -> list[Row]:
    return [Row(client, way, name) for name, case in CASES.items() for way in case.ways]


class Ground:
    """What both sides and all clients share, as files in `folder`."""

    def __init__(self, folder: Path) -> None:
        authority, other = trustme.CA(), trustme.CA()
        self.trusted, self.others = folder / "ca.pem", folder / "others.pem"
        authority.cert_pem.write_to_path(str(self.trusted))
        other.cert_pem.write_to_path(str(self.others))
        self.broker, self.client = folder / "broker.pem", folder / "client.pem"
        _store(self.broker, authority.issue_cert(HOST, common_name="broker"))
        _store(self.client, authority.issue_cert("dave@example.org", common_name=OF_CERTIFICATE))
        provider, now_s = Provider(RSA_KEYS[0]), int(time.time())
        self.keys = folder / "jwks.json"
        self.keys.write_text(provider.jwks)
        whom = {"sub": USERS["OAUTHBEARER"]}
        self.token = provider.token(now_s, exp=now_s + HOUR_S, **whom)
        self.expired_token = provider.token(now_s - HOUR_S, exp=now_s - HOUR_S // 2, **whom)

    def attempt(self, row: Row) -> Attempt:
        way, case = row.way, CASES[row.case]
        right = Attempt(
            protocol=way.protocol,
            mechanism=way.mechanism,
            host=HOST,
            at=way.protocol,
            user=way.user,
            password=PASSWORDS.get(way.user, ""),
            token=self.token if way.mechanism == "OAUTHBEARER" else "",
            trusted=self.trusted,
            certificate=self.client if way.protocol == "SSL" else None,
            topic=row.topic,
            within_s=SHORT_S if case.is_silent and row.client in PERSISTENT else LONG_S,
        )
        return case.change(self, right)

    def options(self) -> dict[str, str]:
        """Of a broker, by Kafka's names."""
        package = "org.apache.kafka.common.security"
        options = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": r"RULE:^.*CN=(\w+).*$/$1/",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:ANONYMOUS",
        }
        plain = "".join(f' user_{user}="{PASSWORDS[user]}"' for user in ("alice",))
        for protocol in PROTOCOLS[2:]:
            at = f"listener.name.{protocol.lower()}"
            options[f"{at}.plain.sasl.jaas.config"] = f"{package}.plain.PlainLoginModule required{plain};"
            for name in MECHANISMS[1:3]:
                login = f"{package}.scram.ScramLoginModule required;"
                options[f"{at}.{name.lower()}.sasl.jaas.config"] = login
            own = f"{at}.oauthbearer.sasl"
            options |= {
                f"{own}.jaas.config": f"{package}.oauthbearer.OAuthBearerLoginModule required;",
                f"{own}.server.callback.handler.class": f"{package}.oauthbearer.OAuthBearerValidatorCallbackHandler",
                f"{own}.oauthbearer.jwks.endpoint.url": f"file://{self.keys}",
                f"{own}.oauthbearer.expected.audience": AUDIENCE,
                f"{own}.oauthbearer.expected.issuer": ISSUER,
            }
        return options


def _store(file: Path, made: trustme.LeafCert) -> None:
    """Java reads keys in PKCS#8 only."""
    key = load_pem_private_key(made.private_key_pem.bytes(), None)
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(text + b"".join(each.bytes() for each in made.cert_chain_pems))


@contextmanager
def tidelog(folder: Path, ground: Ground, topics: list[str], **more: str) -> Iterator[dict[str, int]]:
    """The ports by protocol of a broker of Tidelog that runs meanwhile; `more` are further options."""
    *given, between = free_ports(len(PROTOCOLS) + 1)
    ports = dict(zip(PROTOCOLS, given, strict=True))
    names = [*ports.items(), ("REPLICATION", between)]
    listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in names)
    options = {**brokers.OPTIONS, **ground.options(), "listeners": listeners, **more}
    users = [
        added_users.with_password("bob", scram.MECHANISMS[name], PASSWORDS["bob"], os.urandom)
        for name in MECHANISMS[1:3]
    ]
    port = ports["PLAINTEXT"]
    with Processes(folder, brokers=1, port=port, overrides=options, users=users):
        _prepare(port, topics)
        yield ports


@contextmanager
def kafka(
    folder: Path, ground: Ground, topics: list[str], libs: str, tool: Callable[..., str]
) -> Iterator[dict[str, int]]:
    """The same of a real Kafka."""
    ports = dict(zip(PROTOCOLS[1:], free_ports(len(PROTOCOLS) - 1), strict=True))
    protocols = ",".join(f"{name}:{name}" for name in PROTOCOLS)
    users = [
        part for name in MECHANISMS[1:3] for part in ("--add-scram", f"{name}=[name=bob,password={PASSWORDS['bob']}]")
    ]
    with brokers.kafka(
        folder,
        libs,
        listeners=ports,
        options={**ground.options(), "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{protocols}"},
        formatting=users,
        flags=[f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{ground.keys}"],
        tool=tool,
    ) as plain:
        _prepare(plain, topics)
        yield {"PLAINTEXT": plain, **ports}


def _prepare(port: int, topics: list[str]) -> None:
    """Topics, and what each user may do: write and read those that begin with the user's name."""
    with closing(Connection(port)) as connection:
        wanted = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in [*topics, "bob.secret"]]
        made = connection.ask("CreateTopics", 7, topics=wanted, timeout_ms=60_000).topics
        assert not any(each.error_code for each in made), made
        creations = [
            acl(user, operation, ResourceType.TOPIC, f"{user}.", PatternType.PREFIXED)
            for user in {*USERS.values(), OF_CERTIFICATE}
            for operation in (AclOperation.READ, AclOperation.WRITE)
        ]
        creations.append(acl("*", AclOperation.READ, ResourceType.GROUP, "*"))
        results = connection.ask("CreateAcls", 3, creations=creations).results
        assert not any(each.error_code for each in results), results


def acl(
    user: str,
    operation: AclOperation,
    kind: ResourceType,
    name: str,
    pattern: PatternType = PatternType.LITERAL,
) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": pattern,
        "principal": f"User:{user}",
        "host": "*",
        "operation": operation,
        "permission_type": Permission.ALLOW,
    }
