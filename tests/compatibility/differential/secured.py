"""A real Kafka that wants TLS, SASL or both."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.compatibility.differential import brokers
from tests.ports import free_ports
from tests.security.tokens import AUDIENCE, ISSUER, Provider

PROVIDER = Provider()
JAAS = 'org.apache.kafka.common.security.{}.{}LoginModule required username="{}" password="{}";'
CLIENT = JAAS.format("plain", "Plain", "alice", "wonder land")
SCRAM = JAAS.format("scram", "Scram", "bob", "builder")
"""The two who may: with mechanism PLAIN, and with SCRAM-SHA-512."""


@contextmanager
def kafka(folder: Path, libs: str, *, tool: Callable[..., str] | None = None) -> Iterator[tuple[dict[str, int], Path]]:
    """Its ports by protocol while it runs, and the certificate that a client is to trust."""
    key, certificate, both = folder / "key.pem", folder / "certificate.pem", folder / "both.pem"
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, *names]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    both.write_text(key.read_text() + certificate.read_text())
    ports = dict(zip(("SSL", "SASL_PLAINTEXT", "SASL_SSL"), free_ports(3), strict=True))
    scram_user = ["--add-scram", "SCRAM-SHA-512=[name=bob,password=builder]"]
    keys = folder / "jwks.json"
    keys.write_text(PROVIDER.jwks)
    options = {**_options(both, ports), **_oauth_options(f"file://{keys}")}
    flags = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{keys}"]
    with brokers.kafka(
        folder / "data", libs, listeners=ports, options=options, formatting=scram_user, flags=flags, tool=tool
    ) as plain:
        yield {**ports, "PLAINTEXT": plain}, certificate


def _options(keystore: Path, ports: dict[str, int]) -> dict[str, str]:
    plain = JAAS.format("plain", "Plain", "server", "s").replace(";", ' user_alice="wonder land";')
    options = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "delegation.token.secret.key": "the secret",
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
        + ",".join(f"{name}:{name}" for name in ports),
    }
    for protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        at = f"listener.name.{protocol.lower()}"
        options[f"{at}.plain.sasl.jaas.config"] = plain
        options[f"{at}.scram-sha-512.sasl.jaas.config"] = JAAS.format("scram", "Scram", "server", "s")
    return options


def _oauth_options(url: str) -> dict[str, str]:
    """Of the listener without TLS: who has a token of `PROVIDER` may."""
    at, package = "listener.name.sasl_plaintext.oauthbearer.", "org.apache.kafka.common.security.oauthbearer"
    return {
        f"{at}sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
        f"{at}sasl.server.callback.handler.class": f"{package}.OAuthBearerValidatorCallbackHandler",
        f"{at}sasl.oauthbearer.jwks.endpoint.url": url,
        f"{at}sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{at}sasl.oauthbearer.expected.issuer": ISSUER,
    }
