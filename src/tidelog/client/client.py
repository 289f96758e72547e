"""What producer, consumer and admin share: connections, metadata updates, and the turn.

Every input and every call ends in `_turn`: it handles answers, requests metadata when an update is due, then lets the
client's own `_advance` send what can be sent.
"""

from collections.abc import Iterable, Sequence

from tidelog.client.backoff import Entropy
from tidelog.client.cluster import Cluster
from tidelog.client.options import Address, ClientOptions
from tidelog.effects import Effect
from tidelog.model import Time, earliest


class Client:
    """A client of a cluster. Inputs return the effects to carry out; `next_deadline` is when to call `wake`."""

    def __init__(
        self, bootstrap: Sequence[Address], options: ClientOptions, entropy: Entropy, *, creates_topics: bool = False
    ) -> None:
        """`creates_topics`: whether a metadata request may create the topics it names."""
        self.cluster = Cluster(bootstrap, options, entropy, creates_topics=creates_topics)
        self.network = self.cluster.network
        self.metadata = self.cluster.metadata
        self._closed = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.cluster!r}>"

    def connected(self, connection: int, now: Time) -> list[Effect]:
        self.network.connected(connection)
        return self._turn(now)

    def connect_failed(self, connection: int, _reason: str, now: Time) -> list[Effect]:
        self.network.disconnected(connection, now.mono)
        return self._turn(now)

    def received(self, connection: int, frames: Iterable[memoryview], now: Time) -> list[Effect]:
        """Complete frames, without their lengths; not used after the call."""
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
        """Monotonic milliseconds; None while only an input or a call can change anything."""
        if self._closed:
            return None
        return earliest(self.cluster.deadline, self._own_deadline())

    # Implemented by producer, consumer and admin.

    def _advance(self, now: Time) -> None:
        """Send whatever can be sent now."""

    def _own_deadline(self) -> int | None:
        """When `_advance` has something to do even if nothing happens before."""
        return None

    # The turn.

    def _turn(self, now: Time) -> list[Effect]:
        if not self._closed:
            answers = self.network.take_answers()
            while True:
                for answer in answers:
                    answer.token(answer, now)
                self.cluster.maybe_update_metadata(now)
                self._advance(now)
                answers = self.network.take_answers()
                if not answers:
                    break
        return self.network.take_effects()
