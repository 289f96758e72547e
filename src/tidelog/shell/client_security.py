"""TLS and SASL on a client's new connection, before any other request. Tidelog's brokers do not support them; its
clients, and so Spark, need them to reach secured Kafka clusters.

Names are those of Kafka's Java clients. Certificates and keys are PEM; mechanisms are PLAIN and SCRAM.
"""

import hashlib
import hmac
import os
import re
import socket
import ssl
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.client.options import ClientOptions
from tidelog.errors import ApiError, ErrorCode, InvalidOption
from tidelog.wire.codec import decode_response, encode_request
from tidelog.wire.messages.security.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
HANDSHAKE, AUTHENTICATE = 17, 36
VERSIONS = {HANDSHAKE: 1, AUTHENTICATE: 2}
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = ("PLAIN", *HASHES)

Exchange = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Security:
    """What every connection of a client begins with; `context` is None without TLS, `mechanism` is "" without SASL."""

    context: ssl.SSLContext | None
    mechanism: str
    user: str
    password: str
    client_id: str
    timeout_s: float

    def secure(self, sock: socket.socket, host: str) -> Any:
        """The connected socket, or a stream that replaces it. ApiError if the broker rejects the user, InvalidOption if
        its certificate is not trusted, OSError if the connection fails."""
        sock.settimeout(self.timeout_s)
        secured: Any = sock
        if self.context is not None:
            try:
                secured = self.context.wrap_socket(sock, server_hostname=host)
            except ssl.SSLCertVerificationError as reason:
                raise InvalidOption(
                    f"ssl.truststore.location: the certificate of {host} is not trusted: {reason.verify_message}"
                ) from None
        try:
            if self.mechanism:
                self._authenticate(secured, host)
        except BaseException:
            secured.close()
            raise
        secured.setblocking(False)
        return Stream(secured) if self.context is not None else sock

    def _authenticate(self, sock: socket.socket, host: str) -> None:
        response = _call(sock, HANDSHAKE, SaslHandshakeRequest(mechanism=self.mechanism), self.client_id)
        if response.error_code:
            known = ", ".join(response.mechanisms)
            raise ApiError(ErrorCode(response.error_code), f"{host} knows {known}, not sasl.mechanism {self.mechanism}")

        def exchange(token: bytes) -> bytes:
            answer = _call(sock, AUTHENTICATE, SaslAuthenticateRequest(auth_bytes=token), self.client_id)
            if answer.error_code:
                raise ApiError(
                    ErrorCode(answer.error_code), f"{host} refuses user {self.user!r}: {answer.error_message}"
                )
            return bytes(answer.auth_bytes)

        if self.mechanism == "PLAIN":
            exchange(f"\0{self.user}\0{self.password}".encode())
        else:
            scram(exchange, HASHES[self.mechanism], self.user, self.password, b64encode(os.urandom(18)).decode())


class Stream:
    """A TLS connection with the methods of a non-blocking socket."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._sock = sock
        self.fileno = sock.fileno
        self.close = sock.close
        self.pending = sock.pending

    def sendmsg(self, parts: Sequence[memoryview]) -> int:
        try:
            return self._sock.send(parts[0])
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def recv_into(self, buffer: memoryview) -> int:
        try:
            return self._sock.recv_into(buffer)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None


def security_of(options: ClientOptions) -> Security | None:
    """The security of these options; None for plain connections. InvalidOption for an unknown or missing value."""
    protocol = options.security_protocol.upper()
    if protocol not in PROTOCOLS:
        raise InvalidOption(f"security.protocol is one of {', '.join(PROTOCOLS)}, not {options.security_protocol!r}")
    if protocol == "PLAINTEXT":
        return None
    mechanism, user, password = _credentials(options) if protocol.startswith("SASL") else ("", "", "")
    timeout_s = options.socket_connection_setup_timeout_ms / 1000
    context = _context(options) if protocol.endswith("SSL") else None
    return Security(context, mechanism, user, password, options.client_id, timeout_s)


def _credentials(options: ClientOptions) -> tuple[str, str, str]:
    mechanism = options.sasl_mechanism.upper()
    if mechanism not in MECHANISMS:
        raise InvalidOption(f"sasl.mechanism is one of {', '.join(MECHANISMS)}, not {options.sasl_mechanism!r}")
    found = dict(re.findall(r"""\b(username|password)\s*=\s*["']([^"']*)["']""", options.sasl_jaas_config))
    if found.keys() != {"username", "password"}:
        raise InvalidOption('sasl.jaas.config is needed, with username="…" and password="…"')
    return mechanism, found["username"], found["password"]


def _context(options: ClientOptions) -> ssl.SSLContext:
    for name in ("truststore", "keystore"):
        kind, location = (getattr(options, f"ssl_{name}_{what}") for what in ("type", "location"))
        if location and kind.upper() != "PEM":
            raise InvalidOption(f"ssl.{name}.type is PEM, not {kind!r}: this client reads no Java key stores")
    trusted = options.ssl_truststore_certificates or None
    try:
        context = ssl.create_default_context(cafile=options.ssl_truststore_location or None, cadata=trusted)
        if options.ssl_keystore_location:
            context.load_cert_chain(options.ssl_keystore_location, password=options.ssl_key_password or None)
    except OSError as reason:
        raise InvalidOption(
            f"ssl.truststore.location or ssl.keystore.location cannot be read as PEM: {reason}"
        ) from None
    context.check_hostname = options.ssl_endpoint_identification_algorithm.lower() == "https"
    return context


def scram(exchange: Exchange, digest: str, user: str, password: str, nonce: str) -> None:
    """SCRAM (RFC 5802), the client side; ApiError if the server cannot prove that it knows the password."""
    first = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    challenge = exchange(f"n,,{first}".encode()).decode()
    fields = _fields(challenge)
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), b64decode(fields["s"]), int(fields["i"]))
    without_proof = f"c=biws,r={fields['r']}"
    everything = f"{first},{challenge},{without_proof}".encode()
    key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, key).digest(), everything, digest)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    last = _fields(exchange(f"{without_proof},p={b64encode(proof).decode()}".encode()).decode())
    wanted = hmac.digest(hmac.digest(salted, b"Server Key", digest), everything, digest)
    if not fields["r"].startswith(nonce) or not hmac.compare_digest(b64decode(last.get("v", "")), wanted):
        raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the broker does not prove that it knows the password")


def _fields(text: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in text.split(",")}


def _call(sock: socket.socket, key: int, request: Any, client_id: str) -> Any:
    parts = encode_request(key, VERSIONS[key], 0, client_id, request)
    sock.sendall(b"".join(bytes(part) for part in parts))  # type: ignore[arg-type]  # no files among them
    length = int.from_bytes(_read(sock, 4))
    return decode_response(key, VERSIONS[key], memoryview(_read(sock, length)))[1]


def _read(sock: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = sock.recv(count - len(found))
        if not part:
            raise ConnectionResetError("connection closed within a response")
        found += part
    return found
