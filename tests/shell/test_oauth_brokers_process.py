"""Three broker processes that log in to each other with access tokens of a token endpoint (OAUTHBEARER)."""

import json
import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compatibility.support import known_to_all
from tests.processes import Processes
from tests.security.https_server import serving
from tests.security.tokens import ISSUER, Provider
from tests.shell.test_oauth import BETWEEN, LOGIN, OF_BROKERS, TOKEN_URL
from tests.waiting import PATIENCE_S, wait_for
from tidelog.config.families.security_options import STANDARD_AUTHORIZER

PROVIDER = Provider()
LIVES_S = 5
"""A token of a broker, and so its sessions."""
SECRET = "s3cret of the brokers"


class Endpoints(dict):
    """The keys, and at each request another token, which is valid for a short time."""

    def get(self, path, default=None):
        if path != "/token":
            return super().get(path, default)
        now_s = int(time.time())
        token = PROVIDER.token(now_s, sub="brokers", aud="brokers", exp=now_s + LIVES_S)
        return 200, json.dumps({"access_token": token}).encode()


@pytest.fixture
def provider(tmp_path):
    with serving(tmp_path) as server:
        server.answers = Endpoints({"/keys": (200, PROVIDER.jwks.encode())})
        yield server


def test_brokers_stay_logged_in_to_each_other_with_tokens_that_expire(provider, tmp_path, capfd):
    trusted = f'clientId="us" ssl.truststore.type="PEM" ssl.truststore.location="{provider.authority}"'
    options = {
        **BETWEEN,
        f"{OF_BROKERS}sasl.jaas.config": LOGIN.format(trusted),
        TOKEN_URL: f"{provider.base}/token",
        f"{OF_BROKERS}sasl.oauthbearer.client.credentials.client.secret": SECRET,
        "sasl.oauthbearer.jwks.endpoint.url": f"{provider.base}/keys",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS;User:brokers",
    }
    with Processes(tmp_path / "data", brokers=3, port=0, overrides=options) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        topic = NewTopic("t", 3, 3, config={"min.insync.replicas": "3"})
        admin.create_topics([topic])["t"].result(PATIENCE_S)
        wait_for(lambda: known_to_all(cluster, "t"), "all to know the topic")

        def tokens():
            return sum(path == "/token" for _, path, _, _ in provider.requests)

        # Each broker has replaced its token twice, so the first one has expired: followers have logged in again.
        began = time.monotonic()
        producer, failed = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"}), []
        sent = 0

        def written_on():
            nonlocal sent
            for partition in range(3):
                producer.produce("t", b"x", partition=partition, on_delivery=lambda error, _: failed.append(error))
            assert producer.flush(PATIENCE_S) == 0
            sent += 3
            return tokens() >= 9 and time.monotonic() - began > LIVES_S

        wait_for(written_on, "two further tokens of each broker")
        assert failed == [None] * sent
    lines = capfd.readouterr().err
    assert "peer.login_failed" not in lines
    assert "token.not_fetched" not in lines
    assert SECRET not in lines
