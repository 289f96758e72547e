"""Requests to the console's application without a socket or a browser, and a console in this process."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple
from urllib.parse import urlencode

from tidelog.console.console import Console
from tidelog.console.safety import Rules
from tidelog.console.server import background

TOKEN = "the-token"
PATIENCE_S = 60


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


class Asking:
    """`await asking.get("topics", find="x")`; `headers` replace those that the page itself sends, None leaves one out."""

    def __init__(self, app, token=TOKEN):
        self._app = app
        self._own = {"host": "127.0.0.1:8080", "authorization": f"Bearer {token}"}

    async def get(self, path, headers=None, **values):
        return await self.ask("GET", f"/api/{path}", urlencode(values), headers)

    async def post(self, path, values, headers=None):
        given = {"content-type": "application/json", **(headers or {})}
        return await self.ask("POST", f"/api/{path}", "", given, json.dumps(values).encode())

    async def ask(self, method, path, query="", headers=None, body=b""):
        """The whole answer; of one that does not end, what came before `until`."""
        return await self.events(method, path, query, headers, body, enough=lambda _: False)

    async def events(self, method, path, query="", headers=None, body=b"", *, enough):
        """As `ask`, until `enough(body)`: then the page goes away."""
        wanted = {name: value for name, value in {**self._own, **(headers or {})}.items() if value is not None}
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in wanted.items()],
            "http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", 8080), "client": ("127.0.0.1", 1),
            "root_path": "",
        }  # fmt: skip
        pending, gone, started, parts = [body], asyncio.Event(), {}, []

        async def receive():
            if pending:
                return {"type": "http.request", "body": pending.pop(), "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            if message["type"] == "http.response.start":
                started.update(message)
            else:
                parts.append(message.get("body", b""))
                if enough(b"".join(parts)):
                    gone.set()

        with suppress(asyncio.CancelledError):
            await asyncio.wait_for(self._app(scope, receive, send), PATIENCE_S)
        headers = {name.decode(): value.decode() for name, value in started["headers"]}
        return Answer(started["status"], headers, b"".join(parts))


@asynccontextmanager
async def console(bootstrap, *, allow_changes=False, options=None, command_config=None):
    """A console that has had its first look at the cluster."""
    served = Console(bootstrap, options, allow_changes=allow_changes, command_config=command_config)
    async with background(served, Rules(TOKEN, frozenset({"localhost"}))) as app:
        assert await served.observer.ready(PATIENCE_S)
        yield Asking(app)


async def until(ask, wanted, what):
    """The first answer that is as wanted."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        answer = await ask()
        if wanted(answer):
            return answer
        assert asyncio.get_running_loop().time() < deadline, f"not in time: {what}; last: {answer}"
        await asyncio.sleep(0.02)
