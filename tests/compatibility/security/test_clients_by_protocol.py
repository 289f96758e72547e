"""Clients as they are published against a cluster with four listeners: every protocol and mechanism, and what each client
reports where something is wrong. The same against a real Kafka, for one way of each case.

Both brokers have the same options (`matrix.Ground`); clients try in turn, different clients at the same time.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.compatibility.security import clients, matrix
from tests.compatibility.security.matrix import CASES, CLIENTS, Ground, Row, rows
from tests.conftest import ROOT

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("clients_sockets_are_collected"),
]

SILENT = {
    "confluent-kafka": "brokers are down|Disconnected",
    "aiokafka": "KafkaConnectionError: Unable to bootstrap",
    "kafka-python": "KafkaTimeoutError: Unable to bootstrap",
    "franz-go": "EOF",
    "Java": "TimeoutException: Timed out waiting for a node assignment",
}
"""The broker closes the connection, which says nothing."""
ROWS = [row for client in CLIENTS for row in rows(client)]
NOT_COMPARED = ("nothing", "TLS missing")
"""What works, and what would take all memory of Kafka's tools: they take its TLS alert for the length of a response."""
COMPARED = [row for row in ROWS if row.case not in NOT_COMPARED and row.way == CASES[row.case].ways[0]]

REFUSED = {
    "confluent-kafka": "SASL authentication error: Authentication failed",
    "aiokafka": r"KafkaConnectionError: Unable to bootstrap .* SaslAuthenticationFailed: Authentication failed",
    "kafka-python": "KafkaTimeoutError: Unable to bootstrap",
    "franz-go": "Authentication failed.* SASL_AUTHENTICATION_FAILED",
    "Java": "SaslAuthenticationException: Authentication failed",
}
REPORTS = {
    "nothing": dict.fromkeys(CLIENTS, "^ok$"),
    "wrong password": REFUSED,
    "unknown user": REFUSED,
    "expired token": {
        "confluent-kafka": r'SASL authentication error: \{"status":"invalid_token"\}',
        "aiokafka": "KafkaConnectionError: Unable to bootstrap|UnknownTopicOrPartitionError",
        "kafka-python": "KafkaTimeoutError: Unable to bootstrap",
        "franz-go": "unexpected data in oauth response",
        "Java": r'SaslAuthenticationException: \{"status":"invalid_token"\}',
    },
    "untrusted certificate": {
        "confluent-kafka": "certificate verify failed",
        "aiokafka": "KafkaConnectionError: .* CERTIFICATE_VERIFY_FAILED",
        "kafka-python": "KafkaTimeoutError: .* CERTIFICATE_VERIFY_FAILED",
        "franz-go": "x509: certificate signed by unknown authority",
        "Java": "SslAuthenticationException: .* unable to find valid certification path",
    },
    "wrong host name": {
        "confluent-kafka": "certificate verify failed",
        "aiokafka": "KafkaConnectionError: .* Hostname mismatch, certificate is not valid for 'HOST'",
        "kafka-python": "KafkaTimeoutError: .* Hostname mismatch, certificate is not valid for 'HOST'",
        "franz-go": "x509: certificate is not valid for any names, but wanted to match HOST",
        "Java": "SslAuthenticationException: .* No name matching HOST found",
    },
    "no client certificate": {
        "confluent-kafka": "alert (certificate required|bad certificate)",
        "aiokafka": "KafkaConnectionError: Unable to bootstrap",
        "kafka-python": "KafkaTimeoutError: Unable to bootstrap",
        "franz-go": "tls: (certificate required|bad certificate)",
        "Java": "SslAuthenticationException: .* Received fatal alert: (certificate_required|bad_certificate)",
    },
    "TLS missing": SILENT,
    "TLS at a port without": {
        **SILENT,
        "confluent-kafka": "SSL connection closed by peer|Disconnected",
        "franz-go": "happens if the client is using TLS when the broker is not expecting it",
    },
    "login missing": {
        **SILENT,
        "franz-go": "internal broker struct chosen .* has died|SASL is required but not provided|connection reset by peer",
    },
    "login at a port without": {
        "confluent-kafka": "SASL PLAIN mechanism handshake failed: Broker: Request not valid in current SASL state",
        "aiokafka": "KafkaConnectionError: .* IllegalSaslStateError",
        "kafka-python": "KafkaTimeoutError: .* IllegalSaslStateError",
        "franz-go": "ILLEGAL_SASL_STATE",
        "Java": "IllegalSaslStateException",
    },
    "another's topic": {
        "confluent-kafka": "Broker: Topic authorization failed",
        "aiokafka": r"TopicAuthorizationFailedError: bob\.secret",
        "kafka-python": r"TopicAuthorizationFailedError: bob\.secret",
        "franz-go": "TOPIC_AUTHORIZATION_FAILED",
        "Java": r"TopicAuthorizationException: Not authorized to access topics: \[bob\.secret\]",
    },
}
"""What is wrong → client → part of what it reports. Java's TLS sends another alert than OpenSSL where a certificate is
missing."""


@pytest.fixture(scope="session")
def franz_go_program():
    program = ROOT / ".cache" / "franz-go" / "franz-go"
    if not program.exists():
        pytest.fail(f"{program} is missing: run scripts/setup test")
    return program


@pytest.fixture(scope="module")
def results(
    tmp_path_factory, kafka_libs, kafka_tool, tool_server, franz_go_program
) -> Iterator[dict[str, dict[Row, str]]]:
    """What each client reports, by side and row."""
    folder = tmp_path_factory.mktemp("matrix")
    ground = Ground(folder)
    tries = {
        "confluent-kafka": clients.confluent,
        "aiokafka": clients.asynchronous,
        "kafka-python": clients.kafka_python,
        "franz-go": clients.franz_go(franz_go_program),
        "Java": clients.java(tool_server, folder),
    }
    topics = sorted({row.topic for row in ROWS})
    with ExitStack() as running, ThreadPoolExecutor(len(CLIENTS)) as pool:
        kafka = matrix.kafka(folder / "kafka", ground, topics, kafka_libs, kafka_tool)
        tidelog = matrix.tidelog(folder / "tidelog", ground, topics)
        sides = [pool.submit(running.enter_context, each) for each in (tidelog, kafka)]
        ours, theirs = [each.result() for each in sides]

        def run(client: str) -> None:
            for row in rows(client):
                attempt = ground.attempt(row)
                found["Tidelog"][row] = tries[client](attempt, ours[attempt.at])
                if row in COMPARED:
                    found["Kafka"][row] = tries[client](attempt, theirs[attempt.at])

        found: dict[str, dict[Row, str]] = {"Tidelog": {}, "Kafka": {}}
        for each in [pool.submit(run, client) for client in CLIENTS]:
            each.result()
        yield found


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_client_works_or_reports_what_is_wrong(row, results):
    assert re.search(REPORTS[row.case][row.client], results["Tidelog"][row])


@pytest.mark.parametrize("row", COMPARED, ids=str)
def test_a_client_reports_the_same_of_a_real_kafka(row, results):
    """Not to the letter: which of several messages a client reports first depends on when a connection is closed."""
    assert re.search(REPORTS[row.case][row.client], results["Kafka"][row])
