"""Real clients log in with a token: librdkafka's, aiokafka and Kafka's Java clients."""

import asyncio
import time

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.shell.test_oauth import HOUR_S, PROVIDER, options, token
from tests.shell.test_tls import port_of, records_through
from tidelog.testing import Cluster

JAVA_CLIENT = """
security.protocol=SASL_PLAINTEXT
sasl.mechanism=OAUTHBEARER
sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler
sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
sasl.oauthbearer.token.endpoint.url={0}
"""


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "jwks.json"
    keys.write_text(PROVIDER.jwks)
    with Cluster(brokers=1, options=options(f"file://{keys}")) as cluster:
        yield port_of(cluster.brokers[0], "SASL_PLAINTEXT")


def confluent(port, give):
    return {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (give(), time.time() + HOUR_S),
    }


def test_clients_in_python_log_in_with_a_token(port):
    assert records_through(confluent(port, token), "of-alice", count=20)

    class Tokens(AbstractTokenProvider):
        async def token(self):
            return token()

    async def send():
        producer = AIOKafkaProducer(
            bootstrap_servers=f"127.0.0.1:{port}",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Tokens(),
        )
        await producer.start()
        try:
            return await producer.send_and_wait("of-alice", b"x")
        finally:
            await producer.stop()

    assert asyncio.run(send()).offset == 20
    with pytest.raises(KafkaException):
        AdminClient(confluent(port, lambda: token(aud="elsewhere"))).list_topics(timeout=1)


def test_kafkas_tools_log_in_with_a_token_of_a_file(port, tool_server, tmp_path):
    tool_server.token_file.write_text(token())
    file = tmp_path / "client.properties"
    file.write_text(JAVA_CLIENT.format(f"file://{tool_server.token_file}"))
    connection = ("--bootstrap-server", f"127.0.0.1:{port}")

    def run(name, *arguments, given=""):
        return tool_server.run(f"org.apache.kafka.tools.{name}", *connection, *arguments, given=given)

    topic = ("--topic", "of-java")
    done = run("TopicCommand", "--command-config", str(file), "--create", *topic, "--partitions", "1")
    assert (done.returncode, done.stdout) == (0, "Created topic of-java.\n"), done.stderr
    done = run("ConsoleProducer", "--command-config", str(file), *topic, given="one\ntwo\n")
    assert done.returncode == 0, done.stderr
    limits = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "60000")
    done = run("consumer.ConsoleConsumer", "--command-config", str(file), *topic, *limits)
    assert (done.returncode, done.stdout) == (0, "one\ntwo\n"), done.stderr
    tool_server.token_file.write_text(token(aud="elsewhere"))
    done = run("TopicCommand", "--command-config", str(file), "--list")
    assert done.returncode == 1
    assert '{"status":"invalid_token"}' in done.stdout + done.stderr
