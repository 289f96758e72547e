"""An HTTPS server on a free port with a certificate of its own authority, for token providers."""

import ssl
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import trustme


class Served:
    """`answers` is (status, body, headers) by path; `requests` is what came: (method, path, headers, body)."""

    def __init__(self, port, authority, answers):
        self.base = f"https://127.0.0.1:{port}"
        self.authority = authority
        self.answers = answers
        self.requests = []


@contextmanager
def serving(folder):
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusted = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(trusted))

    class Handler(BaseHTTPRequestHandler):
        def handle(self):
            with suppress(OSError):  # a client that does not trust the certificate goes away
                super().handle()

        def _answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            served.requests.append((self.command, self.path, dict(self.headers), body))
            status, content, *headers = served.answers.get(self.path, (404, b""))
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _answer  # noqa: N815

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    served = Served(server.server_port, trusted, {})
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
