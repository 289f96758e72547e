"""TLS and SASL on a client's new connection, before anything else is said there. The clients of
Tidelog's commands and of Spark use them.

Names are those of Kafka's Java clients. Stores are PEM or PKCS#12, as for brokers. Mechanisms are PLAIN, OAUTHBEARER
and SCRAM, this one with a delegation token, too (`tokenauth="true"`).
"""

import os
import re
import socket
import ssl
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidelog.client.options import ClientOptions
from tidelog.errors import ApiError, ErrorCode, InvalidOption
from tidelog.security import jaas, oauthbearer, sasl, scram
from tidelog.shell.blocking_frames import exchange
from tidelog.shell.connections import tls
from tidelog.shell.tls_stream import TlsStream
from tidelog.wire.messages.security.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

if TYPE_CHECKING:
    from tidelog.shell.access_tokens import AccessTokens

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
HANDSHAKE, AUTHENTICATE = 17, 36
VERSIONS = {HANDSHAKE: 1, AUTHENTICATE: 2}

_OF_CERTIFICATE = re.compile("ALERT_(CERTIFICATE|BAD_CERTIFICATE|UNSUPPORTED_CERTIFICATE|UNKNOWN_CA)")
"""The alerts that are about the client's certificate, as OpenSSL names them."""


@dataclass(frozen=True)
class Security:
    """What every connection of a client begins with; `context` is None without TLS, `mechanism` is "" without SASL."""

    context: ssl.SSLContext | None
    mechanism: str
    user: str
    password: str = field(repr=False)
    client_id: str
    timeout_s: float
    by_token: bool = False
    """Whether the user is the id of a delegation token, and the password its HMAC."""
    tokens: "AccessTokens | None" = None
    """For OAUTHBEARER, in place of user and password."""

    def secure(self, sock: socket.socket, host: str) -> Any:
        """The connected socket, or a stream that replaces it, not blocking. Raises what `log_in` raises."""
        sock.settimeout(self.timeout_s)
        secured = self.log_in(sock, host)
        secured.setblocking(False)
        return secured

    def log_in(self, sock: socket.socket, host: str) -> socket.socket | TlsStream:
        """The connected socket, or a stream with TLS that replaces it. ApiError if the broker rejects the user,
        InvalidOption if its certificate is not trusted, OSError if the connection fails."""
        secured: socket.socket | TlsStream = sock
        if self.context is not None:
            secured = _wrapped(self.context, sock, host)
        try:
            if self.mechanism:
                self._authenticate(secured, host)
        except BaseException:
            secured.close()
            raise
        return secured

    def refusal(self, problem: Exception, host: str) -> InvalidOption | None:
        """Why the connection failed, if the broker refused this client's certificate, or that it has none. With TLS 1.3
        that is an alert after the handshake."""
        if not isinstance(problem, ssl.SSLError) or not _OF_CERTIFICATE.search(problem.reason or ""):
            return None
        why = problem.reason.partition("ALERT_")[2].replace("_", " ").lower()
        return InvalidOption(f"ssl.keystore.location: {host} does not accept the client's certificate: {why}")

    def _authenticate(self, sock: socket.socket | TlsStream, host: str) -> None:
        response = _call(sock, HANDSHAKE, SaslHandshakeRequest(mechanism=self.mechanism), self.client_id)
        if response.error_code:
            known = ", ".join(response.mechanisms)
            raise ApiError(
                ErrorCode(response.error_code), f"{host} supports {known}, not sasl.mechanism {self.mechanism}"
            )

        exchange = sasl.client_exchange(
            self.mechanism,
            self.user,
            self.password if self.tokens is None else self.tokens.token(),
            b64encode(os.urandom(scram.NONCE_BYTES)).decode(),
            by_token=self.by_token,
        )
        token = next(exchange)
        with suppress(StopIteration):
            while True:
                answer = _call(sock, AUTHENTICATE, SaslAuthenticateRequest(auth_bytes=token), self.client_id)
                if answer.error_code:
                    refused = f"user {self.user!r}" if self.tokens is None else "the access token"
                    raise ApiError(ErrorCode(answer.error_code), f"{host} refuses {refused}: {answer.error_message}")
                token = exchange.send(bytes(answer.auth_bytes))


def _wrapped(context: ssl.SSLContext, sock: socket.socket, host: str) -> TlsStream:
    stream = TlsStream(sock, context, host)
    try:
        stream.do_handshake()
    except ssl.SSLCertVerificationError as reason:
        raise InvalidOption(
            f"ssl.truststore.location: the certificate of {host} is not trusted: {reason.verify_message}"
        ) from None
    return stream


def security_of(options: ClientOptions) -> Security | None:
    """The security of these options; None for plain connections. InvalidOption for an unknown or missing value."""
    protocol = options.security_protocol.upper()
    if protocol not in PROTOCOLS:
        raise InvalidOption(f"security.protocol is one of {', '.join(PROTOCOLS)}, not {options.security_protocol!r}")
    if protocol == "PLAINTEXT":
        return None
    mechanism, login = _login(options) if protocol.startswith("SASL") else ("", {"username": "", "password": ""})
    timeout_s = options.socket_connection_setup_timeout_ms / 1000
    context = tls.client_context(options) if protocol.endswith("SSL") else None
    if mechanism == oauthbearer.MECHANISM:
        from tidelog.shell.access_tokens import AccessTokens

        return Security(context, mechanism, "", "", options.client_id, timeout_s, tokens=AccessTokens(options, login))
    by_token = login.get("tokenauth", "").lower() == "true"
    return Security(context, mechanism, login["username"], login["password"], options.client_id, timeout_s, by_token)


def _login(options: ClientOptions) -> tuple[str, Mapping[str, str]]:
    """The mechanism, and the options of its JAAS login."""
    mechanism = options.sasl_mechanism.upper()
    if mechanism not in sasl.SUPPORTED:
        raise InvalidOption(f"sasl.mechanism is one of {', '.join(sasl.SUPPORTED)}, not {options.sasl_mechanism!r}")
    if mechanism == oauthbearer.MECHANISM:
        return mechanism, jaas.parse(options.sasl_jaas_config).options if options.sasl_jaas_config else {}
    if not options.sasl_jaas_config:
        raise InvalidOption('sasl.jaas.config is needed, with username="…" and password="…"')
    login = jaas.parse(options.sasl_jaas_config).options
    if not {"username", "password"} <= login.keys():
        raise InvalidOption('sasl.jaas.config needs username="…" and password="…"')
    return mechanism, login


def _call(sock: socket.socket | TlsStream, key: int, request: Any, client_id: str) -> Any:
    return exchange(sock, key, VERSIONS[key], request, client_id)
