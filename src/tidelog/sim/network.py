"""Connections between brokers and clients: ordered byte streams that are slow, split, cut and dropped as the seed says.

A `Link` has two `End`s. What one end sends arrives at the other in order, in pieces cut at any byte. While the way
between two names is blocked, pieces are held, as TCP would retransmit them; when it is unblocked, they arrive, or the
link is reset. A killed party resets its links at once; one without power sends nothing, and its peers learn of it when
it is back.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Protocol

from tidelog.effects import REFUSED
from tidelog.wire.frames import Buffers, FrameReader

FRAME_LIMIT = 100 * 1024 * 1024
UNSENT_LIMIT = 4 * 1024 * 1024
"""A party with more unsent bytes on a link does not get what arrives there."""


class Clock(Protocol):
    """What the network needs of the world."""

    random: Random
    micros: int

    def after(self, delay: int, action: "Action") -> None: ...


class Action(Protocol):
    def __call__(self) -> None: ...


class Party(Protocol):
    """A broker or a client, by the name that links are blocked by."""

    name: str

    def connected(self, end: "End") -> None: ...

    def connect_failed(self, number: int, reason: str) -> None: ...

    def arrived(self, end: "End", data: bytes) -> None: ...

    def disconnected(self, end: "End") -> None: ...


@dataclass(slots=True)
class Listener:
    """An address where a party accepts connections."""

    party: Party
    name: str


@dataclass(slots=True)
class Weather:
    """How the network behaves; drawn per seed. Times in microseconds, probabilities per piece or connection."""

    delay: tuple[int, int] = (50, 800)
    tail_chance: float = 0.0
    tail: tuple[int, int] = (5_000, 200_000)
    split_chance: float = 0.1
    cut_chance: float = 0.0
    connect_timeout: int = 2_000_000
    reset_on_heal: float = 0.3


@dataclass(slots=True, eq=False)
class End:
    """One side of a link. `number` is the party's own; `listener` is empty on the side that opened it."""

    party: Party
    number: int
    listener: str
    reader: FrameReader
    link: "Link" = field(init=False)
    other: "End" = field(init=False)
    last_arrival: int = 0
    unsent: int = 0
    paused: bool = False
    notified: bool = False
    gone: bool = False
    cut: bool = False
    late: bool = False
    waiting: deque[bytes] = field(default_factory=deque)
    held: deque[bytes] = field(default_factory=deque)
    put_back: list[bytes] = field(default_factory=list)
    """Frames that the party received and could not serve yet, and those behind them."""

    def __repr__(self) -> str:
        return f"<{self.party.name} #{self.number}{' ' + self.listener if self.listener else ''}>"


@dataclass(slots=True, eq=False)
class Link:
    opener: End
    acceptor: End
    open: bool = True
    broken: bool = False

    def __post_init__(self) -> None:
        self.opener.link = self.acceptor.link = self
        self.opener.other, self.acceptor.other = self.acceptor, self.opener


@dataclass(slots=True)
class Narrow:
    """A way with limited bandwidth; `free_at` is when everything sent before is through."""

    bytes_a_second: int
    free_at: int = 0

    def delay_for(self, now: int, size: int) -> int:
        """Return how long it takes from now until `size` more bytes are through."""
        self.free_at = max(self.free_at, now) + size * 1_000_000 // self.bytes_a_second
        return self.free_at - now


class Network:
    def __init__(self, clock: Clock, weather: Weather | None = None) -> None:
        self.clock = clock
        self.random = clock.random
        self.weather = weather or Weather()
        self.listeners: dict[tuple[str, int], Listener] = {}
        self.links: list[Link] = []
        self.blocked: set[tuple[str, str]] = set()
        self.refused: set[tuple[str, str]] = set()
        self.holding: dict[End, None] = {}
        self.slow: dict[tuple[str, str], Narrow] = {}
        self.buffers = Buffers()
        self.accepted = 0
        self.on_send: Callable[[End, bytes], None] | None = None

    def __repr__(self) -> str:
        return f"Network({len(self.links)} links, {len(self.blocked)} ways blocked)"

    def delay(self) -> int:
        weather, chance = self.weather, self.random.random
        tail = weather.tail_chance and chance() < weather.tail_chance
        least, most = weather.tail if tail else weather.delay
        return least + int(chance() * (most - least + 1))

    # Opening and closing.

    def listen(self, host: str, port: int, party: Party, listener: str) -> None:
        self.listeners[host, port] = Listener(party, listener)

    def connect(self, party: Party, number: int, host: str, port: int) -> None:
        """Open a connection; the party's `connected` or `connect_failed` is called."""
        self.clock.after(self.delay(), lambda: self._reach(party, number, host, port))

    def _reach(self, party: Party, number: int, host: str, port: int) -> None:
        target = self.listeners.get((host, port))
        if target is not None and self.is_blocked(party.name, target.party.name):
            self.clock.after(self.weather.connect_timeout, lambda: party.connect_failed(number, "timed out"))
        elif target is None or (party.name, target.party.name) in self.refused:
            self.clock.after(self.delay(), lambda: party.connect_failed(number, REFUSED))
        else:
            self._link(party, number, target)

    def _link(self, party: Party, number: int, target: Listener) -> None:
        self.accepted += 1
        opener = End(party, number, "", FrameReader(FRAME_LIMIT, self.buffers))
        acceptor = End(target.party, self.accepted, target.name, FrameReader(FRAME_LIMIT, self.buffers))
        self.links.append(Link(opener, acceptor))
        self._notify_connected(acceptor)
        self.clock.after(self.delay(), lambda: self._answer_connect(opener))

    def _answer_connect(self, opener: End) -> None:
        """Notify the opener of the link; if it broke meanwhile, of both, in this order."""
        self._notify_connected(opener)
        if opener.link.broken:
            self._notify_disconnected(opener)

    def _notify_connected(self, end: End) -> None:
        end.notified = True
        end.party.connected(end)

    def _notify_disconnected(self, end: End) -> None:
        if end.notified and not end.gone:
            end.gone = True
            end.party.disconnected(end)

    def close(self, end: End) -> None:
        """Close the party's end; what it sent before still arrives, then the other side is notified."""
        if not end.link.open:
            return
        self._forget(end.link)
        end.gone = True
        self._arrive_later(end, end.other, None)

    def reset(self, link: Link) -> None:
        """Break the link: both sides are notified, and what was under way is lost."""
        if link.open:
            self._forget(link)
            link.broken = True
            for end in (link.opener, link.acceptor):
                self.clock.after(self.delay(), partial(self._notify_disconnected, end))

    def _forget(self, link: Link) -> None:
        link.open = False
        self.links.remove(link)

    def leave(self, party: Party, *, silent: bool) -> None:
        """Remove the party. Its peers are notified at once, or (`silent`: a power loss) when it is back."""
        for address in [address for address, listener in self.listeners.items() if listener.party is party]:
            del self.listeners[address]
        for link in [link for link in self.links if party in (link.opener.party, link.acceptor.party)]:
            end = link.opener if link.opener.party is party else link.acceptor
            if silent:
                end.paused = True
                continue
            self._forget(link)
            end.gone = True
            self._arrive_later(end, end.other, None)

    def back(self, name: str) -> None:
        """Notify those that still have links to a party of this name that left silently."""
        for link in list(self.links):
            for end in (link.opener, link.acceptor):
                if end.party.name == name:
                    self.leave(end.party, silent=False)

    # Sending.

    def send(self, end: End, data: bytes) -> None:
        if not end.link.open or end.cut:
            return
        if self.on_send is not None:
            self.on_send(end, data)
        weather = self.weather
        if weather.cut_chance and self.random.random() < weather.cut_chance:
            end.cut = True
            cut = self.random.randrange(len(data) + 1)
            self._arrive_later(end, end.other, data[:cut])
            self.clock.after(self.delay(), lambda: self.reset(end.link))
            return
        if len(data) < 2 or self.random.random() >= weather.split_chance:
            self._arrive_later(end, end.other, data)
            return
        for piece in self._pieces(data):
            self._arrive_later(end, end.other, piece)

    def _pieces(self, data: bytes) -> list[bytes]:
        cuts = sorted(self.random.randrange(1, len(data)) for _ in range(self.random.randint(1, 3)))
        return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if a < b]

    def _arrive_later(self, end: End, other: End, piece: bytes | None) -> None:
        """Deliver in order; None is the end of the stream."""
        size = len(piece) if piece else 0
        end.unsent += size
        delay, now = self.delay(), self.clock.micros
        if self.slow and (way := self.slow.get((end.party.name, other.party.name))) is not None:
            delay += way.delay_for(now, size)
        end.last_arrival = max(end.last_arrival, now + delay)
        self.clock.after(end.last_arrival - now, partial(self._arrive, end, other, piece))

    def _arrive(self, end: End, other: End, piece: bytes | None) -> None:
        if end.held or end.late or (self.blocked and (end.party.name, other.party.name) in self.blocked):
            end.held.append(piece or b"")
            self.holding[end] = None
            return
        size = len(piece) if piece else 0
        end.unsent -= size
        if end.link.broken:
            return
        if not piece:
            end.link.broken = True
            self._notify_disconnected(other)
            return
        if other.waiting or other.paused or other.unsent > UNSENT_LIMIT:
            other.waiting.append(piece)
            self.drain(other)
        else:
            other.party.arrived(other, piece)
        if end.unsent <= UNSENT_LIMIT < end.unsent + size:
            self.drain(end)

    def drain(self, end: End) -> None:
        """Deliver what arrived, unless the party paused the link or has too many unsent bytes."""
        while end.waiting and not end.paused and end.unsent <= UNSENT_LIMIT:
            end.party.arrived(end, end.waiting.popleft())

    # Partitions.

    def is_blocked(self, one: str, other: str) -> bool:
        return (one, other) in self.blocked or (other, one) in self.blocked

    def block(self, source: str, target: str) -> None:
        """Block the way from source to target; the other direction stays as it is."""
        self.blocked.add((source, target))

    def refuse(self, source: str, target: str) -> None:
        """Refuse new connections from source to target; existing ones stay."""
        self.refused.add((source, target))

    def narrow(self, source: str, target: str, bytes_a_second: int) -> None:
        """Limit the bandwidth from source to target."""
        self.slow[source, target] = Narrow(bytes_a_second)

    def isolate(self, name: str, others: list[str]) -> None:
        for other in others:
            if other != name:
                self.block(name, other)
                self.block(other, name)

    def abandon(self, source: str, target: str, wait: int) -> None:
        """Unblock the way for new links.

        Links opened by source on which something is held break for source alone; what is held arrives after this wait,
        behind whatever source sends meanwhile.
        """
        self.blocked.discard((source, target))
        for end in list(self.holding):
            if (end.party.name, end.other.party.name) == (source, target):
                del self.holding[end]
                if end.link.open and end is end.link.opener:
                    self._forget(end.link)
                    self.clock.after(self.delay(), partial(self._notify_disconnected, end))
                    self._arrive_later(end, end.other, None)
                self.clock.after(wait, partial(self._release, end))

    def heal(self) -> None:
        """Unblock every way at full bandwidth: what was held arrives, or the link is reset."""
        self.blocked.clear()
        self.refused.clear()
        self.slow.clear()
        holding, self.holding = self.holding, {}
        for end in holding:
            if self.random.random() < self.weather.reset_on_heal:
                self.reset(end.link)
            self.clock.after(self.delay(), partial(self._release, end))

    def hold(self, end: End) -> Action:
        """Hold what arrives from this end, the end of the stream included; return a function that releases it. `heal`
        does, too.
        """
        end.late = True
        return partial(self.unhold, end)

    def unhold(self, end: End) -> None:
        self.holding.pop(end, None)
        self._release(end)

    def _release(self, end: End) -> None:
        """Deliver what was held before what was sent after it, even if that is under way already."""
        end.late = False
        held, end.held = end.held, deque()
        for piece in held:
            self._arrive(end, end.other, piece or None)
