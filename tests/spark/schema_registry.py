"""A stub of a schema registry, as far as confluent-kafka's client and these tests use its API: it keeps what it is given, and
checks nothing. `TIDELOG_SCHEMA_REGISTRY` names a real one to be used instead."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class _Stub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        match self.path.partition("?")[0].split("/")[1:]:
            case ["schemas", "ids", number] if int(number) <= len(self.schemas):
                self._answer(200, self.schemas[int(number) - 1])
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                versions = self.subjects[subject]
                place = len(versions) if version == "latest" else int(version)
                number = versions[place - 1]
                self._answer(200, {"subject": subject, "version": place, "id": number, **self.schemas[number - 1]})
            case _:
                self._answer(404, {"error_code": 40403, "message": "not found"})

    def do_POST(self) -> None:
        schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kept = {name: schema[name] for name in ("schema", "schemaType", "references") if schema.get(name)}
        if kept not in self.schemas:
            self.schemas.append(kept)
        number = self.schemas.index(kept) + 1
        versions = self.subjects.setdefault(self.path.partition("?")[0].split("/")[2], [])
        if number not in versions:
            versions.append(number)
        self._answer(200, {"id": number})

    def _answer(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def running() -> Iterator[str]:
    """Its URL."""
    if real := os.environ.get("TIDELOG_SCHEMA_REGISTRY"):
        yield real
        return
    own = type("Stub", (_Stub,), {"schemas": [], "subjects": {}})
    with ThreadingHTTPServer(("127.0.0.1", 0), own) as server:
        server.daemon_threads, server.block_on_close = True, False
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
