"""The options in a file of `--command-config`: one file serves every tool, and secrets stay in it."""

import pytest

from tidelog.client import properties
from tidelog.client.options import AdminOptions, ClientOptions, ConsumerOptions, ProducerOptions
from tidelog.config import properties as java
from tidelog.errors import InvalidOption
from tidelog.security import jaas

FILE = r"""
# for all tools
bootstrap.servers=elsewhere:9092
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
  username="alice" password="wonder land";
ssl.enabled.protocols=TLSv1.3
group.id=readers
acks=1
key.serializer=org.apache.kafka.common.serialization.StringSerializer
metric.reporters=
sasl.login.connect.timeout.ms=1
"""


def test_each_client_takes_its_own_options_from_one_file():
    given = properties.read(FILE)
    for kind in (AdminOptions, ClientOptions, ProducerOptions, ConsumerOptions):
        found = properties.options(kind, given)
        assert (found.security_protocol, found.sasl_mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
        assert found.ssl_enabled_protocols == ("TLSv1.3",)
        assert "wonder" not in repr(found)
    assert properties.options(ProducerOptions, given).acks == "1"
    assert properties.options(ConsumerOptions, given).group_id == "readers"


def test_a_name_that_no_client_has_is_refused():
    for name in ("ssl.trustore.location", "sasl.mechanisme"):
        with pytest.raises(InvalidOption, match=name):
            properties.options(AdminOptions, {name: "x"})
    with pytest.raises(InvalidOption, match=r"request\.timeout\.ms must be an integer"):
        properties.options(AdminOptions, {"request.timeout.ms": "soon"})


@pytest.mark.parametrize("password", ["wonder land", 'a "quoted" \\ one', "ünïcode;", "'=,"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_the_names_of_librdkafka_are_accepted(mechanism, password):
    given = {
        "sasl.mechanisms": mechanism,
        "sasl.username": "al ice",
        "sasl.password": password,
        "ssl.ca.location": "/ca",
    }
    found = properties.options(AdminOptions, properties.renamed(given))
    login = jaas.parse(found.sasl_jaas_config)
    assert login.module == ("PlainLoginModule" if mechanism == "PLAIN" else "ScramLoginModule")
    assert login.options == {"username": "al ice", "password": password}
    assert (found.sasl_mechanism, found.ssl_truststore_type, found.ssl_truststore_location) == (mechanism, "PEM", "/ca")


def test_a_user_without_a_password_is_refused():
    with pytest.raises(InvalidOption, match="go together") as raised:
        properties.renamed({"sasl.password": "wonder land"})
    assert "wonder" not in str(raised.value)


def test_a_malformed_line_does_not_reach_an_error_message():
    with pytest.raises(InvalidOption) as raised:
        java.parse('sasl.jaas.config=X required password="wonder\\u12";')
    assert "wonder" not in str(raised.value)
