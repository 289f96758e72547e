"""One console: its cluster, its clients, and what its routes share."""

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, ParamSpec, Self, TypeVar

from tidelog.client import properties
from tidelog.client.options import AdminOptions, ProducerOptions
from tidelog.console.group_watch import GroupWatch
from tidelog.console.observer import Observer
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.shell.async_clients import AsyncAdmin, AsyncProducer, BridgedAdmin

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 32
"""They only wait for the cluster. One page may wait on three, until `ANSWER_MS`."""
ANSWER_MS = "15000"
MOST_STREAMS = 64
MOST_READERS = 8
READER_WAIT_S = 10.0
MAX_RECORD_BYTES = 16 * 1024 * 1024
CLIENT_ID = "tidelog-console"


class Refused(Exception):
    """A request cannot be served: the status, and a sentence for the person."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


MOST_OFFSET = 2**63 - 1
MOST_NUMBER = 2**31 - 1
"""Of a partition or a broker."""


def whole_number(name: str, value: Any, least: int, most: int) -> int:
    """A number of a request; Refused if it is none between these."""
    try:
        found = int(value) if not isinstance(value, bool | float | None) else None
    except (TypeError, ValueError):
        found = None
    if found is None or not least <= found <= most:
        raise Refused(HTTPStatus.BAD_REQUEST, f"{name}: {value!r:.100} is not a number from {least} to {most}.")
    return found


def partition_in(row: Mapping[str, Any]) -> TopicPartition:
    """The partition that a row of a plan names; KeyError or TypeError if it is no such row."""
    return TopicPartition(str(row["topic"]), whole_number("partition", row["partition"], 0, MOST_NUMBER))


class Query:
    """The parameters of a request, by name, each checked where it is read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def text(self, name: str, default: str | None = None) -> str:
        value = self._values.get(name, default)
        if not isinstance(value, str):
            raise Refused(HTTPStatus.BAD_REQUEST, f"{name}: expected a text.")
        return value

    def number(
        self, name: str, default: int | None = None, *, least: int = -MOST_OFFSET - 1, most: int = MOST_OFFSET
    ) -> int:
        return whole_number(name, self._values.get(name, default), least, most)

    def flag(self, name: str) -> bool:
        return self._values.get(name) in (True, "true", "1")

    def optional(self, name: str) -> Any:
        return self._values.get(name)

    def has(self, name: str) -> bool:
        return self._values.get(name) not in (None, "")

    def mapping(self, name: str) -> Mapping[str, Any]:
        return self._of_type(name, dict)

    def sequence(self, name: str) -> list[Any]:
        return self._of_type(name, list)

    def _of_type(self, name: str, kind: type[T]) -> T:
        value = self._values.get(name)
        if not isinstance(value, kind):
            raise Refused(HTTPStatus.BAD_REQUEST, f"{name}: expected {'an object' if kind is dict else 'a list'}.")
        return value


class Console:
    """`async with Console(…) as console`, on the loop that serves. `options` are those of every client, by their Kafka
    names; `command_config` names the file that they come from, for commands that the page suggests."""

    def __init__(
        self,
        bootstrap: str,
        options: Mapping[str, str] | None = None,
        *,
        allow_changes: bool = False,
        command_config: str | None = None,
    ) -> None:
        self.bootstrap = bootstrap
        self.allow_changes = allow_changes
        self.command_config = command_config
        self._options = {"client.id": CLIENT_ID, "default.api.timeout.ms": ANSWER_MS, **(options or {})}
        self._stack = AsyncExitStack()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="console")
        self._readers = asyncio.Semaphore(MOST_READERS)
        self.streams = 0
        self._producer: AsyncProducer | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self.admin = self._new_admin()
        self.observer = Observer(self._new_admin(), self._new_admin())
        self._stack.callback(self.observer.close)
        self.groups = GroupWatch(self.observer)
        self.bridged = BridgedAdmin(self.admin, self._loop)
        for watch in (self.observer.run(), self.groups.run()):
            task = asyncio.create_task(watch)
            task.add_done_callback(_report_crash)
            self._stack.push_async_callback(_cancelled, task)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        self.admin.close()
        if self._producer is not None:
            self._producer.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _new_admin(self) -> AsyncAdmin:
        return AsyncAdmin(self.bootstrap, **properties.keywords(AdminOptions, self._options))

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[AsyncAdmin]:
        """A client of its own for a request that reads much, so that it delays no other; there are few at a time."""
        try:
            await asyncio.wait_for(self._readers.acquire(), READER_WAIT_S)
        except TimeoutError:
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "Too many searches, tails and exports at a time.") from None
        admin = self._new_admin()
        try:
            yield admin
        finally:
            admin.close()
            self._readers.release()

    @property
    def producer(self) -> AsyncProducer:
        if self._producer is None:
            options = {**self._options, "max.request.size": str(MAX_RECORD_BYTES), "delivery.timeout.ms": "31000"}
            self._producer = AsyncProducer(self.bootstrap, **properties.keywords(ProducerOptions, options))
        return self._producer

    async def blocking(self, call: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
        """The result of a call that waits for the cluster by blocking its thread."""
        return await self._loop.run_in_executor(self._threads, partial(call, *arguments, **keywords))

    def topic(self, name: str) -> Any:
        """The topic as last seen; Refused if there is none."""
        topology = self.observer.topology
        if topology is None:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, self.observer.refusal or "No broker has answered yet.")
        found = topology.topics.get(name)
        if found is None:
            raise Refused(HTTPStatus.NOT_FOUND, f"Topic {name!r} does not exist.")
        return found


def _report_crash(task: "asyncio.Task[None]") -> None:
    """A watch never ends by itself; the console goes on without it, and says so."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        traceback.print_exception(error)


async def _cancelled(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def unsupported(error: ApiError) -> bool:
    return error.code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.SECURITY_DISABLED)
