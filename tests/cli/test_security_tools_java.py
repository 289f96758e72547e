"""Kafka's tools for delegation tokens and SCRAM users on a secured cluster, and ours beside them: the same output."""

import re
import shlex

import pytest

from tests.shell.test_sasl import WANTS
from tests.shell.test_tls import port_of
from tests.waiting import wait_for
from tidelog.cli.main import run
from tidelog.testing import Cluster

TOKENS, CONFIGS = "org.apache.kafka.tools.DelegationTokenCommand", "kafka.admin.ConfigCommand"
ALICE = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="wonder land";'
TOKEN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{}" password="{}" tokenauth="true";'


@pytest.fixture(scope="module")
def port():
    with Cluster(brokers=1, options={**WANTS, "delegation.token.secret.key": "the secret"}) as cluster:
        yield port_of(cluster.brokers[0], "SASL_PLAINTEXT")


@pytest.fixture
def tools(port, tmp_path, kafka_tool, capsys):
    return Tools(port, tmp_path, kafka_tool, capsys)


class Tools:
    """The same line for Kafka's tool and for ours, as alice."""

    def __init__(self, port, folder, kafka_tool, capsys):
        self._place = ["--bootstrap-server", f"127.0.0.1:{port}", "--command-config", str(folder / "client.properties")]
        self._kafka_tool = kafka_tool
        self._capsys = capsys
        self.login(folder, ALICE, "PLAIN")

    @staticmethod
    def login(folder, jaas, mechanism):
        text = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n"
        (folder / "client.properties").write_text(text)

    def kafkas(self, tool, line):
        return self._kafka_tool(tool, *self._place, *shlex.split(line))

    def ours(self, command, line):
        self._capsys.readouterr()
        code = run([command, *self._place, *shlex.split(line)])
        out, err = self._capsys.readouterr()
        assert code == 0, err
        return out


def lines_of(text):
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def without_what_is_random(text):
    """Ids, HMACs, and moments."""
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d", "MOMENT", re.sub(r"\S{86}==", "HMAC", text))
    return [" ".join(re.sub(r"^[\w-]{22}$", "ID", word) for word in line.split()) for line in lines_of(text)]


def token_of(text):
    """(id, HMAC) of what was created."""
    return re.search(r"tokenId : (\S+)", text)[1], re.search(r"\S{86}==", text)[0]


def test_tokens_are_created_listed_renewed_and_expired_by_both_tools_alike(tools):
    create = "--create --max-life-time-period -1 --renewer-principal User:bob --renewer-principal User:carol"
    theirs, ours = tools.kafkas(TOKENS, create), tools.ours("delegation-tokens", create)
    assert without_what_is_random(ours) == without_what_is_random(theirs)
    described = "--describe --owner-principal User:alice"
    wait_for(lambda: tools.ours("tokens", described).count("==") == 2, "both are known")
    assert sorted(lines_of(tools.ours("tokens", described))) == sorted(lines_of(tools.kafkas(TOKENS, described)))
    nobodys, all_ = "--describe --owner-principal User:nobody", "--describe"
    assert lines_of(tools.ours("tokens", nobodys)) == lines_of(tools.kafkas(TOKENS, nobodys))
    assert tools.ours("tokens", all_).count("==") == 2
    assert "Total number of tokens : 0" in tools.kafkas(TOKENS, all_), "Kafka's tool asks for the tokens of no owner"
    (_, first), (_, second) = token_of(theirs), token_of(ours)
    for line in (
        "--renew --renew-time-period 3600000",
        "--expire --expiry-time-period 60000",
        "--expire --expiry-time-period -1",
    ):
        renewed = tools.kafkas(TOKENS, f"{line} --hmac {first}"), tools.ours("tokens", f"{line} --hmac {second}")
        assert without_what_is_random(renewed[0]) == without_what_is_random(renewed[1])
    wait_for(lambda: "tokens : 0" in tools.ours("tokens", described), "both are gone")


def test_kafkas_client_logs_in_with_a_token(tools, tmp_path):
    token_id, hmac = token_of(tools.ours("tokens", "--create --max-life-time-period -1"))
    wait_for(lambda: token_id in tools.ours("tokens", "--describe"), "it is known")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        tools.login(tmp_path, TOKEN.format(token_id, hmac), mechanism)
        tools.kafkas("org.apache.kafka.tools.TopicCommand", f"--create --topic of-{mechanism} --partitions 1")
        assert f"of-{mechanism}" in tools.ours("topics", "--list")


def test_scram_users_are_altered_and_described_by_both_tools_alike(tools):
    for credential in ("SCRAM-SHA-512=[iterations=8192,password=a b]", "SCRAM-SHA-256=[password=c]"):
        add = f"--alter --entity-type users --entity-name {{}} --add-config '{credential}'"
        ours, theirs = tools.ours("configs", add.format("X")), tools.kafkas(CONFIGS, add.format("Y"))
        assert ours == theirs.replace("Y", "X")
    assert tools.ours("configs", "--alter --user X --add-config consumer_byte_rate=1024")
    wait_for(lambda: "consumer_byte_rate" in tools.ours("configs", "--describe --user X"), "the quota")
    for line in (
        "--describe --entity-type users",
        "--describe --entity-type users --entity-name X",
        "--describe --user nobody",
        "--describe --entity-type users --entity-default",
        "--describe --entity-type users --entity-type clients",
    ):
        assert lines_of(tools.ours("configs", line)) == lines_of(tools.kafkas(CONFIGS, line)), line
    remove = "--alter --user {} --delete-config SCRAM-SHA-256"
    ours, theirs = tools.ours("configs", remove.format("X")), tools.kafkas(CONFIGS, remove.format("Y"))
    assert ours == theirs.replace("Y", "X")
    wait_for(lambda: "SHA-256" not in tools.ours("configs", "--describe --entity-type users"), "one mechanism is gone")
    assert lines_of(tools.ours("configs", "--describe --user X")) == lines_of(
        tools.kafkas(CONFIGS, "--describe --user X")
    )
