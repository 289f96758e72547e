"""The console's web server: the page's files, the table of routes, and uvicorn."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib import resources
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route as WebRoute

from tidelog.console.answers import Events, File
from tidelog.console.console import Console, Query, Refused
from tidelog.console.refusals import refused
from tidelog.console.routes import ROUTES, Route
from tidelog.console.safety import API, Gate, Rules

STOP_S = 2
BACKLOG = 128
TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
READ_ONLY = "This console is read-only: start it with --allow-changes."


def static_files() -> dict[str, bytes]:
    """The files of the page, and of the lab's page for stories, by path."""
    found: dict[str, bytes] = {}
    for name, folder in (("", "tidelog.console.static"), ("lab/", "tidelog.lab.page")):
        for each in resources.files(folder).iterdir():
            if each.name.rpartition(".")[2] in TYPES:
                found[f"/{name}{each.name}"] = each.read_bytes()
    found["/"] = found["/index.html"]
    return found


def application(console: Console, rules: Rules) -> Gate:
    """The whole ASGI application; `console` must be entered already."""
    files = static_files()

    async def serve_file(request: Request) -> Response:
        content = files.get(request.url.path)
        if content is None:
            return PlainTextResponse("There is no such page.", HTTPStatus.NOT_FOUND)
        kind = TYPES[request.url.path.rpartition(".")[2] if request.url.path != "/" else "html"]
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    async def serve_api(request: Request) -> Response:
        return await _answer(console, request)

    routes = [
        WebRoute(f"{API}{{path:path}}", serve_api, methods=["GET", "POST"]),
        WebRoute("/{path:path}", serve_file, methods=["GET"]),
    ]
    return Gate(Starlette(routes=routes), rules)


async def _answer(console: Console, request: Request) -> Response:
    """One request of the page: its route, and its refusals as JSON with a sentence."""
    try:
        route = _allowed_route(console, request)
        result = await route.handler(console, Query(await _values(request, route.most_bytes)))
    except Exception as error:  # noqa: BLE001 (the page shows it)
        found = refused(error)
        return JSONResponse({"sentence": found.sentence}, found.status)
    if isinstance(result, Events):
        return StreamingResponse(result.content, media_type="text/event-stream")
    if isinstance(result, File):
        headers = {"content-disposition": f"attachment; filename={json.dumps(_plain(result.name))}"}
        return StreamingResponse(result.content, media_type=result.media_type, headers=headers)
    return JSONResponse(result)


def _allowed_route(console: Console, request: Request) -> Route:
    route = ROUTES.get(request.path_params["path"])
    if route is None:
        raise Refused(HTTPStatus.NOT_FOUND, "There is no such request.")
    if route.changes and request.method != "POST":
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "A change must be sent with POST.")
    if route.changes and not console.allow_changes:
        raise Refused(HTTPStatus.FORBIDDEN, READ_ONLY)
    return route


async def _values(request: Request, most_bytes: int) -> Mapping[str, Any]:
    if request.method == "GET":
        return dict(request.query_params)
    try:
        body = await request.body()
    except ClientDisconnect:
        raise Refused(HTTPStatus.BAD_REQUEST, "The body is not whole.") from None
    if len(body) > most_bytes:
        raise Refused(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body has {len(body)} bytes; the limit is {most_bytes}."
        )
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise Refused(HTTPStatus.BAD_REQUEST, "The body is not JSON.") from None
    if not isinstance(found, dict):
        raise Refused(HTTPStatus.BAD_REQUEST, "The body must be an object.")
    return found


def _plain(name: str) -> str:
    """A file name of a header: letters that no browser or file system treats in a special way."""
    return "".join(each if each.isascii() and (each.isalnum() or each in "-_.") else "_" for each in name)[:200]


class Server(uvicorn.Server):
    """Calls `started` once it serves."""

    def __init__(self, config: uvicorn.Config, started: Any) -> None:
        super().__init__(config)
        self._started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._started()


async def serve(
    console: Console,
    rules: Rules,
    listening: socket.socket,
    started: Any,
    *,
    certificate: str | None = None,
    key: str | None = None,
) -> None:
    """Serve until the process is asked to stop; `started` is called once requests are answered."""
    async with console:
        config = uvicorn.Config(
            application(console, rules),
            log_level="error",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="off",
            backlog=BACKLOG,
            timeout_graceful_shutdown=STOP_S,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
        await Server(config, started).serve([listening])


@asynccontextmanager
async def background(console: Console, rules: Rules) -> AsyncIterator[Gate]:
    """The application on this loop without a socket."""
    async with console:
        yield application(console, rules)


def run(*arguments: Any, **keywords: Any) -> None:
    asyncio.run(serve(*arguments, **keywords))
