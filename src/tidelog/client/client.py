"""What producer, consumer and admin share: connections, metadata and its renewal, and the turn of the wheel.

Every input and every call ends in `_turn`: answers are handled, metadata is renewed where it is due, then the client's
own `_advance` sends what can be sent. A token is the method that handles the answer, with its first arguments.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from tidelog.client.backoff import Backoff, Entropy
from tidelog.client.link import Answer, Call
from tidelog.client.metadata import Broker, Metadata
from tidelog.client.network import Network
from tidelog.client.options import Address, ClientOptions
from tidelog.effects import Effect
from tidelog.model import Time

METADATA = 3

Handle = Callable[[Answer, Time], None]


class Client:
    """A client of a cluster. Inputs return the effects to carry out; `next_deadline` says when to `wake` it."""

    creates_topics = False
    """Whether asking for a topic's metadata may create it."""

    def __init__(self, bootstrap: Sequence[Address], options: ClientOptions, entropy: Entropy) -> None:
        self._common = options
        self._entropy = entropy
        self.network = Network(bootstrap, options, entropy)
        self.metadata = Metadata()
        self._renew_at = 0
        self._renew_not_before = 0
        self._renewing = False
        self._renew_backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms, entropy)
        self._closed = False

    def connected(self, connection: int, now: Time) -> list[Effect]:
        self.network.connected(connection)
        return self._turn(now)

    def connect_failed(self, connection: int, _reason: str, now: Time) -> list[Effect]:
        self.network.disconnected(connection, now.mono)
        return self._turn(now)

    def received(self, connection: int, frames: Iterable[memoryview], now: Time) -> list[Effect]:
        """Complete frames, without their lengths; they are not looked at after the call."""
        self.network.received(connection, frames, now.mono)
        return self._turn(now)

    def disconnected(self, connection: int, now: Time) -> list[Effect]:
        self.network.disconnected(connection, now.mono)
        return self._turn(now)

    def wake(self, now: Time) -> list[Effect]:
        self.network.wake(now.mono)
        return self._turn(now)

    @property
    def next_deadline(self) -> int | None:
        """Monotonic milliseconds; None while only an input or a call can make a difference."""
        if self._closed:
            return None
        moments = (self.network.deadline, self._renewal_deadline(), self._own_deadline())
        return min((moment for moment in moments if moment is not None), default=None)

    # What the three kinds of client fill in.

    def _advance(self, now: Time) -> None:
        """Send whatever can be sent now."""

    def _own_deadline(self) -> int | None:
        """When `_advance` has something to do though nothing happened."""
        return None

    # The turn of the wheel.

    def _turn(self, now: Time) -> list[Effect]:
        if not self._closed:
            answers = self.network.take_answers()
            while True:
                for answer in answers:
                    answer.token(answer, now)
                self._maybe_renew(now)
                self._advance(now)
                answers = self.network.take_answers()
                if not answers:
                    break
        return self.network.take_effects()

    def _ask(
        self,
        node: int,
        request: Any,
        handle: Handle,
        now: Time,
        *,
        timeout_ms: int | None = None,
        newest: int = 32767,
        expects_answer: bool = True,
    ) -> None:
        """Send a request to a known node; `handle` gets its answer or fault."""
        timeout = self._common.request_timeout_ms if timeout_ms is None else timeout_ms
        call = Call(handle, request.__key__, request, now.mono + timeout, newest, expects_answer)
        self.network.submit(node, call, now.mono)

    # Metadata.

    def want_metadata(self, now: Time) -> None:
        """What is known has proved wrong: ask again, as soon as the wait since the last answer is over."""
        self._renew_at = min(self._renew_at, max(now.mono, self._renew_not_before))

    def want_topics(self, topics: Iterable[str], now: Time) -> None:
        """Keep these topics' metadata too from now on; new ones are asked for at once."""
        unknown = set(topics) - self.metadata.interest
        if unknown:
            self.metadata.interest |= unknown
            self._renew_at = now.mono

    def _maybe_renew(self, now: Time) -> bool:
        if self._renewing or now.mono < self._renew_at:
            return False
        node = self.network.any_node(now.mono)
        if node is None:
            self._renew_at = self.network.next_usable_at
            return False
        self._renewing = True
        asked = None if self.metadata.wants_all else frozenset(self.metadata.interest)
        request = self.metadata.request(creates_topics=self.creates_topics)
        self._ask(node, request, partial(self._renewed, asked), now)
        return True

    def _renewed(self, asked: frozenset[str] | None, answer: Answer, now: Time) -> None:
        self._renewing = False
        if not answer.fault and not answer.response.error_code:
            self.metadata.update(answer.response)
            brokers = self.metadata.brokers.values()
            self.network.learn((broker.id, broker.host, broker.port) for broker in brokers)
            if asked is not None and (self.metadata.wants_all or self.metadata.interest != asked):
                self._renew_at = now.mono
                return
            if not self.metadata.is_incomplete():
                self._renew_backoff.succeeded()
                self._renew_not_before = now.mono + self._common.retry_backoff_ms
                self._renew_at = now.mono + self._common.metadata_max_age_ms
                return
        self._renew_at = self._renew_not_before = now.mono + self._renew_backoff.next_ms()

    def _renewal_deadline(self) -> int | None:
        return None if self._renewing else self._renew_at

    def _learn_endpoints(self, endpoints: Iterable[Any]) -> None:
        """Brokers that an answer named beside the current leaders (KIP-951)."""
        brokers = [Broker(e.node_id, e.host, e.port, e.rack) for e in endpoints]
        if brokers:
            self.metadata.learn_brokers(brokers)
            known = self.metadata.brokers.values()
            self.network.learn((broker.id, broker.host, broker.port) for broker in known)
