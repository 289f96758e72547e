"""What TLS negotiates: versions, compression, renegotiation, and sessions that are resumed."""

import ssl
import subprocess
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from tests.shell.authority import Authority, connect, port_of, server_context, shaken, underscored
from tests.waiting import wait_for
from tidelog.shell.connections import tls
from tidelog.shell.connections.key_stores import UnusableCertificate
from tidelog.testing import Cluster

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
DEFAULT = tls.principals.parse("DEFAULT")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("sessions"))


@pytest.mark.parametrize("version", [1, 2], ids=["TLSv1", "TLSv1.1"])
def test_older_versions_are_refused(authority, version):
    old = authority.context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    hello, nothing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        old.wrap_bio(nothing, hello, server_hostname="localhost").do_handshake()
    said = bytearray(hello.read())
    assert said[9:11] == b"\3\3"
    said[9:11] = bytes([3, version])
    received, answer = ssl.MemoryBIO(), ssl.MemoryBIO()
    received.write(said)
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
        server_context(**underscored(authority)).wrap_bio(received, answer, server_side=True).do_handshake()
    assert answer.read()[-2:] == b"\2\x46", "the alert protocol_version"


def test_nothing_is_compressed(authority):
    server = server_context(**underscored(authority))
    assert server.options & ssl.OP_NO_COMPRESSION
    client, _ = shaken(server, authority.context())
    assert client.compression() is None


def test_a_renegotiation_is_refused_and_ends_the_connection(authority):
    with Cluster(brokers=1, options=authority.options()) as cluster:
        port = port_of(cluster.brokers[0])
        command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-tls1_2", "-CAfile", authority.trusted]
        ended = subprocess.run(command, input=b"R\n", capture_output=True, timeout=60, check=False)
        assert b"RENEGOTIATING" in ended.stdout + ended.stderr
        assert b"no renegotiation" in ended.stderr
        with connect(authority, port) as fine:
            assert fine.version() == "TLSv1.3"


def first_and_second(server, client, again=None):
    """Two handshakes, the second with the session of the first, at `again` if given."""
    first, answering = shaken(server, client)
    answering.write(b"x")  # tickets of TLS 1.3 come with the first bytes
    first.read(1)
    return (first, answering), shaken(again or server, client, session=first.session)


def mutual(authority, version):
    server = server_context(**underscored(authority, ssl_client_auth="required"))
    client = authority.context(authority.store("resumer", common_name="resumer"))
    client.maximum_version = version
    return server, client


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_is_resumed_and_keeps_its_principal(authority, version):
    (_, before), (client, after) = first_and_second(*mutual(authority, version))
    assert not before.session_reused
    assert client.session_reused
    assert after.session_reused
    names = [tls.principal_of(side, DEFAULT, time.time()) for side in (before, after)]
    assert names[0] == names[1]
    assert names[0].startswith("User:CN=resumer,")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_ticket_is_worth_nothing_at_another_listener_or_after_a_reload(authority, version):
    server, client = mutual(authority, version)
    reloaded, _ = mutual(authority, version)
    _, (second, _) = first_and_second(server, client, reloaded)
    assert not second.session_reused


def test_a_session_without_a_certificate_does_not_open_a_listener_that_needs_one(authority):
    open_to_all = server_context(**underscored(authority))
    needs_one = server_context(**underscored(authority, ssl_client_auth="required"))
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        first_and_second(open_to_all, authority.context(), needs_one)


def test_a_certificate_that_expired_since_its_session_began_names_nobody(authority):
    store = authority.store("brief", not_after=datetime.now(UTC) + timedelta(hours=1))
    certificate = ssl.PEM_cert_to_DER_cert(store.read_text()[store.read_text().index("-----BEGIN CERTIFICATE") :])
    resumed = SimpleNamespace(getpeercert=lambda binary_form: certificate)
    assert tls.principal_of(resumed, DEFAULT, time.time())
    with pytest.raises(UnusableCertificate, match="expired since"):
        tls.principal_of(resumed, DEFAULT, time.time() + 7200)


def test_a_brokers_listener_resumes_sessions_of_clients_with_certificates(authority):
    store = authority.store("returning", common_name="returning")
    with Cluster(brokers=1, options=authority.options(ssl_client_auth="required")) as cluster:
        broker = cluster.brokers[0]
        context = authority.context(store)
        with connect(authority, port_of(broker), context=context) as first:
            first.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff")
            assert first.recv(4)
            session = first.session
        with connect(authority, port_of(broker), context=context, session=session) as second:
            assert second.session_reused
            open_now = broker._hosted.node.dispatch._connections
            wait_for(lambda: any("CN=returning" in each.principal for each in list(open_now.values())), "its principal")
