"""One member of a classic group."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

NO_ASSIGNMENT = b""


class Protocol(NamedTuple):
    """An assignor that a member supports, and what it tells the group's leader for that assignor."""

    name: str
    metadata: bytes


@dataclass(slots=True)
class Member:
    """`joining` and `syncing` are the tokens of requests that wait for the group; only a failover may forget them.
    A new member has not yet been told its id, so it is expired even while it waits."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: list[Protocol]
    assignment: bytes = NO_ASSIGNMENT
    joining: int | None = field(default=None, compare=False)
    syncing: int | None = field(default=None, compare=False)
    is_new: bool = field(default=False, compare=False)

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_expected(self) -> bool:
        """Whether its silence counts: who waits for the group's answer cannot send heartbeats."""
        return self.is_new or (self.joining is None and self.syncing is None)

    def metadata(self, protocol: str) -> bytes:
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def names(self) -> Iterable[str]:
        return (protocol.name for protocol in self.protocols)
