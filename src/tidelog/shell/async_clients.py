"""Clients over real sockets on the running asyncio loop: an admin, and a producer for single records.

They carry out the same state machines as the blocking clients of `transport`. `BridgedAdmin` lets blocking code, which
runs in a thread, ask through an `AsyncAdmin`.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from itertools import count
from typing import Any, Self

from tidelog.client.admin import Admin as AdminClient
from tidelog.client.admin import Target
from tidelog.client.client import Client
from tidelog.client.options import AdminOptions, ProducerOptions
from tidelog.client.producer import Producer as ProducerClient
from tidelog.client.results import Delivery
from tidelog.effects import CONTROLLER, Effect
from tidelog.errors import ApiError, ErrorCode, InvalidOption
from tidelog.shell.client_sockets import Sockets, addresses, now
from tidelog.shell.transport import Admin
from tidelog.wire.messages.records.fetch import FetchResponse
from tidelog.wire.record_format import Header


class LoopSockets(Sockets):
    """The sockets of a client, turned by the loop: their selector is itself a descriptor that becomes readable.

    `on_turn` is called after each input, while views of received bytes are still good. Logging in blocks, so it happens
    on a thread, and `on_refusal` gets the error if a broker refuses it: a retry cannot succeed.
    """

    def __init__(self, client: Client, on_turn: Callable[[], None], on_refusal: Callable[[Exception], None]) -> None:
        super().__init__(client)
        self._on_turn = on_turn
        self._on_refusal = on_refusal
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._logging_in: dict[int, asyncio.Future[Any]] = {}
        self.is_closed = False
        self._loop.add_reader(self._selector.fileno(), self.turn)

    def turn(self) -> None:
        """Handle what is due now."""
        if not self.is_closed:
            self.run(now().mono)
            self.advance()

    def advance(self, effects: Iterable[Effect] = ()) -> None:
        """Carry out effects of a call, and wake the client in time."""
        self.carry_out(effects)
        self._on_turn()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.client.next_deadline
        if due is not None and not self.is_closed:
            self._timer = self._loop.call_later(max(0, due - now().mono) / 1000, self.turn)

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._selector.fileno())
        super().close()

    def _read(self, found: Any) -> list[Effect]:
        effects = super()._read(found)
        self._on_turn()  # the next read may use the buffer again
        return effects

    def _finish_connecting(self, found: Any) -> list[Effect]:
        if self._security is None:
            return super()._finish_connecting(found)
        error = self._connect_error(found)
        if error:
            self._remove(found.connection)
            return self.client.connect_failed(found.connection, error, now())
        self._selector.unregister(found.sock)
        del self._sockets[found.connection]
        task = asyncio.ensure_future(asyncio.to_thread(self._security.secure, found.sock, found.host))
        self._logging_in[found.connection] = task
        task.add_done_callback(lambda done: self._logged_in(found, done))
        return []

    def _remove(self, connection: int) -> None:
        """A connection that is logging in is closed when that ends."""
        if self._logging_in.pop(connection, None) is None:
            super()._remove(connection)

    def _logged_in(self, found: Any, done: "asyncio.Future[Any]") -> None:
        is_wanted = self._logging_in.pop(found.connection, None) is not None and not self.is_closed
        error = None if done.cancelled() else done.exception()
        if done.cancelled() or not is_wanted:
            found.sock.close()
            if not done.cancelled() and error is None:
                done.result().close()
        elif error is not None:
            found.sock.close()
            if isinstance(error, ApiError | InvalidOption):
                self._on_refusal(error)
            self.advance(self.client.connect_failed(found.connection, str(error), now()))
        else:
            found.sock = done.result()
            self._adopt(found)
            self.advance(self.client.connected(found.connection, now()))


class AsyncAdmin:
    """`response = await admin.ask(request, to=CONTROLLER)`. Use `async with`, or `close` it."""

    def __init__(self, bootstrap: str, **options: Any) -> None:
        self._client = AdminClient(addresses(bootstrap), AdminOptions(**options), os.urandom)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._loop = asyncio.get_running_loop()
        self._sockets = LoopSockets(self._client, self._take_results, self._refused)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def ask(
        self,
        request: Any,
        to: Target = CONTROLLER,
        *,
        timeout_ms: int | None = None,
        newest: int = 32767,
        retries: bool = True,
    ) -> Any:
        """As `transport.Admin.ask`; records of a Fetch response are bytes."""
        if self._sockets.is_closed:
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, "the client is closed")
        ticket, effects = self._client.ask(request, to, now(), timeout_ms=timeout_ms, newest=newest, retries=retries)
        future = self._waiting[ticket] = self._loop.create_future()
        try:
            self._sockets.advance(effects)
            return await future
        finally:
            self._waiting.pop(ticket, None)

    def feature(self, broker: int, name: str) -> int:
        return self._client.network.feature(broker, name)

    def close(self) -> None:
        self._sockets.carry_out(self._client.close(now()))
        self._sockets.close()
        self._fail(ApiError(ErrorCode.NETWORK_EXCEPTION, "the client is closed"))

    def _take_results(self) -> None:
        for done in self._client.take_results():
            future = self._waiting.get(done.ticket)
            if future is None or future.done():
                continue
            if done.error is not ErrorCode.NONE:
                future.set_exception(ApiError(done.error, done.message))
            else:
                future.set_result(_detached(done.value))

    def _refused(self, error: Exception) -> None:
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)


def _detached(response: Any) -> Any:
    """The response without views of the buffer that it arrived in."""
    if isinstance(response, FetchResponse):
        for topic in response.responses:
            for each in topic.partitions:
                each.records = None if each.records is None else bytes(each.records)  # type: ignore[arg-type]
    return response


class AsyncProducer:
    """Sends single records, for people: each `send` waits until its record is acknowledged."""

    def __init__(self, bootstrap: str, **options: Any) -> None:
        self._client = ProducerClient(addresses(bootstrap), ProducerOptions(**options), os.urandom)
        self._waiting: dict[int, asyncio.Future[Delivery]] = {}
        self._loop = asyncio.get_running_loop()
        self._sockets = LoopSockets(self._client, self._take_deliveries, self._refused)

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> Delivery:
        """The record's place; ApiError if it was not acknowledged."""
        ticket, effects = self._client.send(topic, value, now(), key=key, headers=headers, partition=partition)
        future = self._waiting[ticket] = self._loop.create_future()
        try:
            self._sockets.advance(effects)
            self._sockets.advance(self._client.flush(now()))
            delivery: Delivery = await future
        finally:
            self._waiting.pop(ticket, None)
        if not delivery.is_acknowledged:
            raise ApiError(delivery.error, delivery.message)
        return delivery

    def close(self) -> None:
        self._sockets.carry_out(self._client.close(now()))
        self._sockets.close()

    def _take_deliveries(self) -> None:
        for delivery in self._client.take_deliveries():
            future = self._waiting.get(delivery.ticket)
            if future is not None and not future.done():
                future.set_result(delivery)

    def _refused(self, error: Exception) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)


class BridgedAdmin(Admin):
    """A blocking admin for code on threads; its requests are those of an `AsyncAdmin` on the loop."""

    def __init__(self, admin: AsyncAdmin, loop: asyncio.AbstractEventLoop) -> None:
        self._admin = admin
        self._loop = loop
        self._tickets = count()
        self._asked: dict[int, Future[Any]] = {}

    def submit(
        self,
        request: Any,
        to: Target,
        *,
        timeout_ms: int | None = None,
        newest: int = 32767,
        retries: bool = True,
    ) -> int:
        ticket = next(self._tickets)
        answer = self._admin.ask(request, to, timeout_ms=timeout_ms, newest=newest, retries=retries)
        self._asked[ticket] = asyncio.run_coroutine_threadsafe(answer, self._loop)
        return ticket

    def result(self, ticket: int) -> Any:
        return self._asked.pop(ticket).result()

    def ask_all(
        self, requests: Iterable[tuple[Any, Target]], *, newest: int = 32767, timeout_ms: int | None = None
    ) -> list[Any]:
        tickets = [self.submit(request, to, newest=newest, timeout_ms=timeout_ms) for request, to in requests]
        return [self.result(ticket) for ticket in tickets]

    def feature(self, broker: int, name: str) -> int:
        return self._admin.feature(broker, name)

    def close(self) -> None:
        """The connections belong to the `AsyncAdmin`."""
