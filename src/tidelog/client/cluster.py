"""A cluster as a client sees it: connections to its brokers, and metadata that is updated when it is due.

`send_request` takes the function that handles the answer, with its first arguments bound. `Network.take_answers`
returns the answers to the client's turn, which calls these functions.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from tidelog.client.backoff import Backoff, Entropy
from tidelog.client.link import Answer, Call
from tidelog.client.metadata import Broker, Metadata
from tidelog.client.network import Network
from tidelog.client.options import Address, ClientOptions
from tidelog.model import Time, TopicPartition, earliest

Handle = Callable[[Answer, Time], None]

ASK_ANOTHER_MS = 1_000
"""A paused broker accepts connections, but does not answer. A client that knows only its bootstrap addresses would wait
for socket.connection.setup.timeout.ms, so it asks another address after this time."""


class Cluster:
    """One client's connections to the brokers, and its metadata."""

    def __init__(
        self, bootstrap: Sequence[Address], options: ClientOptions, entropy: Entropy, *, creates_topics: bool
    ) -> None:
        self.options = options
        self.entropy = entropy
        self.network = Network(bootstrap, options, entropy)
        self.metadata = Metadata()
        self.updated_at = 0
        """When the metadata was updated last (monotonic ms)."""
        self._creates_topics = creates_topics
        self._update_at = 0
        self._update_not_before = 0
        self._unanswered = 0
        self._ask_another_at: int | None = None
        self._update_backoff = self.backoff()

    def __repr__(self) -> str:
        return f"<Cluster {self.network} {self.metadata}>"

    def backoff(self) -> Backoff:
        """The waits between retries of one request, from the client's options."""
        return Backoff(self.options.retry_backoff_ms, self.options.retry_backoff_max_ms, self.entropy)

    def send_request(
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
        """Send a request to a known node; `handle` receives the response or the fault."""
        timeout = self.options.request_timeout_ms if timeout_ms is None else timeout_ms
        call = Call(handle, request.__key__, request, now.mono + timeout, newest, expects_answer)
        self.network.submit(node, call, now.mono)

    # Metadata.

    def request_metadata_update(self, now: Time) -> None:
        """Update the metadata as soon as the backoff since the last update is over, because it proved to be stale."""
        self._update_at = min(self._update_at, max(now.mono, self._update_not_before))

    def add_topics(self, topics: Iterable[str], now: Time) -> None:
        """Add topics to those whose metadata is kept; new ones are requested at once."""
        unknown = set(topics) - self.metadata.interest
        if unknown:
            self.metadata.interest |= unknown
            self._update_at = now.mono

    def maybe_update_metadata(self, now: Time) -> bool:
        due = self._update_due
        if due is None or now.mono < due:
            return False
        if self._unanswered:
            node, self._ask_another_at = self.network.idle_node(now.mono), None
            if node is None:
                return False
        else:
            node = self.network.any_node(now.mono)
        if node is None:
            self._update_at = self._update_not_before = self.network.next_usable_at
            return False
        self._unanswered += 1
        if not self.metadata.updates:
            self._ask_another_at = now.mono + ASK_ANOTHER_MS
        requested = None if self.metadata.wants_all else frozenset(self.metadata.interest)
        request = self.metadata.request(creates_topics=self._creates_topics)
        self.send_request(node, request, partial(self._metadata_answered, requested), now)
        return True

    def _metadata_answered(self, requested: frozenset[str] | None, answer: Answer, now: Time) -> None:
        self._unanswered -= 1
        if not answer.fault and not answer.response.error_code:
            self.metadata.update(answer.response)
            self.updated_at = now.mono
            self._ask_another_at = None
            self._learn_addresses()
            if requested is not None and (self.metadata.wants_all or self.metadata.interest != requested):
                self._update_at = now.mono
                return
            if not self.metadata.is_incomplete():
                self._update_backoff.succeeded()
                self._update_not_before = now.mono + self.options.retry_backoff_ms
                self._update_at = now.mono + self.options.metadata_max_age_ms
                return
        self._update_at = self._update_not_before = now.mono + self._update_backoff.next_ms()

    @property
    def deadline(self) -> int | None:
        """When the client's turn must come at the latest to serve connections and metadata."""
        return earliest(self.network.deadline, self._update_due)

    @property
    def _update_due(self) -> int | None:
        """When to request metadata; None while an answer is awaited."""
        return self._ask_another_at if self._unanswered else self._update_at

    def learn_endpoints(self, endpoints: Iterable[Any]) -> None:
        """Add the brokers that an answer named together with the current leaders (KIP-951)."""
        brokers = [Broker(e.node_id, e.host, e.port, e.rack) for e in endpoints]
        if brokers:
            self.metadata.learn_brokers(brokers)
            self._learn_addresses()

    def _learn_addresses(self) -> None:
        self.network.learn([(broker.id, broker.host, broker.port) for broker in self.metadata.brokers.values()])


def by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """The partition numbers by topic, both sorted."""
    grouped = groupby(sorted(partitions), key=lambda partition: partition.topic)
    return [(topic, [partition.partition for partition in group]) for topic, group in grouped]
