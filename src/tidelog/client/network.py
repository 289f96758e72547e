"""The links of one client to the brokers of a cluster. The first call that needs a link opens it.

Brokers have their IDs. The bootstrap addresses are nodes -1, -2, … and remain the fallback when no known broker can be
reached, so that a client finds a cluster that moved while the client was suspended.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from tidelog.client.backoff import Backoff, Entropy, below
from tidelog.client.link import Answer, Call, Link, LinkState
from tidelog.client.options import Address, ClientOptions
from tidelog.effects import Effect
from tidelog.errors import ErrorCode
from tidelog.model import earliest

COORDINATOR_LINKS = 2**30
"""The coordinator has a connection of its own, node COORDINATOR_LINKS + broker ID: behind a long poll on the other
connection a heartbeat would be late."""


class Network:
    """All links. Times are monotonic milliseconds."""

    def __init__(self, bootstrap: Sequence[Address], options: ClientOptions, entropy: Entropy) -> None:
        self._options = options
        self._entropy = entropy
        self._links: dict[int, Link] = {}
        self._by_connection: dict[int, Link] = {}
        self._retired: list[Link] = []
        self._answers: list[Answer] = []
        self._next_connection = 0
        for index, (host, port) in enumerate(bootstrap):
            self._links[-1 - index] = self._link(-1 - index, host, port)

    def __repr__(self) -> str:
        return f"<Network {list(self._links.values())}>"

    def learn(self, brokers: Collection[tuple[int, str, int]]) -> None:
        """Set the brokers to these (id, host, port); a link whose address changed is replaced."""
        present = {node for node, _, _ in brokers}
        for node, host, port in brokers:
            self.add(node, host, port)
        for node in [node for node in self._links if 0 <= node < COORDINATOR_LINKS and node not in present]:
            self._retire(self._links.pop(node))

    def add(self, node: int, host: str, port: int) -> None:
        """Set the node's address."""
        link = self._links.get(node)
        if link is None or (link.host, link.port) != (host, port):
            if link is not None:
                self._retire(link)
            self._links[node] = self._link(node, host, port)

    def knows(self, node: int) -> bool:
        return node in self._links

    def feature(self, node: int, name: str) -> int:
        """The level of a cluster feature as the node reported it when it connected; 0 if it did not."""
        link = self._links.get(node)
        return 0 if link is None else link.features.get(name, 0)

    def is_usable(self, node: int, now_ms: int) -> bool:
        """Whether a call to the node can be sent now: the node is known and no backoff is running."""
        link = self._links.get(node)
        return link is not None and link.is_usable(now_ms)

    @property
    def next_usable_at(self) -> int:
        """When, at the latest, `any_node` returns a node again."""
        return min(link.retry_at for link in self._links.values() if link.node < COORDINATOR_LINKS)

    def any_node(self, now_ms: int) -> int | None:
        """A node for a request that any broker can answer: a ready one with little load, otherwise one that can be
        tried, brokers before bootstrap addresses. None while all are in backoff."""
        usable = [link for link in self._links.values() if link.node < COORDINATOR_LINKS and link.is_usable(now_ms)]
        if not usable:
            return None
        preferences = [_preference(link) for link in usable]
        best = min(preferences)
        nodes = [link.node for link, preference in zip(usable, preferences, strict=True) if preference == best]
        return nodes[below(self._entropy, len(nodes))]

    def idle_node(self, now_ms: int) -> int | None:
        """A node that no request waits for and that can be tried now."""
        nodes = [
            link.node
            for link in self._links.values()
            if link.node < COORDINATOR_LINKS and not link.load and link.is_usable(now_ms)
        ]
        return nodes[below(self._entropy, len(nodes))] if nodes else None

    def submit(self, node: int, call: Call, now_ms: int) -> None:
        """Send the call to the node as soon as there is a connection; for an unknown node the answer is a fault."""
        link = self._links.get(node)
        if link is None:
            self._answers.append(Answer(call.token, node, fault=ErrorCode.BROKER_NOT_AVAILABLE))
            return
        link.submit(call)
        self._open_if_wanted(link, now_ms)

    def connected(self, connection: int) -> None:
        link = self._by_connection.get(connection)
        if link is not None and link.connection == connection:
            link.connected()

    def received(self, connection: int, frames: Iterable[memoryview], now_ms: int) -> None:
        for frame in frames:
            link = self._by_connection.get(connection)
            if link is None or link.connection != connection:
                return
            link.received(frame, now_ms)

    def disconnected(self, connection: int, now_ms: int) -> None:
        link = self._by_connection.pop(connection, None)
        if link is not None and link.connection == connection:
            link.lost(now_ms)

    def wake(self, now_ms: int) -> None:
        for link in self._busy_links():
            link.wake(now_ms)
            self._open_if_wanted(link, now_ms)

    def close(self) -> None:
        for link in self._links.values():
            link.close()

    @property
    def deadline(self) -> int | None:
        return earliest(*[link.deadline for link in self._busy_links()])

    def _busy_links(self) -> list[Link]:
        """The links with something to do; most have nothing."""
        connecting = LinkState.CONNECTING
        return [each for each in self._links.values() if each.in_flight or each.waiting or each.state is connecting]

    def take_effects(self) -> list[Effect]:
        effects: list[Effect] = []
        for link in (*self._retired, *self._links.values()) if self._retired else self._links.values():
            if link.effects:
                effects += link.effects
                link.effects = []
        if self._retired:
            self._retired = [link for link in self._retired if link.answers]
        return effects

    def take_answers(self) -> list[Answer]:
        answers, self._answers = self._answers, []
        for link in (*self._retired, *self._links.values()) if self._retired else self._links.values():
            if link.answers:
                answers += link.answers
                link.answers = []
        return answers

    def _open_if_wanted(self, link: Link, now_ms: int) -> None:
        if not link.wants_connection or now_ms < link.retry_at:
            return
        self._by_connection = {
            number: owner for number, owner in self._by_connection.items() if owner.connection == number
        }
        self._next_connection -= 1
        self._by_connection[self._next_connection] = link
        link.open(self._next_connection, now_ms + self._options.socket_connection_setup_timeout_ms)

    def _retire(self, link: Link) -> None:
        """Answer its calls with a fault, so that their senders look for the new address."""
        if link.state is LinkState.IDLE:
            link.lost(0)
        else:
            link.lost(0, close_reason="the broker is gone or has moved")
        self._retired.append(link)

    def _link(self, node: int, host: str, port: int) -> Link:
        options = self._options
        backoff = Backoff(options.reconnect_backoff_ms, options.reconnect_backoff_max_ms, self._entropy)
        return Link(node, host, port, options.client_id, backoff)


def _preference(link: Link) -> tuple[Any, ...]:
    """The sort key, smallest first: ready, then connecting, then idle; brokers before bootstrap addresses; least
    load."""
    if link.state is LinkState.READY:
        return 0, link.node < 0, link.load
    return 2 if link.state is LinkState.IDLE else 1, link.node < 0, 0
