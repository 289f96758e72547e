"""Key and trust stores of TLS: their formats, Kafka's rules for options, and what a new store must have in common with
the one that it replaces."""

import base64
import ssl
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

from tests.shell.authority import Authority, Recorder, as_text, config, server_context, shaken, underscored
from tidelog.client.options import ClientOptions
from tidelog.config.alter import check_broker
from tidelog.errors import ApiError, ErrorCode, InvalidOption
from tidelog.model import INTER_BROKER_LISTENER
from tidelog.shell.connections import tls
from tidelog.shell.connections.key_stores import MOST_ROUNDS
from tidelog.shell.connections.tls_listeners import TlsListeners

JKS = Path(__file__).parent / "stores"
"""Made by keytool with `-storetype JKS`: a key with a password of its own, and its certificate as a trust store."""
KEYS = {
    "ssl_keystore_location": str(JKS / "keys.jks"),
    "ssl_keystore_password": "storepass",
    "ssl_key_password": "key-pass",
}
TRUST = {"ssl_truststore_location": str(JKS / "trust.jks"), "ssl_truststore_password": "trustpass"}
SSL = "listener.name.ssl.ssl."


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("stores"))


def test_keytools_jks_stores_are_read():
    server = server_context(**KEYS, **TRUST, ssl_client_auth="required")
    client, _ = shaken(server, tls.client_context(ClientOptions(**KEYS, **TRUST)))
    assert ("commonName", "broker") in [name for (name,) in client.getpeercert()["subject"]]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"ssl_keystore_password": "wrong"},
            "ssl.keystore.location: .*keys.jks: not a JKS store, or the wrong password",
        ),
        ({"ssl_key_password": "wrong"}, "ssl.key.password is wrong"),
        (
            {"ssl_keystore_location": TRUST["ssl_truststore_location"], "ssl_keystore_password": "trustpass"},
            "no private key",
        ),
    ],
)
def test_a_jks_store_that_cannot_be_used_is_named(options, sentence):
    with pytest.raises(InvalidOption, match=sentence) as refused:
        server_context(**{**KEYS, **options})
    assert "key-pass" not in str(refused.value)


@pytest.mark.parametrize("cut", [5, 12, 40, 200, 590, 613])
def test_a_jks_store_that_ends_early_is_not_read(tmp_path, cut):
    short = tmp_path / "short.jks"
    short.write_bytes((JKS / "keys.jks").read_bytes()[:cut])
    with pytest.raises(InvalidOption, match="not a JKS store"):
        server_context(**{**KEYS, "ssl_keystore_location": str(short)})


def test_without_the_package_for_jks_the_command_that_converts_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jks", None)
    with pytest.raises(
        InvalidOption, match=r"pip install 'tidelog\[tls,jks\]'; or convert it: keytool -importkeystore"
    ):
        server_context(**KEYS)


def test_a_jceks_store_is_not_read(tmp_path):
    store = tmp_path / "store.jceks"
    store.write_bytes(bytes.fromhex("cececece00000002"))
    with pytest.raises(InvalidOption, match="convert it: keytool -importkeystore"):
        server_context(**{**KEYS, "ssl_keystore_location": str(store)})


def test_a_pkcs12_store_is_read_also_under_the_name_of_jks(authority, tmp_path):
    pem = authority.broker.read_bytes()
    chain = x509.load_pem_x509_certificates(pem)
    trusted = x509.load_pem_x509_certificate(authority.trusted.read_bytes())
    secret = BestAvailableEncryption(b"pass word")
    keys, trust = tmp_path / "keys.p12", tmp_path / "trust.p12"
    key = load_pem_private_key(pem, None)
    keys.write_bytes(pkcs12.serialize_key_and_certificates(b"broker", key, chain[0], chain[1:], secret))
    trust.write_bytes(pkcs12.serialize_key_and_certificates(b"ca", None, None, [trusted], secret))
    options = {
        "ssl_keystore_location": str(keys),
        "ssl_keystore_password": "pass word",
        "ssl_truststore_location": str(trust),
        "ssl_truststore_password": "pass word",
    }
    server = server_context(**options, ssl_client_auth="required")
    shaken(server, tls.client_context(ClientOptions(**options)))
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shaken(server, authority.context())
    with pytest.raises(InvalidOption, match="or the wrong password"):
        server_context(**{**options, "ssl_keystore_password": "wrong"})


def test_a_key_may_be_given_as_text_and_encrypted(authority):
    options = as_text(authority.broker.read_bytes(), b"secret")
    assert server_context(**options, ssl_key_password="secret")
    with pytest.raises(InvalidOption, match=r"the key is encrypted; ssl.key.password is missing"):
        server_context(**options)
    with pytest.raises(InvalidOption, match="or the wrong password"):
        server_context(**options, ssl_key_password="other")


def der(tag, *contents):
    content = b"".join(contents)
    length = bytes([len(content)]) if len(content) < 128 else b"\x82" + len(content).to_bytes(2)
    return bytes([tag]) + length + content


def encrypted_key(rounds):
    """A key in PBES2 with PBKDF2 whose author asks for this work."""
    number = rounds.to_bytes(rounds.bit_length() // 8 + 1)
    derivation = der(0x30, der(6, bytes.fromhex("2a864886f70d01050c")), der(0x30, der(4, b"8 bytes."), der(2, number)))
    cipher = der(0x30, der(6, bytes.fromhex("60864801650304012a")), der(4, bytes(16)))
    scheme = der(0x30, der(6, bytes.fromhex("2a864886f70d01050d")), der(0x30, derivation, cipher))
    body = base64.encodebytes(der(0x30, scheme, der(4, bytes(160)))).decode()
    return f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{body}-----END ENCRYPTED PRIVATE KEY-----\n"


def test_an_encrypted_key_may_not_ask_for_endless_work(authority):
    """OpenSSL would derive the key for minutes, on the event loop."""
    options = as_text(authority.broker.read_bytes(), b"secret")
    for rounds in (MOST_ROUNDS + 1, 2**31 - 1, 2**40):
        with pytest.raises(InvalidOption, match=f"encrypted with {rounds} rounds; at most {MOST_ROUNDS} are allowed"):
            server_context(**{**options, "ssl_keystore_key": encrypted_key(rounds)}, ssl_key_password="secret")
    with pytest.raises(InvalidOption, match="or the wrong password"):
        server_context(**{**options, "ssl_keystore_key": encrypted_key(2_048)}, ssl_key_password="secret")


def test_an_encrypted_key_without_definite_lengths_is_refused(authority):
    """OpenSSL reads them, and what looks for the rounds does not."""
    options = as_text(authority.broker.read_bytes(), b"secret")
    body = base64.encodebytes(b"\x30\x80" + bytes(40)).decode()
    key = f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{body}-----END ENCRYPTED PRIVATE KEY-----\n"
    with pytest.raises(InvalidOption, match="not DER in base64"):
        server_context(**{**options, "ssl_keystore_key": key}, ssl_key_password="secret")


PEM = {"ssl_keystore_type": "PEM"}
KEY = {"ssl_keystore_key": "x", "ssl_keystore_certificate_chain": "y"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (KEY, "SSL private key can be specified only for PEM, but key store type is JKS."),
        (PEM | {"ssl_keystore_key": "x"}, "SSL private key is specified, but certificate chain is not specified."),
        (
            PEM | KEY | {"ssl_keystore_location": "/x"},
            "Both SSL key store location and separate private key are specified.",
        ),
        (
            {"ssl_keystore_certificate_chain": "y"},
            "SSL certificate chain is specified, but private key is not specified.",
        ),
        (PEM | KEY | {"ssl_keystore_password": "z"}, "SSL key store password cannot be specified with PEM format"),
        ({"ssl_keystore_location": "/x"}, "SSL key store is specified, but key store password is not specified."),
        (PEM | KEY, "not a PEM private key"),
        (PEM | {"ssl_keystore_location": "/no"}, "cannot read /no"),
    ],
)
def test_options_that_exclude_each_other_are_refused_with_kafkas_sentences(options, sentence):
    with pytest.raises(InvalidOption, match=sentence):
        server_context(**options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"certificates": "x"}, "SSL trust store certs can be specified only for PEM, but trust store type is JKS."),
        (
            {"certificates": "x", "type": "PEM", "location": "/x"},
            "Both SSL trust store location and separate trust certificates are specified.",
        ),
        (
            {"type": "PEM", "location": "/x", "password": "y"},
            "SSL trust store password cannot be specified for PEM format.",
        ),
    ],
)
def test_options_of_trust_stores_that_exclude_each_other_are_refused(options, sentence):
    with pytest.raises(InvalidOption, match=sentence):
        tls.client_context(ClientOptions(**{f"ssl_truststore_{name}": text for name, text in options.items()}))


@pytest.mark.parametrize(
    ("name", "cluster", "sentence"),
    [
        ("listener.name.ssl.ssl.keystore.location", True, "can only be set for a single broker"),
        ("ssl.keystore.location", True, "requires a listener prefix"),
        ("ssl.truststore.certificates", False, "requires a listener prefix"),
    ],
)
def test_stores_are_changed_for_one_listener_of_one_broker(name, cluster, sentence):
    with pytest.raises(ApiError, match=sentence) as refused:
        check_broker({name: "/x"}, cluster=cluster)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ssl_enabled_protocols": "TLSv1"}, "TLSv1 is not supported; expected TLSv1.2, TLSv1.3"),
        ({"ssl_cipher_suites": "TLS_RSA_WITH_NOTHING"}, "OpenSSL has none of TLS_RSA_WITH_NOTHING"),
    ],
)
def test_what_openssl_does_not_have_is_refused(authority, options, sentence):
    with pytest.raises(InvalidOption, match=sentence):
        server_context(**underscored(authority, **options))


def listeners(authority, **more):
    recorder = Recorder()
    return TlsListeners(config(**underscored(authority, **more)), recorder), recorder


def test_a_store_that_cannot_be_read_is_a_problem_before_it_is_applied(authority, tmp_path):
    served, _ = listeners(authority)
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    assert "cannot read /no" in served.problem({f"{SSL}keystore.location": "/no"})
    assert "not a PEM private key" in served.problem({f"{SSL}keystore.location": str(broken)})
    assert served.problem({f"{SSL}keystore.location": str(authority.broker)}) is None
    jks = {f"{SSL}{option}": text for option, text in (("keystore.type", "JKS"), ("keystore.password", "wrong"))}
    assert "or the wrong password" in served.problem({f"{SSL}keystore.location": KEYS["ssl_keystore_location"], **jks})
    both = {
        f"{SSL}{name.removeprefix('ssl_').replace('_', '.')}": text
        for name, text in as_text(authority.broker.read_bytes()).items()
    }
    assert served.problem(both) == "Both SSL key store location and separate private key are specified."


def test_the_problem_of_one_listener_does_not_keep_another_from_changing(tmp_path):
    mine = Authority(tmp_path)
    served, _ = listeners(
        mine,
        listeners="SSL://127.0.0.1:0,OTHER://127.0.0.1:0",
        listener_security_protocol_map="SSL:SSL,OTHER:SSL",
        **{"listener.name.other.ssl.keystore.location": str(mine.store("other", "localhost"))},
    )
    (tmp_path / "other.pem").write_text("broken meanwhile")
    assert served.problem({f"{SSL}keystore.location": str(mine.broker)}) is None


@pytest.mark.parametrize(
    ("allowed", "identities", "name", "problem"),
    [
        ({}, ("127.0.0.1", "localhost"), "broker", None),
        ({}, ("127.0.0.1", "localhost", "more.example.org"), "broker", None),
        (
            {},
            ("127.0.0.1", "localhost"),
            "someone else",
            "Keystore DistinguishedName does not match: existing=CN=broker,",
        ),
        (
            {},
            ("localhost",),
            "broker",
            "Keystore SubjectAltNames do not match: the new certificate lacks IPAddress 127.0.0.1",
        ),
        ({"ssl_allow_dn_changes": "true"}, ("127.0.0.1", "localhost"), "someone else", None),
        ({"ssl_allow_san_changes": "true"}, ("localhost",), "broker", None),
        ({"listener.name.ssl.ssl.allow.san.changes": "true"}, ("localhost",), "broker", None),
        ({"ssl_allow_san_changes": "true"}, ("localhost",), "someone else", "Keystore DistinguishedName"),
    ],
)
def test_a_new_certificate_keeps_its_names_unless_the_brokers_file_allows_others(
    tmp_path, allowed, identities, name, problem
):
    mine = Authority(tmp_path)
    served, recorder = listeners(mine, **allowed)
    before = served.server("SSL").context
    options = {f"{SSL}keystore.location": str(mine.store("new", *identities, common_name=name))}
    found = served.problem(options)
    assert found is None if problem is None else problem in found
    served.change(options)
    assert recorder.kinds == ["tls.reloaded" if problem is None else "tls.not_reloaded"]
    assert (served.server("SSL").context is before) == (problem is not None)


def test_a_file_with_another_name_is_not_served(tmp_path):
    mine = Authority(tmp_path)
    served, recorder = listeners(mine)
    before = served.server("SSL").context
    mine.store("broker", "127.0.0.1", "localhost", common_name="someone else")
    served._looked_at = 0.0
    assert served.server("SSL").context is before
    assert "DistinguishedName" in recorder.reasons[0]


def test_brokers_of_one_cluster_trust_each_other_while_they_change(tmp_path):
    """A key of another authority comes after that authority is trusted, never before."""
    (tmp_path / "new").mkdir()
    mine, other = Authority(tmp_path), Authority(tmp_path / "new")
    both = tmp_path / "both.pem"
    both.write_bytes(mine.trusted.read_bytes() + other.trusted.read_bytes())
    served, recorder = listeners(mine)
    between = "listener.name.replication.ssl."
    key, trust = {f"{between}keystore.location": str(other.broker)}, {f"{between}truststore.location": str(both)}
    assert "do not trust each other" in served.problem(key)
    assert "do not trust each other" in served.problem({**key, f"{between}truststore.location": str(other.trusted)})
    served.change(trust)
    assert served.problem(trust | key) is None
    served.change(trust | key)
    assert recorder.kinds == ["tls.reloaded"] * 2


def test_a_broker_whose_own_stores_do_not_trust_each_other_does_not_start(tmp_path):
    (tmp_path / "new").mkdir()
    mine, other = Authority(tmp_path), Authority(tmp_path / "new")
    with pytest.raises(InvalidOption, match="do not trust each other"):
        listeners(mine, ssl_truststore_location=str(other.trusted))


def test_the_connections_to_other_brokers_use_a_new_store_too(tmp_path):
    mine = Authority(tmp_path)
    served, recorder = listeners(mine)
    before = served.client(INTER_BROKER_LISTENER)
    mine.store("broker", "127.0.0.1", "localhost", common_name="broker")
    served._looked_at = 0.0
    assert served.client(INTER_BROKER_LISTENER) is not before
    assert "tls.reloaded" in recorder.kinds


def test_expiries_are_those_of_the_chains_that_listeners_show(tmp_path):
    mine = Authority(tmp_path)
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    mine.store("soon", "localhost", not_after=soon)
    served, _ = listeners(mine, **{"listener.name.ssl.ssl.keystore.location": str(tmp_path / "soon.pem")})
    assert served.expiries()["SSL"] == soon.timestamp() * 1000
    assert served.expiries()["REPLICATION"] > soon.timestamp() * 1000
