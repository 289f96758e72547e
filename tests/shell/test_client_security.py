"""Clients on connections with TLS and SASL, to a real Kafka that wants them, and what they say where it goes wrong."""

import pytest
import trustme

from tests.compatibility.differential.secured import CLIENT
from tests.shell.authority import Authority, port_of
from tidelog.client.options import ConsumerOptions, ProducerOptions, parse
from tidelog.errors import InvalidOption
from tidelog.shell.client_security import security_of
from tidelog.shell.transport import Admin
from tidelog.testing import Cluster
from tidelog.wire.messages.topics.metadata import MetadataRequest


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"security.protocol": "TLS"}, "security.protocol is one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security.protocol": "SASL_SSL"}, "sasl.jaas.config is needed"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"},
            "sasl.mechanism is one of PLAIN, SCRAM-SHA-256",
        ),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/x.jks"}, "cannot read /x.jks"),
        (
            {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/no"},
            "ssl.truststore.location: cannot read /no",
        ),
    ],
)
def test_what_cannot_be_is_said_before_connecting(given, told):
    with pytest.raises(InvalidOption, match=told):
        security_of(parse(ConsumerOptions, given))


def test_secrets_are_not_printed():
    assert "wonder" not in repr(parse(ProducerOptions, {"sasl.jaas.config": CLIENT}))
    options = {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": CLIENT}
    assert "wonder" not in repr(security_of(parse(ProducerOptions, options)))
    assert security_of(ProducerOptions()) is None


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_client_is_told_that_its_certificate_is_not_accepted(tmp_path, version):
    """At once: with TLS 1.3 it is an alert after the handshake, which looked like a broker that does not answer."""
    authority, other = Authority(tmp_path), trustme.CA()
    foreign = tmp_path / "foreign.pem"
    foreign.write_bytes(other.issue_cert("dave@example.org").private_key_and_cert_chain_pem.bytes())
    usual = {
        "security_protocol": "SSL",
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": str(authority.trusted),
    }
    with Cluster(brokers=1, options=authority.options(ssl_client_auth="required")) as cluster:
        address = f"127.0.0.1:{port_of(cluster.brokers[0])}"
        usual["ssl_enabled_protocols"] = (version,)

        def asks(**more):
            with Admin(address, **usual, **more) as admin:
                return admin.ask(MetadataRequest()).brokers

        refused = [{"ssl_keystore_type": "PEM", "ssl_keystore_location": str(foreign)}]
        if version == "TLSv1.3":  # before, the alert for a missing one has many meanings
            refused.append({})
        for each in refused:
            with pytest.raises(InvalidOption, match=r"ssl.keystore.location: 127.0.0.1 does not accept the client's"):
                asks(**each)
        mine = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(authority.store("me"))}
        assert asks(**mine)
