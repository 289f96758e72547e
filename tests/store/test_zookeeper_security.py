"""The options of Kafka 3 that secure connections to ZooKeeper: where the login comes from, and what is refused."""

import pytest

from tidelog.config.broker import BrokerConfig
from tidelog.errors import InvalidOption
from tidelog.shell.store.zookeeper_security import NO_SECURITY, security_of

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
LOGIN = f'{MODULE} required username="kafka" password="hunt}}er;2";'
FILE = f"""
// Server {{ none }};
Server {{ {MODULE} required user_kafka="other"; }};
KafkaClient {{ {MODULE} required username="other" password="other"; }};
Client {{
    {LOGIN}
}};
"""


def options(**given):
    return BrokerConfig({name.replace("_", "."): text for name, text in given.items()})


def test_nothing_is_secured_without_options(monkeypatch):
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    assert security_of(options()) == NO_SECURITY


@pytest.mark.parametrize("place", ["option", "file"])
def test_the_login_is_an_option_or_in_kafkas_jaas_file(monkeypatch, tmp_path, place):
    file = tmp_path / "jaas.conf"
    file.write_text(FILE)
    given = {"zookeeper_sasl_jaas_config": LOGIN} if place == "option" else {}
    monkeypatch.setenv("KAFKA_OPTS", "" if given else f"-Xmx1g -Djava.security.auth.login.config={file} -Dx=y")
    found = security_of(options(zookeeper_set_acl="true", **given))
    assert (found.context, found.login, found.restricts) == (None, ("kafka", "hunt}er;2"), True)
    assert "hunt" not in repr(found)


def test_a_jaas_file_without_a_section_for_clients_is_no_login(monkeypatch, tmp_path):
    file = tmp_path / "jaas.conf"
    file.write_text(FILE.replace("\nClient", "\nKafkaServer"))
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={file}")
    assert security_of(options()).login is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"zookeeper_set_acl": "true"}, "needs a login"),
        ({"zookeeper_set_acl": "true", "zookeeper_ssl_client_enable": "true"}, "or a client certificate"),
        ({"zookeeper_ssl_client_enable": "true", "zookeeper_ssl_ocsp_enable": "true"}, "not supported"),
        (
            {"zookeeper_ssl_client_enable": "true", "zookeeper_ssl_truststore_location": "/no.pem"},
            r"zookeeper\.ssl\.truststore",
        ),
        ({"zookeeper_sasl_jaas_config": "hunter2"}, "is not a JAAS login"),
        ({"zookeeper_sasl_jaas_config": f"{MODULE} required username=hunter2;"}, "password is missing"),
        ({"zookeeper_sasl_jaas_config": "com.sun.security.auth.module.Krb5LoginModule required;"}, "is not supported"),
    ],
)
def test_what_cannot_work_is_refused(monkeypatch, given, says):
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    with pytest.raises(InvalidOption, match=says) as refused:
        security_of(options(**given))
    assert "hunter2" not in str(refused.value)


def test_a_jaas_file_that_is_missing_is_named(monkeypatch):
    monkeypatch.setenv("KAFKA_OPTS", "-Djava.security.auth.login.config=/no/file")
    with pytest.raises(InvalidOption, match="cannot read the JAAS file /no/file"):
        security_of(options())
