"""The network as a story needs it: every message can be read, held on its way, and delivered by hand.

What a party sends is cut into frames, each a `Letter`. A letter that a rule names is held, and so is everything behind
it on its connection, because a stream keeps its order. Requests of followers (`Fetch`, `OffsetForLeaderEpoch`) are
always held while replication goes by hand.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from tidelog.sim.network import Clock, End, Link, Network, Weather
from tidelog.wire import codec

PREFIX = 4
FOLLOWERS_QUESTIONS = frozenset({"Fetch", "OffsetForLeaderEpoch"})
ANSWER = " answer"


@dataclass(slots=True, eq=False)
class Letter:
    """One frame on its way.

    `kind` is the request's name, followed by " answer" for a response; `request` is the request that a response is for.
    """

    end: End
    frame: bytes
    kind: str
    message: Any
    request: Any = None

    @property
    def source(self) -> str:
        return self.end.party.name

    @property
    def target(self) -> str:
        return self.end.other.party.name


class Addressed(Protocol):
    """What a rule looks at."""

    @property
    def source(self) -> str: ...

    @property
    def target(self) -> str: ...

    @property
    def kind(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Rule:
    """Hold what is sent from source to target, of these kinds or (none) of all."""

    source: str
    target: str
    kinds: frozenset[str] = frozenset()

    def names(self, letter: Addressed) -> bool:
        return (letter.source, letter.target) == (self.source, self.target) and (
            not self.kinds or letter.kind in self.kinds
        )


OnMessage = Callable[[Letter, bool], None]


class Post(Network):
    """Calls `on_message(letter, delivered)` for every letter that is sent, and for every one that a rule holds."""

    def __init__(self, clock: Clock, weather: Weather, on_message: OnMessage) -> None:
        super().__init__(clock, weather)
        self.on_message = on_message
        self.by_hand = True
        self.rules: list[Rule] = []
        self.held: list[Letter] = []
        self._pending: dict[tuple[Link, int], tuple[int, int, Any]] = {}

    def __repr__(self) -> str:
        return f"Post({len(self.held)} held, {len(self.rules)} rules)"

    def send(self, end: End, data: bytes) -> None:
        for frame in _frames(data):
            letter = self._letter(end, frame)
            if not self._is_held(letter):
                self._go(letter)
                continue
            self.held.append(letter)
            if any(rule.names(letter) for rule in self.rules):
                self.on_message(letter, False)

    def _letter(self, end: End, frame: bytes) -> Letter:
        if not end.listener:
            header, request = codec.decode_request(memoryview(frame)[PREFIX:])
            self._pending[end.link, header.correlation_id] = header.api_key, header.api_version, request
            return Letter(end, frame, type(request).__name__.removesuffix("Request"), request)
        correlation_id = int.from_bytes(frame[PREFIX : 2 * PREFIX], "big")
        key, version, request = self._pending.pop((end.link, correlation_id))
        _, response = codec.decode_response(key, version, memoryview(frame)[PREFIX:])
        return Letter(end, frame, type(response).__name__.removesuffix("Response") + ANSWER, response, request)

    def _is_held(self, letter: Letter) -> bool:
        behind = any(earlier.end is letter.end for earlier in self.held)
        return behind or self._by_hand(letter) or any(rule.names(letter) for rule in self.rules)

    def _by_hand(self, letter: Letter) -> bool:
        if not self.by_hand or letter.kind not in FOLLOWERS_QUESTIONS:
            return False
        replica: int = (letter.message.replica_state if letter.kind == "Fetch" else letter.message).replica_id
        return replica >= 0

    def _go(self, letter: Letter) -> None:
        self.on_message(letter, True)
        super().send(letter.end, letter.frame)

    # By hand.

    def waiting(self, source: str = "", target: str = "", kinds: frozenset[str] = frozenset()) -> list[Letter]:
        """Return held letters on open connections, oldest first."""
        self.held = [letter for letter in self.held if letter.end.link.open]
        return [
            letter
            for letter in self.held
            if source in ("", letter.source) and target in ("", letter.target) and (not kinds or letter.kind in kinds)
        ]

    def deliver(self, letter: Letter) -> None:
        self.held.remove(letter)
        self._go(letter)

    def lose(self, letter: Letter) -> None:
        """Lose the letter: its connection breaks."""
        self.held.remove(letter)
        self.reset(letter.end.link)

    def let_go(self) -> None:
        """Deliver what no rule holds any more, in order."""
        letters, self.held = self.waiting(), []
        for letter in letters:
            if self._is_held(letter):
                self.held.append(letter)
            else:
                self._go(letter)


def _frames(data: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        end = position + PREFIX + int.from_bytes(data[position : position + PREFIX], "big")
        yield data[position:end]
        position = end
