"""What `tidelog up --secure` creates: made once, private, and made anew only where it no longer serves."""

import socket
import ssl

import pytest
from cryptography import x509

from tidelog.config import listeners
from tidelog.config.broker import BrokerConfig
from tidelog.errors import InvalidOption
from tidelog.shell import certificates
from tidelog.shell.child import Child
from tidelog.shell.connections.tls_listeners import TlsListeners
from tidelog.shell.event_logger import EventLogger
from tidelog.shell.secure_folder import SecureFolder
from tidelog.shell.supervisor import secure_child


@pytest.fixture
def folder(tmp_path):
    made = SecureFolder(tmp_path)
    made.prepare([])
    return made


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.folder.iterdir()}


def test_only_the_authoritys_certificate_is_for_everyone(folder):
    modes = {file.name: file.stat().st_mode & 0o777 for file in folder.folder.iterdir()}
    private = ("ca.key", "broker.pem", "client.properties", "token.key")
    assert modes == {"ca.pem": 0o644, **dict.fromkeys(private, 0o600)}


def test_a_second_start_reuses_everything(folder):
    before = contents(folder)
    folder.prepare(["127.0.0.1", socket.gethostname()])
    assert contents(folder) == before
    assert SecureFolder(folder.folder.parent).token_options() == folder.token_options()


def test_each_cluster_has_its_own_secret_of_tokens_and_an_operator_may_give_another(folder, tmp_path_factory):
    ((name, secret),) = folder.token_options().items()
    assert folder.folder.joinpath("token.key").read_text() == f"{secret}\n"
    assert len(secret) >= 32
    assert secret not in repr(folder)
    assert SecureFolder(tmp_path_factory.mktemp("other")).token_options() != folder.token_options()
    folder.check({name: "another"})
    child = Child(0, folder.folder, "127.0.0.1", 0, {name: "another"})
    secure_child(child, folder)
    assert child.properties()[name] == "another"
    child = Child(0, folder.folder, "127.0.0.1", 0, {})
    secure_child(child, folder)
    assert child.properties()[name] == secret


@pytest.mark.parametrize("left", [(), ("ca.key",), ("ca.key", "ca.pem"), ("ca.key", "ca.pem", "broker.pem")])
def test_a_start_after_a_crash_makes_what_is_missing(folder, left):
    for name in contents(folder).keys() - set(left):
        (folder.folder / name).unlink()
    (folder.folder / "broker.pem.partial").write_bytes(b"half")
    before = contents(folder)
    folder.prepare([])
    after = contents(folder)
    assert all(after[name] == before[name] for name in left if name != "ca.key" or "ca.pem" in left)
    assert_works(folder)


def assert_works(folder, host="127.0.0.1"):
    """A client that trusts the authority verifies the brokers, and brokers verify each other."""
    config = BrokerConfig({"listeners": "SASL_SSL://127.0.0.1:0", "node.id": "0", **folder.options()})
    between = listeners.inter_broker_listener(config)
    served = TlsListeners(config, EventLogger(""))
    server, client = served.server(between).context, served.client(between)
    assert server.verify_mode == ssl.CERT_REQUIRED
    assert served.server("SASL_SSL").context.verify_mode == ssl.CERT_NONE
    incoming, outgoing = (ssl.MemoryBIO(), ssl.MemoryBIO()), (ssl.MemoryBIO(), ssl.MemoryBIO())
    one = server.wrap_bio(incoming[0], incoming[1], server_side=True)
    other = client.wrap_bio(outgoing[0], outgoing[1], server_hostname=host)
    for side, into, out in [(other, outgoing, incoming), (one, incoming, outgoing)] * 3:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            pass
        finally:
            out[0].write(into[1].read())
    assert one.getpeercert(binary_form=True) is not None
    assert folder.client_security().context is not None


def test_a_new_host_gets_a_new_certificate_of_the_same_authority(folder):
    before = contents(folder)
    folder.prepare(["broker.example.org", "10.1.2.3"])
    after = contents(folder)
    assert {name for name in before if before[name] != after[name]} == {"broker.pem"}
    assert_works(folder, "broker.example.org")
    assert_works(folder, "10.1.2.3")
    assert_works(folder, "localhost")
    assert_works(folder, "::1")


def test_a_certificate_that_is_about_to_expire_is_replaced(folder, monkeypatch):
    before = contents(folder)
    monkeypatch.setattr(certificates, "RENEWED_BEFORE", certificates.VALID_FOR)
    folder.prepare([])
    assert contents(folder)["broker.pem"] != before["broker.pem"]


def test_the_authoritys_key_is_needed_only_for_a_new_certificate(folder):
    (folder.folder / "ca.key").unlink()
    folder.prepare([])
    with pytest.raises(InvalidOption, match=r"ca\.key is missing: it must sign .* for .*elsewhere"):
        folder.prepare(["elsewhere"])


def test_a_brokers_certificate_is_no_authority(folder):
    chain = x509.load_pem_x509_certificates((folder.folder / "broker.pem").read_bytes())
    limits = [each.extensions.get_extension_for_class(x509.BasicConstraints).value for each in chain]
    assert [(each.ca, each.path_length) for each in limits] == [(False, None), (True, 0)]


def test_options_name_files_and_hold_no_secret(folder):
    assert folder.password not in repr(folder.options())
    assert "PRIVATE" not in repr(folder.options())
    assert folder.password not in repr(folder.client_security())


@pytest.mark.parametrize(
    "name",
    ["listeners", "super.users", "authorizer.class.name", "listener.name.REPLICATION.ssl.client.auth",
     "security.inter.broker.protocol", "allow.everyone.if.no.acl.found"],
)  # fmt: skip
def test_an_override_cannot_open_it(folder, name):
    with pytest.raises(InvalidOption, match=r"is set by --secure"):
        folder.check({name: "x"})
    folder.check({"num.partitions": "3", "advertised.listeners": "SASL_SSL://broker.example.org:9092"})
