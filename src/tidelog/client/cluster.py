"""A cluster as a client sees it: connections to its brokers, and metadata that is renewed where it is due.

`ask` takes the function that handles the answer, with its first arguments bound; `take_answers` hands the answers to
the turn of the client, which calls it.
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


class Cluster:
    """One client's way to the brokers, and its picture of them."""

    def __init__(
        self, bootstrap: Sequence[Address], options: ClientOptions, entropy: Entropy, *, creates_topics: bool
    ) -> None:
        self.options = options
        self.entropy = entropy
        self.network = Network(bootstrap, options, entropy)
        self.metadata = Metadata()
        self._creates_topics = creates_topics
        self._renew_at = 0
        self._renew_not_before = 0
        self._renewing = False
        self._renew_backoff = self.backoff()

    def __repr__(self) -> str:
        return f"<Cluster {self.network} {self.metadata}>"

    def backoff(self) -> Backoff:
        """The waits between tries of one request, as the options have them."""
        return Backoff(self.options.retry_backoff_ms, self.options.retry_backoff_max_ms, self.entropy)

    def ask(
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
        timeout = self.options.request_timeout_ms if timeout_ms is None else timeout_ms
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

    def maybe_renew(self, now: Time) -> bool:
        if self._renewing or now.mono < self._renew_at:
            return False
        node = self.network.any_node(now.mono)
        if node is None:
            self._renew_at = self._renew_not_before = self.network.next_usable_at
            return False
        self._renewing = True
        asked = None if self.metadata.wants_all else frozenset(self.metadata.interest)
        request = self.metadata.request(creates_topics=self._creates_topics)
        self.ask(node, request, partial(self._renewed, asked), now)
        return True

    def _renewed(self, asked: frozenset[str] | None, answer: Answer, now: Time) -> None:
        self._renewing = False
        if not answer.fault and not answer.response.error_code:
            self.metadata.update(answer.response)
            self._learn_addresses()
            if asked is not None and (self.metadata.wants_all or self.metadata.interest != asked):
                self._renew_at = now.mono
                return
            if not self.metadata.is_incomplete():
                self._renew_backoff.succeeded()
                self._renew_not_before = now.mono + self.options.retry_backoff_ms
                self._renew_at = now.mono + self.options.metadata_max_age_ms
                return
        self._renew_at = self._renew_not_before = now.mono + self._renew_backoff.next_ms()

    @property
    def deadline(self) -> int | None:
        """When the client's turn must come at the latest, for the sake of connections and metadata."""
        return earliest(self.network.deadline, None if self._renewing else self._renew_at)

    def learn_endpoints(self, endpoints: Iterable[Any]) -> None:
        """Brokers that an answer named beside the current leaders (KIP-951)."""
        brokers = [Broker(e.node_id, e.host, e.port, e.rack) for e in endpoints]
        if brokers:
            self.metadata.learn_brokers(brokers)
            self._learn_addresses()

    def _learn_addresses(self) -> None:
        self.network.learn([(broker.id, broker.host, broker.port) for broker in self.metadata.brokers.values()])


def by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """The partitions' numbers by topic, both in order."""
    grouped = groupby(sorted(partitions), key=lambda partition: partition.topic)
    return [(topic, [partition.partition for partition in group]) for topic, group in grouped]
