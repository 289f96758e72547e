"""Clients on connections with TLS and SASL, to a real Kafka that wants them, and what they say where it goes wrong."""

from base64 import b64encode

import pytest

from tests.compatibility.differential.secured import CLIENT
from tidelog.client.options import ConsumerOptions, ProducerOptions, parse
from tidelog.errors import ApiError, InvalidOption
from tidelog.shell.client_security import scram, security_of


def exchange_of(script, said):
    """A server that answers in turn."""

    def exchange(text):
        said.append(text.decode())
        return script[len(said) - 1].encode()

    return exchange


def test_scram_is_that_of_rfc_7677():
    nonce, both = "rOprNGfwEbeRWgbNEkqO", "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    answers = [f"r={both},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="]
    said = []
    scram(exchange_of(answers, said), "sha256", "user", "pencil", nonce)
    assert said == ["n,,n=user,r=" + nonce, f"c=biws,r={both},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="]
    for odd in (f"v={b64encode(bytes(32)).decode()}", "e=other-error"):
        with pytest.raises(ApiError, match="does not prove that it knows the password"):
            scram(exchange_of([answers[0], odd], []), "sha256", "user", "pencil", nonce)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"security.protocol": "TLS"}, "security.protocol is one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security.protocol": "SASL_SSL"}, "sasl.jaas.config is needed"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"},
            "sasl.mechanism is one of PLAIN, SCRAM-SHA-256",
        ),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/x.jks"}, "ssl.truststore.type is PEM, not 'JKS'"),
        (
            {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/no"},
            "cannot be read",
        ),
    ],
)
def test_what_cannot_be_is_said_before_connecting(given, told):
    with pytest.raises(InvalidOption, match=told):
        security_of(parse(ConsumerOptions, given))


def test_secrets_are_not_printed():
    assert "wonder" not in repr(parse(ProducerOptions, {"sasl.jaas.config": CLIENT}))
    assert security_of(ProducerOptions()) is None
