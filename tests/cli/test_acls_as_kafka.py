"""`tidelog acls` does and prints what Kafka's tool does, on the same brokers.

Lines are compared sorted: Kafka's tool leaves their order to a hash table.
"""

import pytest

from tests.shell.authority import port_of
from tidelog.config.families.security_options import STANDARD_AUTHORIZER
from tidelog.testing import Cluster

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required {};"
SECURED = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": LOGIN.format('user_admin="p"'),
    "listener.name.replication.plain.sasl.jaas.config": LOGIN.format('username="admin" password="p" user_admin="p"'),
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:admin",
}
CLIENT = f"""security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config={LOGIN.format('username="admin" password="p"')}
"""
ADDED = [
    "--allow-principal User:alice --producer --idempotent --topic t --transactional-id x",
    "--allow-principal User:alice --allow-host 10.0.0.1 --consumer --topic t --topic u --group g",
    "--allow-principal User:* --operation Read --operation DescribeConfigs --topic fl --resource-pattern-type prefixed",
    "--allow-principal User:a --deny-principal User:CN=b,O=c --deny-host 10.0.0.2 --cluster --operation Alter",
    "--allow-principal User:carol --user-principal User:dan --operation CreateTokens",
]
LISTED = ["", "--topic flights --resource-pattern-type match", "--principal User:alice --topic t", "--group *"]


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """Those of both tools: a broker, and the administrator's login."""
    file = tmp_path_factory.mktemp("client") / "admin.properties"
    file.write_text(CLIENT, encoding="utf-8")
    with Cluster(brokers=2, options=SECURED) as cluster:
        port = port_of(cluster.brokers[0], "SASL_PLAINTEXT")
        yield ["--bootstrap-server", f"127.0.0.1:{port}", "--command-config", str(file)]


def test_acls_are_added_listed_and_removed_as_by_kafkas_tool(tidelog, kafka_tool, options):
    def ours(*arguments):
        result = tidelog("acls", *options, *arguments)
        assert result.code == 0, result
        return lines(result.out)

    def theirs(*arguments):
        return lines(kafka_tool("AclCommand", *options, *arguments))

    def lines(out):
        return sorted(line.strip() for line in out.splitlines() if line.strip())

    for added in ADDED:
        rules = added.split()
        printed = theirs("--add", *rules)
        existing = ours("--add", *rules)
        assert len(existing) == sum(line.startswith("(principal=") for line in printed)
        assert all(line.endswith("already exists.") for line in existing)
        assert ours("--list") == theirs("--list")
        assert ours("--remove", "--force", *rules) == theirs("--remove", "--force", *rules) == []
        assert theirs("--list") == []
        assert ours("--add", *rules) == printed
        assert theirs("--add", *rules) == existing
        assert theirs("--remove", "--force", *rules) == []
        assert ours("--list") == []
    for added in ADDED:
        theirs("--add", *added.split())
    for listed in LISTED:
        assert ours("--list", *listed.split()) == theirs("--list", *listed.split())
