"""The types that every layer uses: plain data with almost no behaviour."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

NO_ID = bytes(16)
"""The topic id, or directory id, that means none (the all-zero UUID)."""

NO_LEADER = -1
NO_EPOCH = -1

INTER_BROKER_LISTENER = "REPLICATION"
"""The listener between brokers where `inter.broker.listener.name` names none: never the clients' own."""

GROUP_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({GROUP_TOPIC, TRANSACTION_TOPIC})


class Time(NamedTuple):
    """One moment on both clocks, in milliseconds: deadlines use `mono`, timestamps in records use `wall`."""

    mono: int
    wall: int


def earliest(*moments: int | None) -> int | None:
    """The first of these monotonic milliseconds, or None. It runs after every input."""
    first = None
    for moment in moments:
        if moment is not None and (first is None or moment < first):
            first = moment
    return first


def canonical_host(host: str) -> str:
    """An address in one of the forms that IPv6 has for it, which is that of sockets; an IPv4 address that was mapped to
    IPv6 as such. A name is unchanged."""
    if ":" not in host:
        return host
    from ipaddress import IPv6Address

    try:
        address = IPv6Address(host)
    except ValueError:
        return host
    return str(address.ipv4_mapped or address)


def is_any_address(host: str) -> bool:
    """Whether a listener with this host opens all addresses of its machine: 0.0.0.0, ::, or none. On another machine it
    means that one."""
    found = canonical_host(host.strip("[]"))
    return found == "::" or not found.strip("0.")


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Endpoint(NamedTuple):
    """Where a listener of a broker is reached: listener name as in `listeners`, security protocol, address."""

    listener: str
    security: str
    host: str
    port: int


def id_text(uuid: bytes) -> str:
    """A 16-byte id as Kafka prints it: URL-safe base64 without padding."""
    return urlsafe_b64encode(uuid).decode().rstrip("=")


def id_bytes(text: str) -> bytes:
    """The inverse of `id_text`; ValueError if the text is not a 16-byte id."""
    raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != len(NO_ID):
        raise ValueError(f"{text!r} is not a 16-byte id")
    return raw
