"""`tidelog delegation-tokens` where something is wrong, and an HMAC that is not on the command line. What it prints is
compared with Kafka's tool in test_security_tools_java.py."""

import re

import pytest

from tests.shell.test_sasl import WANTS, port_of
from tests.waiting import wait_for
from tidelog.cli.main import run
from tidelog.testing import Cluster

ALICE = 'x.PlainLoginModule required username="alice" password="wonder land";'


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The options that name a cluster and who logs in there."""
    file = tmp_path_factory.mktemp("client") / "client.properties"
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={ALICE}\n")
    with Cluster(brokers=1, options={**WANTS, "delegation.token.secret.key": "s"}) as cluster:
        port = port_of(cluster.brokers[0], "SASL_PLAINTEXT")
        yield ["--bootstrap-server", f"127.0.0.1:{port}", "--command-config", str(file)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Exactly one action is required: --create, --renew, --expire, --describe."),
        (["--create"], "--create requires --max-life-time-period."),
        (["--renew", "--renew-time-period", "1"], "--renew requires --hmac."),
        (["--expire", "--hmac", "x"], "--expire requires --expiry-time-period."),
        (["--describe", "--hmac", "x"], "--hmac applies to --renew or --expire, not to --describe."),
        (["--describe", "--owner-principal", "alice"], "'alice' is not a principal; expected User:NAME."),
        (["--renew", "--renew-time-period", "1", "--hmac", "!"], "--hmac is not in base64."),
        (["--renew", "--renew-time-period", "1", "--hmac", "eA=="], "No delegation token has this HMAC"),
        (
            ["--create", "--max-life-time-period", "-1", "--renewer-principal", "Group:g"],
            "Renewers must be users: User:NAME (INVALID_PRINCIPAL_TYPE).",
        ),
    ],
)
def test_what_is_wrong_is_reported(place, capsys, arguments, says):
    assert run(["delegation-tokens", *place, *arguments]) == 1
    assert says in capsys.readouterr().err


def test_an_hmac_comes_from_a_file(place, capsys, tmp_path):
    assert run(["tokens", *place, "--create", "--max-life-time-period", "-1"]) == 0
    file = tmp_path / "hmac"
    file.write_text(re.search(r"\S{86}==", capsys.readouterr().out)[0] + "\n")
    assert run(["tokens", *place, "--expire", "--expiry-time-period", "-1", "--hmac", f"@{file}"]) == 0
    capsys.readouterr()

    def is_gone():
        assert run(["kafka-delegation-tokens.sh", *place, "--describe"]) == 0
        return "Total number of tokens : 0" in capsys.readouterr().out

    wait_for(is_gone, "the token is gone")
