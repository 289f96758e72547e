"""Spark against a cluster with four listeners: its own Kafka connector and Tidelog's source, every protocol and mechanism,
and what a query reports where something is wrong (`tests/compatibility/security/matrix.py`)."""

import re

import pytest
from confluent_kafka import Producer

from tests.compatibility.security import matrix
from tests.compatibility.security.clients import VALUE, java_options, plain_text
from tests.compatibility.security.matrix import CASES, WAYS, Ground, Row
from tests.waiting import PATIENCE_S

SOURCES = ("kafka", "tidelog")
TOPICS = [f"{user}.spark" for user in sorted({way.user or "anyone" for way in WAYS})]
ROWS = [
    (source, way, case)
    for source in SOURCES
    for case, each in CASES.items()
    for way in each.ways[: None if case == "nothing" else 1]
]
ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
SILENT = ("TimeoutException: Timed out waiting for a node assignment", "no broker of option 'kafka.bootstrap.servers'")
REFUSED = (
    "SaslAuthenticationException: Authentication failed",
    "option 'kafka.sasl.jaas.config' or 'kafka.sasl.mechanism': HOST refuses user '(alice|nobody)'",
)
REPORTS = {
    "nothing": ("^ok$", "^ok$"),
    "wrong password": REFUSED,
    "unknown user": REFUSED,
    "expired token": (r'SaslAuthenticationException: \{"status":"invalid_token"\}', "HOST refuses the access token"),
    "untrusted certificate": (
        "SslAuthenticationException",
        "option 'kafka.ssl.truststore.location': the certificate of HOST is not trusted",
    ),
    "wrong host name": ("SslAuthenticationException", "'kafka.ssl.truststore.location': .* Hostname mismatch"),
    "no client certificate": (
        "SslAuthenticationException",
        "option 'kafka.ssl.keystore.location': HOST does not accept the client's certificate: certificate required",
    ),
    "TLS missing": SILENT,
    "TLS at a port without": SILENT,
    "login missing": SILENT,
    "login at a port without": ("IllegalSaslStateException", "not sasl.mechanism PLAIN"),
    "another's topic": ("TopicAuthorizationException", "option 'subscribe'"),
}
"""What is wrong → what Spark's connector, and what Tidelog's source reports."""


class Secured:
    def __init__(self, ground, ports, folder):
        self._ground = ground
        self._ports = ports
        self.files = {}
        for case in ("nothing", "expired token"):
            token = ground.token if case == "nothing" else ground.expired_token
            self.files[token] = folder / f"{case.partition(' ')[0]}.jwt"
            self.files[token].write_text(token)

    def options(self, way, case):
        """Of a query; the topic has one record."""
        attempt = self._ground.attempt(Row("Java", way, case))
        topic = f"{way.user or 'anyone'}.spark" if case != "another's topic" else attempt.topic
        java = java_options(attempt, self.files.get(attempt.token))
        return {
            **{f"kafka.{name}": text for name, text in java.items()},
            "kafka.bootstrap.servers": f"{attempt.host}:{self._ports[attempt.at]}",
            "subscribe": topic,
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory, spark):
    folder = tmp_path_factory.mktemp("security")
    ground = Ground(folder)
    with matrix.tidelog(folder / "tidelog", ground, TOPICS) as ports:
        producer = Producer({"bootstrap.servers": f"{matrix.HOST}:{ports['PLAINTEXT']}"})
        for topic in TOPICS:
            producer.produce(topic, VALUE, partition=0)
        assert producer.flush(PATIENCE_S) == 0
        found = Secured(ground, ports, folder)
        system = spark._jvm.java.lang.System
        system.setProperty(ALLOWED, ",".join(f"file://{file}" for file in found.files.values()))
        try:
            yield found
        finally:
            system.clearProperty(ALLOWED)


@pytest.mark.parametrize(("source", "way", "case"), ROWS, ids=str)
def test_a_query_reads_or_reports_what_is_wrong(spark, secured, source, way, case):
    options = secured.options(way, case)
    if source == "kafka":
        options |= {"fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "1"}
    try:
        rows = (
            spark.read.format(source).options(**options).load().selectExpr("cast(value as string) as value").collect()
        )
        result = "ok" if [row.value for row in rows] == [VALUE] else repr(rows)
    except Exception as error:  # noqa: BLE001 (whatever Spark raises is the result)
        result = plain_text(error)
    assert re.search(REPORTS[case][SOURCES.index(source)], result)
