"""A client's options as Kafka's tools read them from a file (`--command-config`): one file serves every tool.

Names are those of Kafka's Java clients; the few of librdkafka that name a user or a certificate are accepted too.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from tidelog.client.options import AdminOptions, ClientOptions, ConsumerOptions, ProducerOptions, parse
from tidelog.config import properties
from tidelog.errors import InvalidOption

O = TypeVar("O", bound=ClientOptions)  # noqa: E741

WITHOUT_EFFECT = frozenset(
    {
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "config.providers",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "receive.buffer.bytes",
        "security.providers",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)
"""Options of every Java client without effect here: sockets, threads and metrics."""
PRODUCERS_WITHOUT_EFFECT = frozenset(
    {
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "enable.metrics.push",
        "interceptor.classes",
        "metadata.max.idle.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "partitioner.class",
    }
)
CONSUMERS_WITHOUT_EFFECT = frozenset({"interceptor.classes", "share.acknowledgement.mode", "share.acquire.mode"})
GIVEN_ELSEWHERE = frozenset(
    {"bootstrap.servers", "key.serializer", "value.serializer", "key.deserializer", "value.deserializer"}
)
"""A flag names the brokers, and records are bytes."""

_IGNORED = WITHOUT_EFFECT | PRODUCERS_WITHOUT_EFFECT | CONSUMERS_WITHOUT_EFFECT | GIVEN_ELSEWHERE
OF_LOGINS = ("sasl.kerberos.", "sasl.login.", "sasl.oauthbearer.", "sasl.client.callback.")
"""How the options of logins begin: those that Tidelog's clients do not have are without effect."""
_PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"


def read(text: str) -> dict[str, str]:
    """The options of a file, by the names of Java's clients."""
    return renamed(properties.parse(text))


def options(kind: type[O], given: Mapping[str, str]) -> O:
    """The options that this kind of client has. Those that only other clients have are left out, so that a file serves
    all of them. InvalidOption for a name that no client has, and for a value of the wrong type."""
    own = {each.name.replace("_", ".") for each in fields(kind)}
    return parse(kind, {name: text for name, text in given.items() if name in own or not _is_of_other_clients(name)})


def among_others(kind: type[ClientOptions], given: Mapping[str, str]) -> dict[str, str]:
    """The options of this kind of client in a file that has others of any kind, such as a server.properties."""
    own = {each.name.replace("_", ".") for each in fields(kind)}
    return {name: text for name, text in given.items() if name in own}


def keywords(kind: type[ClientOptions], given: Mapping[str, str]) -> dict[str, Any]:
    """The options as keyword arguments of the client; InvalidOption if one is unknown or malformed."""
    parsed = options(kind, given)
    return {field.name: getattr(parsed, field.name) for field in fields(kind)}


def explicit_keywords(given: Mapping[str, str]) -> dict[str, Any]:
    """The options of every client that are given, as keyword arguments for clients of several kinds."""
    parsed = keywords(ClientOptions, given)
    return {name: value for name, value in parsed.items() if name.replace("_", ".") in given}


def _is_of_other_clients(name: str) -> bool:
    kinds = (AdminOptions, ProducerOptions, ConsumerOptions)
    return (
        name in _IGNORED
        or name.startswith(OF_LOGINS)
        or any(name == each.name.replace("_", ".") for kind in kinds for each in fields(kind))
    )


def renamed(given: Mapping[str, str]) -> dict[str, str]:
    """The options with librdkafka's names for a user and for certificates as Java's clients name them."""
    found = dict(given)
    if "sasl.mechanisms" in found:
        found.setdefault("sasl.mechanism", found.pop("sasl.mechanisms"))
    user, password = found.pop("sasl.username", None), found.pop("sasl.password", None)
    if user is not None or password is not None:
        if user is None or password is None:
            raise InvalidOption("sasl.username and sasl.password go together; one of them is missing")
        found.setdefault("sasl.jaas.config", login(found.get("sasl.mechanism", "PLAIN"), user, password))
    if "ssl.ca.location" in found:
        found.setdefault("ssl.truststore.location", found.pop("ssl.ca.location"))
        found.setdefault("ssl.truststore.type", "PEM")
    return found


def login(mechanism: str, user: str, password: str) -> str:
    """The value of `sasl.jaas.config` for a user with a password."""
    module = _PLAIN_LOGIN if mechanism.upper() == "PLAIN" else _SCRAM_LOGIN
    return f'{module} required username="{_quoted(user)}" password="{_quoted(password)}";'


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
