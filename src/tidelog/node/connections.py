"""Open connections from clients and other brokers, and the requests on them that wait for their answers."""

from dataclasses import dataclass, field

from tidelog.api.billing import Bill
from tidelog.node.waiting import Wait
from tidelog.wire.connection import Pipeline, Slot
from tidelog.wire.repeated import Repeated


@dataclass(slots=True, eq=False)
class Connection:
    """An inbound connection. `paused`: nothing is read from it, because too many answers are
    outstanding. `broken`: a request on it failed; it is being closed."""

    number: int
    listener: str
    peer: str
    principal: str
    pipeline: Pipeline = field(default_factory=Pipeline)
    repeated: Repeated = field(default_factory=Repeated)
    paused: bool = False
    broken: bool = False
    tokens: set[int] = field(default_factory=set)
    """Of its requests that are not answered yet."""


@dataclass(slots=True)
class Ticket:
    """A request whose answer is deferred: where it goes, and in which form. `connection` is None for the broker's own
    requests to itself, which are answered to `owner` by `token`."""

    connection: Connection | None
    slot: Slot | None
    key: int
    version: int
    correlation_id: int
    owner: str = ""
    token: int = 0
    wait: Wait | None = None
    bill: Bill | None = None
