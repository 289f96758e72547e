"""Clients on connections with TLS and SASL, to a real Kafka that wants them, and what they say where it goes wrong."""

import pytest

from tests.compatibility.differential.secured import CLIENT
from tidelog.client.options import ConsumerOptions, ProducerOptions, parse
from tidelog.errors import InvalidOption
from tidelog.shell.client_security import security_of


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
