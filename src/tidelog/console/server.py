"""The console's web server: the page's files, the table of routes, and uvicorn."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib import resources
from typing import Any

import click
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route as WebRoute

from tidelog.cli.admin_requests import describe_error
from tidelog.console.answers import Events, File
from tidelog.console.console import Console, Query, Refused
from tidelog.console.routes import ROUTES, Route
from tidelog.console.safety import API, Gate, Rules
from tidelog.errors import RETRIABLE, ApiError, ErrorCode, InvalidOption

STOP_S = 2
BACKLOG = 128
TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
DENIED = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
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
    route = ROUTES.get(request.path_params["path"])
    try:
        _check_allowed(console, request, route)
        assert route is not None
        result = await route.handler(console, Query(await _values(request)))
    except Refused as refused:
        return _refusal(refused.status, refused.sentence)
    except (click.ClickException, InvalidOption) as error:
        return _refusal(HTTPStatus.CONFLICT, error.message if isinstance(error, click.ClickException) else str(error))
    except ApiError as error:
        return _refusal(_status(error.code), describe_error(error.code, error.message))
    if isinstance(result, Events):
        return StreamingResponse(result.content, media_type="text/event-stream")
    if isinstance(result, File):
        headers = {"content-disposition": f"attachment; filename={json.dumps(_plain(result.name))}"}
        return StreamingResponse(result.content, media_type=result.media_type, headers=headers)
    return JSONResponse(result)


def _status(code: ErrorCode) -> HTTPStatus:
    if code in DENIED:
        return HTTPStatus.FORBIDDEN
    return HTTPStatus.BAD_GATEWAY if code in RETRIABLE else HTTPStatus.CONFLICT


def _check_allowed(console: Console, request: Request, route: Route | None) -> None:
    if route is None:
        raise Refused(HTTPStatus.NOT_FOUND, "There is no such request.")
    if route.changes != (request.method == "POST") and route.changes:
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "A change must be sent with POST.")
    if route.changes and not console.allow_changes:
        raise Refused(HTTPStatus.FORBIDDEN, READ_ONLY)


async def _values(request: Request) -> Mapping[str, Any]:
    if request.method == "GET":
        return dict(request.query_params)
    try:
        found = await request.json()
    except ValueError:
        raise Refused(HTTPStatus.BAD_REQUEST, "The body is not JSON.") from None
    if not isinstance(found, dict):
        raise Refused(HTTPStatus.BAD_REQUEST, "The body must be an object.")
    return found


def _refusal(status: HTTPStatus, sentence: str) -> Response:
    return JSONResponse({"sentence": sentence}, status)


def _plain(name: str) -> str:
    """A file name of a header: letters that no browser or file system treats in a special way."""
    return "".join(each if each.isascii() and (each.isalnum() or each in "-_.") else "_" for each in name)[:200]


class Server(uvicorn.Server):
    """Tells `started` when it serves."""

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
