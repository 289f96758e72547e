"""Blocking clients over real sockets, for command-line tools, Spark and tests: one thread, no event loop.

A client makes progress only during calls: a producer sends during `send` and `flush`, a consumer sends heartbeats
during `poll`, which must be called more often than `session.timeout.ms`.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tidelog.client.client import Client
from tidelog.client.options import Address, AdminOptions, ConsumerOptions, ProducerOptions
from tidelog.client.positions import EARLIEST, LATEST
from tidelog.client.results import CommittedOffset, ConsumerRecord, Delivery, Done, Event, Failed, GroupPlace
from tidelog.effects import CONTROLLER, Effect
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import NO_ID, Time, TopicPartition, id_text
from tidelog.shell.client_sockets import Sockets, addresses, now
from tidelog.wire.record_format import Header

if TYPE_CHECKING:  # commands that only administer do not load producers and consumers
    from tidelog.client.admin import Target
    from tidelog.client.fetcher import FetchedBatches
    from tidelog.client.metadata import TopicInfo
    from tidelog.client.offset_lookups import FoundOffset
    from tidelog.client.producer import Producer as ProducerClient
    from tidelog.client.sending.batch import EncodedRecords

T = TypeVar("T")

FOREVER = 2**62
"""A monotonic time in ms that is never reached."""
_CLOSE_MS = 30_000
WAIT_STEP_MS = 500
DENIED_MS = 5_000
"""How long a topic must be denied until that is an error: a new ACL takes up to a second to reach all brokers."""


class _Blocking:
    """What the three clients share: running until a condition holds, and closing."""

    on_wait: Callable[[], None] | None = None
    """Called about twice a second while a call waits."""

    def __init__(self, client: Client) -> None:
        self._sockets = Sockets(client)
        self._is_closed = False

    def _run_until(self, done: Callable[[], bool], until: int) -> bool:
        """Run until `done` holds; return whether it did by `until` (monotonic ms)."""
        while not done():
            moment = now().mono
            if moment >= until:
                return False
            if self.on_wait is None:
                self._sockets.run(until)
            else:
                self._sockets.run(min(until, moment + WAIT_STEP_MS))
                self.on_wait()
        return True

    def _topic(self, topic: str, timeout: float) -> "TopicInfo":
        """A topic's metadata; ApiError UNKNOWN_TOPIC_OR_PARTITION if the topic does not appear within `timeout`
        seconds, TOPIC_AUTHORIZATION_FAILED if it may not be described for a while, REQUEST_TIMED_OUT if no broker
        answers."""
        client = self._sockets.client
        metadata = client.metadata

        def is_known() -> bool:
            return topic in metadata.topics and bool(metadata.topics[topic].partitions)

        def is_denied() -> bool:
            return topic in metadata.topics and metadata.topics[topic].error is ErrorCode.TOPIC_AUTHORIZATION_FAILED

        if not is_known():
            client.cluster.add_topics([topic], now())
            self._sockets.carry_out(client.wake(now()))
        began = now().mono

        def is_decided() -> bool:
            return is_known() or (is_denied() and now().mono >= began + DENIED_MS)

        self._run_until(is_decided, began + int(timeout * 1000))
        if not is_known():
            if is_denied():
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"no access to topic {topic}")
            if not metadata.updates:
                raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"no broker answered in {timeout:g} s")
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} does not exist")
        return metadata.topics[topic]

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._finish()
            self._sockets.close()

    def abandon(self) -> None:
        """Drop the connections without notifying the cluster, as a killed process does."""
        if not self._is_closed:
            self._is_closed = True
            self._sockets.close()

    def _finish(self) -> None:
        """Called before the connections are closed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


class Results:
    """The results of asynchronous calls, by ticket."""

    def __init__(self, take: Callable[[], Iterable[Done]]) -> None:
        self._take = take
        self._done: dict[int, Done] = {}

    def has(self, ticket: int) -> bool:
        for done in self._take():
            self._done[done.ticket] = done
        return ticket in self._done

    def value(self, ticket: int) -> Any:
        """The value; ApiError if the call failed."""
        done = self._done.pop(ticket)
        if done.error is not ErrorCode.NONE:
            raise ApiError(done.error, done.message)
        return done.value


class Admin(_Blocking):
    """`with Admin("127.0.0.1:9092") as admin: response = admin.ask(request, to=CONTROLLER)`."""

    def __init__(self, bootstrap: str | Sequence[Address], **options: Any) -> None:
        from tidelog.client.admin import Admin as AdminClient

        self._client = AdminClient(addresses(bootstrap), AdminOptions(**options), os.urandom)
        self._results = Results(self._client.take_results)
        super().__init__(self._client)

    def ask(
        self,
        request: Any,
        to: "Target" = CONTROLLER,
        *,
        timeout_ms: int | None = None,
        newest: int = 32767,
        retries: bool = True,
    ) -> Any:
        """The response, including its error codes; ApiError if there was none in time. `to` is a broker's id, ANY,
        CONTROLLER, `Leader(topic, partition)` or `Coordinator(group)`."""
        return self.result(self.submit(request, to, timeout_ms=timeout_ms, newest=newest, retries=retries))

    def submit(
        self,
        request: Any,
        to: "Target",
        *,
        timeout_ms: int | None = None,
        newest: int = 32767,
        retries: bool = True,
    ) -> int:
        """Send a request as `ask` does; `result` returns the response to this ticket."""
        ticket, effects = self._client.ask(request, to, now(), timeout_ms=timeout_ms, newest=newest, retries=retries)
        self._sockets.carry_out(effects)
        return ticket

    def result(self, ticket: int) -> Any:
        """Wait for the response; ApiError if there was none in time."""
        self._run_until(partial(self._results.has, ticket), FOREVER)
        return self._results.value(ticket)

    def ask_all(
        self, requests: "Iterable[tuple[Any, Target]]", *, newest: int = 32767, timeout_ms: int | None = None
    ) -> list[Any]:
        """The responses to requests that are in flight at the same time, in order; ApiError as for `ask`."""
        tickets = [self.submit(request, to, newest=newest, timeout_ms=timeout_ms) for request, to in requests]
        for ticket in tickets:
            self._run_until(partial(self._results.has, ticket), FOREVER)
        return [self._results.value(ticket) for ticket in tickets]

    def feature(self, broker: int, name: str) -> int:
        """The level of a feature, as a broker reported it in its last response; 0 if it reported none."""
        return self._client.network.feature(broker, name)

    def _finish(self) -> None:
        self._sockets.carry_out(self._client.close(now()))


class Producer(_Blocking):
    """`with Producer("127.0.0.1:9092", acks="all") as producer: producer.send("topic", b"value", key=b"key")`."""

    def __init__(
        self, bootstrap: str | Sequence[Address], *, client: "ProducerClient | None" = None, **options: Any
    ) -> None:
        from tidelog.client.producer import Producer as ProducerClient

        self._client = client or ProducerClient(addresses(bootstrap), ProducerOptions(**options), os.urandom)
        self._deliveries: list[Delivery] = []
        self._due: int | None = 0
        super().__init__(self._client)

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> int:
        """The record's ticket; its `Delivery` comes with `flush` or `deliveries`. Waits while `buffer.memory` is full;
        ApiError REQUEST_TIMED_OUT if that lasts `max.block.ms`."""
        moment = self._wait_for_room()
        ticket, effects = self._client.send(
            topic, value, moment, key=key, headers=headers, partition=partition, timestamp=timestamp
        )
        if effects or (self._due is not None and moment.mono >= self._due):
            self._sockets.carry_out(effects)
            self._sockets.run(moment.mono)
            self._due = self._client.next_deadline
        return ticket

    def send_encoded(self, partition: TopicPartition, content: "EncodedRecords") -> int:
        """Send many records that are already one batch: one ticket, and one `Delivery` with the offset of the first.
        Waits as `send` does."""
        moment = self._wait_for_room()
        ticket, effects = self._client.send_encoded(partition, content, moment)
        self._sockets.carry_out(effects)
        self._sockets.run(moment.mono)
        return ticket

    def waits(self, patience_ms: int) -> list[str]:
        """Why records have not been acknowledged for at least `patience_ms`, in words."""
        return self._client.waits(now(), patience_ms)

    def _wait_for_room(self) -> Time:
        moment = now()
        if not self._client.has_room:
            wait = self._client.options.max_block_ms
            if not self._run_until(lambda: self._client.has_room, moment.mono + wait):
                raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"buffer.memory was full for {wait} ms")
        return moment

    def partitions_of(self, topic: str, timeout: float = 60) -> dict[int, int]:
        """Each partition of a topic and its leader, -1 for none; ApiError UNKNOWN_TOPIC_OR_PARTITION if the topic does
        not appear in time. The request may create the topic."""
        info = self._topic(topic, timeout)
        led = {number: self._client.metadata.leader(TopicPartition(topic, number)) for number in info.partitions}
        return {number: -1 if leader is None else leader for number, leader in sorted(led.items())}

    def is_current(self, age_ms: int) -> bool:
        """Whether the cluster and its topics are still those that this producer knows. Metadata older than `age_ms`
        is fetched again; ApiError REQUEST_TIMED_OUT if no broker answers within `max.block.ms`."""
        metadata, moment = self._client.metadata, now()
        if not metadata.updates or moment.mono - self._client.cluster.updated_at <= age_ms:
            return True
        known = metadata.cluster_id, {name: topic.id for name, topic in metadata.topics.items()}
        seen = metadata.updates
        self._client.cluster.request_metadata_update(moment)
        self._sockets.carry_out(self._client.wake(moment))
        wait_ms = self._client.options.max_block_ms
        if not self._run_until(lambda: metadata.updates > seen, moment.mono + wait_ms):
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"no broker answered in {wait_ms} ms")
        return known == (metadata.cluster_id, {name: topic.id for name, topic in metadata.topics.items()})

    def flush(self, timeout: float | None = None) -> list[Delivery]:
        """Wait at most `timeout` seconds until every record's fate is known; return the deliveries not fetched
        before."""
        self._sockets.carry_out(self._client.flush(now()))
        until = FOREVER if timeout is None else now().mono + int(timeout * 1000)
        self._run_until(lambda: not self._client.pending, until)
        return self.deliveries()

    def deliveries(self, timeout: float = 0) -> list[Delivery]:
        """The deliveries known by now, or the first that arrive within `timeout` seconds."""
        if timeout:
            self._run_until(self._gather, now().mono + int(timeout * 1000))
        self._gather()
        taken, self._deliveries = self._deliveries, []
        return taken

    def _gather(self) -> bool:
        self._deliveries += self._client.take_deliveries()
        return bool(self._deliveries)

    def _finish(self) -> None:
        self.flush()
        self._sockets.carry_out(self._client.close(now()))


class Consumer(_Blocking):
    """`with Consumer("127.0.0.1:9092", group="readers") as consumer: consumer.subscribe(["topic"])`, then `poll`.

    If `group` is None, partitions are assigned manually and nothing is committed. Other options are those of
    `ConsumerOptions`. `on_event` is called with changes of the assignment, between two polls of the client: on
    `Revoked`, a `commit` still counts.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[Address],
        group: str | None = None,
        *,
        on_event: Callable[[Event], None] | None = None,
        **options: Any,
    ) -> None:
        from tidelog.client.consumer import Consumer as ConsumerClient

        self._client = ConsumerClient(addresses(bootstrap), ConsumerOptions(group_id=group, **options), os.urandom)
        self._results = Results(self._client.take_results)
        self._on_event = on_event
        super().__init__(self._client)

    def subscribe(self, topics: Collection[str] | str) -> None:
        """Subscribe to these topics, or to all topics whose names match a regular expression."""
        if isinstance(topics, str):
            self._sockets.carry_out(self._client.subscribe_pattern(topics, now()))
        else:
            self._sockets.carry_out(self._client.subscribe(topics, now()))

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        self._sockets.carry_out(self._client.assign([TopicPartition(*partition) for partition in partitions], now()))

    @property
    def assignment(self) -> list[TopicPartition]:
        return self._client.assignment

    def poll(self, timeout: float = 0, most: int | None = None) -> list[ConsumerRecord]:
        """The next records, at most `most` (`max.poll.records`); none after `timeout` seconds without records. ApiError
        if the consumer cannot continue."""
        return self._poll(lambda: self._client.poll(now(), most), timeout)

    def poll_whole(self, timeout: float = 0, until: int | None = None) -> "list[FetchedBatches]":
        """The next records as whole batches, for callers that decode columns; do not mix with `poll`. Partitions that
        reach `until` are paused."""
        return self._poll(lambda: self._client.poll_batches(now(), until), timeout)

    def _poll(self, take: "Callable[[], tuple[list[T], list[Effect]]]", timeout: float) -> "list[T]":
        moment = now()
        until = moment.mono + int(timeout * 1000)
        self._sockets.run(moment.mono)  # the group must not wait while there are records
        while True:
            self._deliver_events()
            taken, effects = take()
            self._sockets.carry_out(effects)
            left = until - now().mono
            if taken or left <= 0:
                return taken
            if self.on_wait is None:
                self._sockets.run(until)
            else:
                self._sockets.run(until - max(0, left - WAIT_STEP_MS))
                self.on_wait()

    def waits(self, patience_ms: int) -> list[str]:
        """Why assigned partitions have not been read for at least `patience_ms`, in words."""
        return self._client.waits(now(), patience_ms)

    def seek(self, partition: tuple[str, int], offset: int) -> None:
        self._sockets.carry_out(self._client.seek(TopicPartition(*partition), offset, now()))

    def seek_to_beginning(self, partitions: Iterable[tuple[str, int]] | None = None) -> None:
        self._seek_to(partitions, EARLIEST)

    def seek_to_end(self, partitions: Iterable[tuple[str, int]] | None = None) -> None:
        self._seek_to(partitions, LATEST)

    def _seek_to(self, partitions: Iterable[tuple[str, int]] | None, timestamp: int) -> None:
        chosen = self.assignment if partitions is None else [TopicPartition(*partition) for partition in partitions]
        self._sockets.carry_out(self._client.seek_to(chosen, timestamp, now()))

    def position(self, partition: tuple[str, int], timeout: float = 60) -> int:
        """The offset of the next record; ApiError REQUEST_TIMED_OUT if unknown after `timeout` seconds."""
        name = TopicPartition(*partition)
        until = now().mono + int(timeout * 1000)
        if not self._run_until(lambda: self._client.position(name) is not None, until):
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"the position of {name} is still unknown after {timeout} s")
        return self._client.position(name) or 0

    def commit(self, offsets: Mapping[tuple[str, int], int | CommittedOffset] | None = None) -> None:
        """Commit these offsets, or every position, and wait; ApiError if it fails."""
        wanted = None
        if offsets is not None:
            wanted = {
                TopicPartition(*p): offset if isinstance(offset, CommittedOffset) else CommittedOffset(offset)
                for p, offset in offsets.items()
            }
        self._wait(self._client.commit(now(), wanted))

    @property
    def group_place(self) -> GroupPlace:
        """The member of the group, for offsets in transactions."""
        return self._client.group_place

    def committed(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, CommittedOffset]:
        """The group's committed offsets, without the partitions that have none."""
        chosen = [TopicPartition(*partition) for partition in partitions]
        found: dict[TopicPartition, CommittedOffset] = self._wait(self._client.committed(chosen, now()))
        return found

    def offsets_for_times(self, timestamps: Mapping[tuple[str, int], int]) -> "dict[TopicPartition, FoundOffset]":
        """The first offset at or after each timestamp (wall clock ms), -1 if there is none."""
        wanted = {TopicPartition(*partition): timestamp for partition, timestamp in timestamps.items()}
        found: dict[TopicPartition, FoundOffset] = self._wait(self._client.look_up(wanted, now()))
        return found

    def beginning_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        return self._offsets(partitions, EARLIEST)

    def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        return self._offsets(partitions, LATEST)

    def _offsets(self, partitions: Iterable[tuple[str, int]], timestamp: int) -> dict[TopicPartition, int]:
        found = self.offsets_for_times(dict.fromkeys(partitions, timestamp))
        return {partition: looked_up.offset for partition, looked_up in found.items()}

    def partitions_of(self, topic: str, timeout: float = 60) -> list[TopicPartition]:
        """All partitions of a topic; ApiError UNKNOWN_TOPIC_OR_PARTITION if it does not appear in time."""
        return [TopicPartition(topic, number) for number in sorted(self._topic(topic, timeout).partitions)]

    def topic_id(self, topic: str, *, anew: bool = False, timeout: float = 60) -> str:
        """The id of a topic that was looked up before, "" if brokers report none; `anew` fetches the metadata again."""
        metadata = self._client.metadata
        if anew:
            seen = metadata.updates
            self._client.cluster.request_metadata_update(now())
            self._sockets.carry_out(self._client.wake(now()))
            self._run_until(lambda: metadata.updates > seen, now().mono + int(timeout * 1000))
        found = metadata.topic_id(topic)
        return "" if found == NO_ID else id_text(found)

    def pause(self, partitions: Iterable[tuple[str, int]]) -> None:
        self._sockets.carry_out(self._client.pause([TopicPartition(*partition) for partition in partitions], now()))

    def resume(self, partitions: Iterable[tuple[str, int]]) -> None:
        self._sockets.carry_out(self._client.resume([TopicPartition(*partition) for partition in partitions], now()))

    def _wait(self, call: tuple[int, list[Effect]]) -> Any:
        ticket, effects = call
        self._sockets.carry_out(effects)
        self._run_until(lambda: self._results.has(ticket), FOREVER)
        return self._results.value(ticket)

    def _deliver_events(self) -> None:
        for event in self._client.take_events():
            if self._on_event is not None:
                self._on_event(event)
            if isinstance(event, Failed):
                raise ApiError(event.error, event.message)

    def _finish(self) -> None:
        self._sockets.carry_out(self._client.close(now()))
        if not self._run_until(lambda: self._client.is_closed, now().mono + _CLOSE_MS):
            self._sockets.carry_out(self._client.abandon(now()))
