"""Faults of a cluster's requests and of its network."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from tidelog.testing.answers import MORE_ENTRIES
from tidelog.testing.broker import Broker, Reach
from tidelog.testing.names import NAMES, api_key, at_least, error_code
from tidelog.testing.narrowing import METADATA, Failure, Place, names_partitions, names_topics
from tidelog.testing.requests import Action, Fault, Request, RequestFault, Scope
from tidelog.testing.topics import Topics
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.refusals import ENTRIES

Names = str | Iterable[str]
Numbers = int | Iterable[int]
T = TypeVar("T")


class RequestFaults(Topics):
    """What `Cluster` can do to requests of clients, and to connections.

    Each fault strikes requests of the named API or APIs. `nth` is the first one that is struck, `times` how many are
    (None: all until the fault is removed); `broker` (one or several), `client_id`, `topic` and `partition` of the topic
    narrow it down to requests that name them. What brokers send each other is not touched.
    """

    def delay(
        self,
        api: Names,
        ms: float,
        *,
        nth: int = 1,
        times: int | None = None,
        broker: Numbers | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> Fault:
        """Let requests wait before the broker sees them; what the connection sends after them waits, too.

        >>> cluster.delay("Produce", ms=500)
        """
        at_least("ms", ms, 0)
        scope = self._scope(api, nth, times, broker, client_id, _place(topic, partition))
        return self._inject(scope, Action(delay_s=ms / 1000), f"delay of {ms:g} ms for {_text(scope)}")

    def drop(
        self,
        api: Names,
        *,
        nth: int = 1,
        times: int | None = 1,
        applied: bool = False,
        broker: Numbers | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> Fault:
        """Lose requests on their way to the broker, or with `applied` the responses on their way back. The connection
        stays open and silent, so the client waits for its request timeout.

        >>> cluster.drop("Fetch", nth=3)
        """
        scope = self._scope(api, nth, times, broker, client_id, _place(topic, partition))
        lost = "response" if applied else "request"
        return self._inject(scope, Action(lost=True, applied=applied), f"loss of the {lost} of {_text(scope)}")

    def fail(
        self,
        api: Names,
        code: str | int,
        *,
        nth: int = 1,
        times: int | None = 1,
        broker: Numbers | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> Fault:
        """Answer requests with an error code, by its name in Kafka's protocol, instead of serving them. With `topic`
        only that topic or partition fails, and the broker serves what else is in the request.

        >>> cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
        >>> cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic="t", partition=0, times=2)
        """
        scope, found = self._scope(api, nth, times, broker, client_id, _place(topic, partition)), error_code(code)
        for key in sorted(scope.keys):
            if not _has_code(key):
                raise ValueError(f"a response to {NAMES[key]} has no error code; use drop or control")
        action = Action(code=found) if scope.place is None else Action(failures=(Failure(scope.place, found),))
        return self._inject(scope, action, f"{found.name} for {_text(scope)}")

    def control(
        self,
        api: Names,
        function: Callable[[Request], Any],
        *,
        nth: int = 1,
        times: int | None = None,
        broker: Numbers | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> Fault:
        """Call a function with each request: the response that it returns is sent instead of the broker's; with None
        the broker serves the request. It runs on the broker's event loop and must not wait.

        >>> cluster.control("Heartbeat", lambda request: HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        """
        scope = self._scope(api, nth, times, broker, client_id, _place(topic, partition))
        return self._inject(scope, Action(answer=function), f"{function!r} for {_text(scope)}")

    def cut_connections(self, broker: Numbers | None = None) -> int:
        """Close the connections of all clients to these brokers; returns how many there were. Clients may connect
        again."""
        return sum(each.cut_connections() for each in self._chosen(broker) if each in self._answering)

    def throttle(self, bytes_per_s: float, *, broker: Numbers | None = None) -> Fault:
        """Let the clients' link to each of these brokers carry so many bytes a second, in both directions together."""
        at_least("bytes_per_s", bytes_per_s, 1)
        chosen = self._chosen(broker)

        def set_speed(each: Broker, speed: float | None) -> None:
            each.wire.bytes_per_s = speed

        return self._overlay(
            set_speed, dict.fromkeys(chosen, bytes_per_s), f"link of {bytes_per_s:g} bytes/s to {chosen}"
        )

    def partition(self, *groups: Collection[int], clients: bool = True) -> Fault:
        """Let only brokers of the same group reach each other; brokers that no group names are one more group. Only the
        largest group, of equal ones the last, reaches the metadata store: brokers of the others lose their leaderships
        after broker.session.timeout.ms (9 s). Clients reach all brokers, or with `clients=False` only the largest
        group. `heal` ends it.

        >>> cluster.partition({0}, {1, 2})
        """
        sides = self._sides(groups)
        largest = max(reversed(sides), key=len)
        reach = {
            self.brokers[number]: Reach(
                [each.id for each in self.brokers if each.id not in side], side is largest, clients or side is largest
            )
            for side in sides
            for number in side
        }
        return self._overlay(_set_reach, reach, f"partition of {' and '.join(map(str, sides))}")

    def _sides(self, groups: Iterable[Collection[int]]) -> list[set[int]]:
        sides = [{self.broker(number).id for number in ([each] if isinstance(each, int) else each)} for each in groups]
        named = [number for side in sides for number in sorted(side)]
        twice = {number for number in named if named.count(number) > 1}
        if twice:
            raise ValueError(f"broker {min(twice)} is in two groups; expected each broker in one")
        rest = {broker.id for broker in self.brokers} - set(named)
        sides = [side for side in [*sides, rest] if side]
        if len(sides) < 2:
            raise ValueError(f"groups: {groups!r} leaves nothing to separate; expected two groups of brokers")
        return sides

    def heal(self) -> None:
        """End all faults: paused brokers go on, partitions and full disks end. Brokers that are down stay down:
        `start` starts them."""
        self._check_open()
        for fault in list(self._faults):
            fault.remove()
        self._faults.clear()
        self.resume()

    def requests(
        self, api: Names | None = None, *, broker: Numbers | None = None, client_id: str | None = None
    ) -> list[Request]:
        """The latest requests of clients, in the order of their arrival: up to 10,000, or 16 MB, of each broker.

        >>> len(cluster.requests("Produce"))
        3
        """
        names = None if api is None else {NAMES[key] for key in _keys(api)}
        found = [
            request
            for each in self._chosen(broker)
            for request in each.wire.log.all()
            if (names is None or request.api in names) and client_id in (None, request.client_id)
        ]
        return sorted(found, key=lambda request: request.at)

    def forget_requests(self) -> None:
        """Empty the list of requests."""
        for broker in self.brokers:
            broker.wire.log.clear()

    def _chosen(self, numbers: Numbers | None) -> list[Broker]:
        self._check_open()
        if numbers is None:
            return list(self.brokers)
        return [self.broker(number) for number in ([numbers] if isinstance(numbers, int | str) else numbers)]

    def _scope(
        self,
        api: Names,
        nth: int,
        times: int | None,
        broker: Numbers | None,
        client_id: str | None,
        place: Place | None,
    ) -> Scope:
        at_least("nth", nth, 1)
        if times is not None:
            at_least("times", times, 1)
        brokers = None if broker is None else [each.id for each in self._chosen(broker)]
        self._check_open()
        keys = frozenset(_keys(api))
        if place is not None:
            _check_names(keys, place)
        return Scope(keys, brokers, client_id, place, nth - 1, times)

    def _inject(self, scope: Scope, action: Action, text: str) -> RequestFault:
        def end(fault: RequestFault) -> None:
            for broker in self.brokers:
                broker.wire.faults = [each for each in broker.wire.faults if each is not fault]

        fault = RequestFault(scope, action, end, text)
        for broker in self.brokers:
            broker.wire.faults = [*broker.wire.faults, fault]
        self._add(fault)
        return fault

    def _overlay(self, change: Callable[[Broker, T | None], None], values: Mapping[Broker, T], text: str) -> Fault:
        """A fault that sets something of brokers, by `change`. Of several that overlap the newest counts, and when it
        ends the one before."""

        def end() -> None:
            for broker in values:
                layers = self._layers[change.__qualname__, broker.id]
                del layers[fault]
                change(broker, next(reversed(layers.values()), None))

        fault = Fault(end, text)
        for broker, value in values.items():
            self._layers.setdefault((change.__qualname__, broker.id), {})[fault] = value
            change(broker, value)
        return self._add(fault)

    def _add(self, fault: Fault) -> Fault:
        self._faults.append(fault)
        return fault


def _set_reach(broker: Broker, reach: Reach | None) -> None:
    broker.set_unreachable(*(reach or Reach((), store=True, clients=True)))


def _keys(api: Names) -> list[int]:
    return [api_key(name) for name in ([api] if isinstance(api, str) else api)]


def _text(scope: Scope) -> str:
    names = ", ".join(NAMES[key] for key in sorted(scope.keys))
    return names if scope.place is None else f"{names} of {scope.place}"


def _place(topic: str | None, partition: int | None) -> Place | None:
    if topic is None:
        if partition is not None:
            raise ValueError(f"partition: {partition!r} needs a topic")
        return None
    if partition is not None:
        at_least("partition", partition, 0)
    return Place(topic, partition)


def _check_names(keys: Iterable[int], place: Place) -> None:
    for key in sorted(keys):
        if not names_topics(key):
            raise ValueError(f"topic: requests of {NAMES[key]} name no topics")
        if place.partition is not None and not names_partitions(key):
            raise ValueError(f"partition: requests of {NAMES[key]} name no partitions")


def _has_code(key: int) -> bool:
    """Whether a response of the API can carry an error code."""
    return key == METADATA or key in ENTRIES or key in MORE_ENTRIES or hasattr(SCHEMAS[key].response(), "error_code")
