"""Certificates for tests of TLS: an authority, its brokers' and clients' stores, and brokers' options with them."""

import socket
import ssl
from contextlib import suppress

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tidelog.config.broker import BrokerConfig
from tidelog.shell.connections import stores, tls
from tidelog.shell.event_logger import EventLogger

LISTENERS = "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"


class Authority:
    """A certificate authority with the broker's certificate in Kafka's PEM form, and clients' on demand."""

    def __init__(self, folder):
        self.folder = folder
        self.ca = trustme.CA()
        self.trusted = folder / "ca.pem"
        self.ca.cert_pem.write_to_path(str(self.trusted))
        self.broker = self.store("broker", "127.0.0.1", "localhost", common_name="broker")

    def store(self, name, *identities, common_name=None, **more):
        path = self.folder / f"{name}.pem"
        identities = identities or (f"{name}@example.org",)
        unit = "Testing cert"  # trustme would draw one, but a renewed certificate keeps its distinguished name
        made = self.ca.issue_cert(*identities, common_name=common_name, organization_unit_name=unit, **more)
        path.write_bytes(made.private_key_and_cert_chain_pem.bytes())
        return path

    def options(self, **more):
        return {
            "listeners": LISTENERS,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
            **{name.replace("_", "."): text for name, text in more.items()},
        }

    def client(self, port, store=None):
        options = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.trusted),
        }
        return options | ({"ssl.certificate.location": str(store), "ssl.key.location": str(store)} if store else {})

    def context(self, store=None):
        context = ssl.create_default_context(cafile=str(self.trusted))
        if store is not None:
            context.load_cert_chain(str(store))
        return context


def port_of(broker, listener="SSL"):
    return next(each.port for each in broker._hosted.endpoints if each.listener == listener)


def connect(authority, port, store=None, *, context=None, session=None):
    sock = socket.create_connection(("127.0.0.1", port), timeout=10)
    context = context or authority.context(store)
    return context.wrap_socket(sock, server_hostname="127.0.0.1", session=session)


def config(**options):
    return BrokerConfig({"node.id": "0", "log.dirs": "/d", **{k.replace("_", "."): v for k, v in options.items()}})


def underscored(authority, **more):
    return {name.replace(".", "_"): text for name, text in authority.options(**more).items()} | {
        "security_inter_broker_protocol": "SSL"
    }


def shaken(server, client, **more):
    """The client's and the server's side after a handshake in memory; ssl.SSLError where it fails."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost", **more),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(sides)
    while waiting:
        for side in list(waiting):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
                waiting.remove(side)
    return sides


def server_context(**options):
    own = config(**options)
    return tls.server_context(own, stores.key_of(own))


def as_text(pem, password=None):
    """The options of a key and its certificates as text."""
    secret = BestAvailableEncryption(password) if password else NoEncryption()
    key = load_pem_private_key(pem, None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret)
    chain = b"".join(each.public_bytes(Encoding.PEM) for each in x509.load_pem_x509_certificates(pem))
    return {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_key": key.decode(),
        "ssl_keystore_certificate_chain": chain.decode(),
    }


class Recorder(EventLogger):
    """Remembers the kinds of lines, and the reasons."""

    def __init__(self):
        super().__init__("")
        self.kinds = []
        self.reasons = []

    def write(self, level, kind, fields):
        self.kinds.append(kind)
        self.reasons.append(str(fields.get("reason", "")))
