"""Clients on connections with TLS and SASL, to a real Kafka that wants them, and what they say where it goes wrong."""

import pickle
import time

import pytest

from tests.compatibility.differential.secured import CLIENT, PROVIDER, SCRAM
from tests.security.test_access_tokens import GIVEN, part, signed_by_secret
from tests.security.tokens import RSA_KEYS, Provider, first_message
from tests.shell.test_sasl import Wire
from tidelog import frames
from tidelog.config.broker import BrokerConfig
from tidelog.errors import ApiError, ErrorCode, InvalidOption
from tidelog.security.access_tokens import Invalid, KeySet, Verifier
from tidelog.shell.transport import Admin, Consumer, Producer
from tidelog.spark.options import BadOption
from tidelog.spark.reading import task
from tidelog.spark.reading.batch import BatchReader
from tidelog.spark.reading.read_options import ReadOptions
from tidelog.wire.messages.security.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreateTopicsRequest

CASES = {
    "TLS": ("SSL", {}),
    "PLAIN": ("SASL_PLAINTEXT", {"sasl.jaas.config": CLIENT}),
    "SCRAM": ("SASL_PLAINTEXT", {"sasl.jaas.config": SCRAM, "sasl.mechanism": "SCRAM-SHA-512"}),
    "PLAIN over TLS": ("SASL_SSL", {"sasl.jaas.config": CLIENT}),
    "SCRAM over TLS": ("SASL_SSL", {"sasl.jaas.config": SCRAM, "sasl.mechanism": "SCRAM-SHA-512"}),
}


def options_of(protocol, certificate, more):
    given = {"security.protocol": protocol, "ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificate)}
    return {name.replace(".", "_"): text for name, text in {**given, **more}.items()}


def write(bootstrap, topic, given):
    """Twenty records to a new topic."""
    with Admin(bootstrap, **given) as admin:
        wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
        assert admin.ask(CreateTopicsRequest(topics=[wanted])).topics[0].error_code == 0
    values = [bytes([n % 251]) * 50_000 for n in range(20)]  # longer than what TLS hands out at once
    with Producer(bootstrap, **given) as producer:
        for value in values:
            producer.send(topic, value, partition=0)
        assert all(delivery.is_acknowledged for delivery in producer.flush(60))
    return values


@pytest.mark.parametrize("case", CASES)
def test_records_go_through_connections_that_are_secured(secured_kafka, case):
    ports, certificate = secured_kafka
    protocol, more = CASES[case]
    given, bootstrap, topic = (
        options_of(protocol, certificate, more),
        f"127.0.0.1:{ports[protocol]}",
        case.replace(" ", "-"),
    )
    values = write(bootstrap, topic, given)
    with Consumer(bootstrap, auto_offset_reset="earliest", **given) as consumer:
        consumer.partitions_of(topic)
        consumer.assign([(topic, 0)])
        found = []
        while len(found) < len(values):
            found += consumer.poll(60)
        assert [record.value for record in found] == values


def test_sparks_source_and_frames_read_there_and_name_the_option_where_they_may_not(secured_kafka):
    ports, certificate = secured_kafka
    write(f"127.0.0.1:{ports['PLAINTEXT']}", "for-spark", {})
    given = {
        "kafka.bootstrap.servers": f"127.0.0.1:{ports['SASL_SSL']}",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(certificate),
        "kafka.sasl.jaas.config": CLIENT,
        "kafka.ssl.protocol": "TLSv1.3",
        "subscribe": "for-spark",
    }
    reader = BatchReader(ReadOptions.of(given, streaming=False))
    (part,) = reader.partitions()
    assert sum(batch.num_rows for batch in reader.read(pickle.loads(pickle.dumps(part)))) == 20
    task.kept_consumers.close()
    own = {name: text for name, text in given.items() if name not in ("kafka.bootstrap.servers", "subscribe")}
    assert frames.read("for-spark", bootstrap=given["kafka.bootstrap.servers"], options=own).num_rows == 20
    refused = {**given, "kafka.sasl.jaas.config": SCRAM}
    with pytest.raises(BadOption, match=r"'kafka.sasl.jaas.config' .* refuses user 'bob'"):
        BatchReader(ReadOptions.of(refused, streaming=False)).partitions()


def test_who_is_refused_is_told_why(secured_kafka):
    ports, certificate = secured_kafka
    wrong = {"sasl.jaas.config": CLIENT.replace("wonder", "other")}
    refused = [
        ("SASL_PLAINTEXT", wrong, ApiError, "refuses user 'alice'"),
        (
            "SASL_SSL",
            {**wrong, "sasl.mechanism": "SCRAM-SHA-256"},
            ApiError,
            "supports .* not sasl.mechanism SCRAM-SHA-256",
        ),
        ("SSL", {"ssl.truststore.location": "/etc/ssl/certs/ca-certificates.crt"}, InvalidOption, "is not trusted"),
    ]
    for protocol, more, kind, told in refused:
        given = options_of(protocol, certificate, more)
        with Consumer(f"127.0.0.1:{ports[protocol]}", **given) as consumer, pytest.raises(kind, match=told) as raised:
            consumer.partitions_of("any")
        if kind is ApiError and "refuses" in told:
            assert raised.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_client_logs_in_with_an_access_token(secured_kafka, tmp_path):
    ports, certificate = secured_kafka
    bootstrap, file = f"127.0.0.1:{ports['SASL_PLAINTEXT']}", tmp_path / "token"
    more = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": f"file://{file}"}
    given = options_of("SASL_PLAINTEXT", certificate, more)
    now_s = int(time.time())
    file.write_text(PROVIDER.token(now_s, exp=now_s + 3600))
    write(bootstrap, "of-a-token", given)
    file.write_text(PROVIDER.token(now_s, aud="elsewhere"))
    with pytest.raises(ApiError, match="refuses the access token"):
        write(bootstrap, "of-no-token", given)


def tokens(now_s):
    """By what is special about them."""
    later_s = now_s + 3600
    other = Provider(RSA_KEYS[1])
    claims = {
        "nothing": {},
        "another issuer": {"iss": "https://evil.example/"},
        "no issuer": {"without": ["iss"]},
        "another audience": {"aud": "elsewhere"},
        "one audience of two": {"aud": ["elsewhere", "kafka"]},
        "no audience": {"without": ["aud"]},
        "expired": {"exp": now_s - 3000, "iat": now_s - 6000},
        "no expiry": {"without": ["exp"]},
        "expiry as text": {"exp": "tomorrow"},
        "not yet": {"nbf": now_s + 3000},
        "already": {"nbf": now_s - 3000},
        "not issued": {"without": ["iat"]},
        "issued later": {"iat": now_s + 3000},
        "issued after the expiry": {"iat": later_s + 1},
        "no subject": {"without": ["sub"]},
        "empty subject": {"sub": ""},
        "blank subject": {"sub": " "},
        "a number as subject": {"sub": 7},
        "scope": {"scope": "a b"},
        "scopes": {"scope": ["a", "b"]},
        "a scope twice": {"scope": ["a", "a"]},
        "empty scope": {"scope": ""},
    }
    found = {name: PROVIDER.token(now_s, **{"exp": later_s, **each}) for name, each in claims.items()}
    header, content, signature = found["nothing"].split(".")
    return found | {
        "another key": other.token(now_s),
        "unknown key id": Provider(RSA_KEYS[0], "two").token(now_s),
        "no key id": PROVIDER.token(now_s, headers={"kid": None}),
        "another algorithm": Provider(algorithm="PS512").token(now_s),
        "no signature": f"{part({'alg': 'none', 'kid': 'one'})}.{content}.",
        "signature of none": f"{part({'alg': 'none', 'kid': 'one'})}.{content}.{signature}",
        "shared secret": signed_by_secret({"alg": "HS256", "kid": "one"}, PROVIDER.jwks.encode()),
        "other claims": f"{header}.{part({'sub': 'admin'})}.{signature}",
        "unknown extension": PROVIDER.token(now_s, headers={"crit": ["x"], "x": 1}),
        "garbage": "a.b.c",
        "one part": "abc",
    }


def test_kafka_accepts_the_same_access_tokens(secured_kafka):
    ports, _ = secured_kafka
    now_s = int(time.time())
    keys, verifier = KeySet(PROVIDER.jwks), Verifier(BrokerConfig(GIVEN))
    ours, theirs = {}, {}
    for name, token in tokens(now_s).items():
        try:
            ours[name] = verifier.verify(token, lambda _, *key: keys.find(*key), now_s * 1000).user
        except Invalid:
            ours[name] = None
        with Wire(ports["SASL_PLAINTEXT"]) as wire:
            wire.ask(17, 1, SaslHandshakeRequest(mechanism="OAUTHBEARER"))
            answer = wire.ask(36, 2, SaslAuthenticateRequest(auth_bytes=first_message(token)))
            assert answer.error_code == 0
            theirs[name] = None if bytes(answer.auth_bytes) else "alice"
            assert bytes(answer.auth_bytes) in (b"", b'{"status":"invalid_token"}')
    assert ours == theirs
    assert 5 <= sum(user is not None for user in theirs.values()) <= 10
