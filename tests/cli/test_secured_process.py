"""Every command on a secured cluster: TLS, a password, an authorizer. Nothing else reaches its brokers."""

import json
import re

import click
import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.waiting import wait_for
from tidelog.cli.main import COMMANDS
from tidelog.cli.main import tidelog as root
from tidelog.client.options import AdminOptions, ConsumerOptions, ProducerOptions
from tidelog.client.properties import keywords, login
from tidelog.config import properties
from tidelog.errors import ApiError
from tidelog.shell import transport
from tidelog.shell.transactions import TransactionalProducer
from tidelog.shell.transport import Admin, Consumer
from tidelog.testing import Cluster
from tidelog.wire.messages.topics.metadata import MetadataRequest

REACHED = ("--bootstrap-server", "{bootstrap}", "--command-config", "{file}")
CHECKED = ("--bootstrap", "{bootstrap}", "--command-config", "{file}")

RUNS = {
    "topics": [
        (*REACHED, "--create", "--topic", "made", "--partitions", "2"),
        (*REACHED, "--alter", "--topic", "made", "--partitions", "3"),
        (*REACHED, "--describe", "--topic", "made"),
        (*REACHED, "--list"),
        ("--zookeeper", "{folder}", "--command-config", "{file}", "--describe", "--topic", "t"),
        (*REACHED, "--delete", "--topic", "made"),
    ],
    "configs": [
        (*REACHED, "--alter", "--topic", "t", "--add-config", "retention.ms=100000"),
        (*REACHED, "--describe", "--topic", "t", "--all"),
        (*REACHED, "--describe", "--broker", "0", "--all"),
        (*REACHED, "--alter", "--user", "bob", "--add-config", "producer_byte_rate=1000000"),
    ],
    "groups": [
        (*REACHED, "--list"),
        (*REACHED, "--describe", "--group", "readers"),
        (*REACHED, "--group", "readers", "--topic", "t", "--reset-offsets", "--to-earliest", "--execute"),
    ],
    "acls": [
        (*REACHED, "--add", "--allow-principal", "User:bob", "--operation", "Describe", "--topic", "nothing"),
        (*REACHED, "--list"),
        (
            *REACHED,
            "--remove",
            "--force",
            "--allow-principal",
            "User:bob",
            "--operation",
            "Describe",
            "--topic",
            "nothing",
        ),
    ],
    "users add": [("bert", *REACHED, "--password-file", "-")],
    "users change": [("bert", *REACHED, "--password-file", "-")],
    "users list": [REACHED],
    "users remove": [("bert", *REACHED)],
    "delegation-tokens": [
        (*REACHED, "--create", "--max-life-time-period", "-1"),
        (*REACHED, "--describe"),
    ],
    "offsets": [(*REACHED, "--topic", "t")],
    "reassign-partitions": [
        (*REACHED, "--topics-to-move-json-file", "{topics}", "--broker-list", "0,1", "--generate"),
        (*REACHED, "--reassignment-json-file", "{moves}", "--execute", "--throttle", "100000000"),
        (*REACHED, "--list"),
        (*REACHED, "--reassignment-json-file", "{moves}", "--verify"),
    ],
    "rebalance": [(*REACHED, "--plan")],
    "leader-election": [(*REACHED, "--election-type", "preferred", "--all-topic-partitions")],
    "cluster cluster-id": [REACHED],
    "cluster unregister": [(*REACHED, "--id", "7")],
    "delete-records": [(*REACHED, "--offset-json-file", "{offsets}")],
    "log-dirs": [(*REACHED, "--describe")],
    "transactions abort": [(*REACHED, "abort", "--topic", "t", "--partition", "0", "--start-offset", "0")],
    "transactions describe": [(*REACHED, "describe", "--transactional-id", "writer")],
    "transactions describe-producers": [(*REACHED, "describe-producers", "--topic", "t", "--partition", "0")],
    "transactions find-hanging": [(*REACHED, "find-hanging", "--broker-id", "0")],
    "transactions forceTerminateTransaction": [
        (*REACHED, "forceTerminateTransaction", "--transactionalId", "writer"),
    ],
    "transactions list": [(*REACHED, "list")],
    "produce": [(*REACHED, "--topic", "t")],
    "consume": [(*REACHED, "--topic", "t", "--from-beginning", "--max-messages", "1", "--group", "others")],
    "features describe": [(*REACHED, "describe")],
    "features upgrade": [(*REACHED, "upgrade", "--feature", "eligible.leader.replicas.version=1", "--dry-run")],
    "features downgrade": [(*REACHED, "downgrade", "--feature", "eligible.leader.replicas.version=0", "--dry-run")],
    "features disable": [(*REACHED, "disable", "--feature", "eligible.leader.replicas.version", "--dry-run")],
    "status": [REACHED],
    "explain access": [("--principal", "User:bob", "--topic", "t", *REACHED)],
    "explain broker": [("0", *REACHED)],
    "explain cluster": [REACHED],
    "explain group": [("readers", *REACHED)],
    "explain partition": [("t-0", *REACHED)],
    "explain timeline": [("t-0", *REACHED)],
    "explain topic": [("t", *REACHED)],
    "check run": [
        (*CHECKED, "--seconds", "2", "--topics", "1", "--workers", "2", "--keep", "--out", "{folder}/history.jsonl")
    ],
    "fuzz": [(*CHECKED, "--frames", "200", "--max-latency-ms", "60000")],
    "audit": [(*REACHED, "--local", "--json"), (*CHECKED, "--local", "--history", "{folder}/history.jsonl")],
}
"""The command lines of each command that talks to brokers. They run in this order."""
REFUSED = {"transactions abort", "cluster unregister"}
"""Nothing to do here: the cluster's own refusal shows that the request arrived."""

ELSEWHERE = {
    "up": "test_up_process",
    "broker run": "its file has the options: tests/shell/test_tls.py, test_sasl.py",
    "broker restart": "test_up_process",
    "broker start": "test_up_process",
    "broker stop": "test_up_process",
    "down": "test_up_process",
    "chaos": "tests/check/chaos",
    "console": "tests/console/test_pages_process.py",
    "pipeline run": "tests/spark",
    "quorum describe": "tests/shell/test_quorum_security.py; these brokers are no quorum",
    "quorum add-controller": "tests/compatibility/test_quorum_tools.py",
    "quorum remove-controller": "tests/compatibility/test_quorum_tools.py",
}
WITHOUT_BROKERS = {
    "completion",
    "dump-log",
    "features feature-dependencies",
    "features version-mapping",
    "metadata export",
    "metadata get",
    "metadata import",
    "metadata ls",
    "metadata rm",
    "metadata set",
    "check verify",
    "lab",
    "pipeline list",
    "simulate",
    "storage format",
    "storage info",
    "storage random-uuid",
}
"""Commands that read files, or the metadata store, or run brokers of their own in this process."""


def leaves():
    """The names of all commands, with those of groups."""
    for name in COMMANDS:
        command = root.get_command(click.Context(root), name)
        if isinstance(command, click.Group) and name not in ("lab", "simulate"):
            yield from (f"{name} {each}" for each in command.list_commands(click.Context(command)))
        else:
            yield name


def test_every_command_is_in_one_of_the_tables():
    assert sorted(leaves()) == sorted([*RUNS, *ELSEWHERE, *WITHOUT_BROKERS])


@pytest.fixture(scope="module")
def secured():
    with Cluster(brokers=2, secure=True) as cluster:
        given = cluster.security.client_options()
        cluster.create_topic("t", partitions=2, replicas=2)
        options = keywords(ProducerOptions, {**given, "transactional.id": "writer"})
        with TransactionalProducer(cluster.bootstrap, **options) as sender:
            sender.begin()
            sender.send("t", b"one", partition=0)
            sender.commit()
        options = keywords(ConsumerOptions, {**given, "group.id": "readers", "auto.offset.reset": "earliest"})
        with Consumer(cluster.bootstrap, options.pop("group_id"), **options) as reader:
            reader.subscribe(["t"])
            assert reader.poll(timeout=60)
            reader.commit()
        for name, content in (
            ("topics", {"version": 1, "topics": [{"topic": "t"}]}),
            ("moves", {"version": 1, "partitions": [{"topic": "t", "partition": 1, "replicas": [0, 1]}]}),
            ("offsets", {"version": 1, "partitions": [{"topic": "t", "partition": 0, "offset": 0}]}),
        ):
            (cluster.folder / f"{name}.json").write_text(json.dumps(content))
        yield cluster


def written(secured, words):
    names = {each: secured.folder / f"{each}.json" for each in ("topics", "moves", "offsets")}
    places = {"bootstrap": secured.bootstrap, "file": secured.security.client_file, "folder": secured.folder}
    return [word.format(**places, **names) for word in words]


def test_every_command_works(tidelog, secured):
    """Each is tried until it works: what one broker changed the others learn a moment later."""
    secret = secured.client_options["sasl.password"]
    for name, lines in RUNS.items():
        words = name.split()
        for line in lines:
            group = words[:1] if words[0] in ("transactions", "features") else words  # its options are the group's
            command, results = [*group, *written(secured, line)], []

            def works(command=command, name=name, results=results):
                result = tidelog(*command, given=b"hello\n")
                results.append(result)
                assert secret not in result.out + result.err
                refused = name in REFUSED and "AUTHORIZATION" not in result.err and "SASL" not in result.err
                found_problems = name.startswith("explain") and result.code == 2  # a group without members
                return result.code == 0 or refused or found_problems

            try:
                wait_for(works, " ".join([*group, *line]))
            except AssertionError as error:
                raise AssertionError(results[-1]) from error


def test_a_delegation_token_logs_in_at_every_broker(tidelog, secured):
    """One of the cluster's own secret, which nobody had to configure."""
    made = tidelog("tokens", *written(secured, REACHED), "--create", "--max-life-time-period", "-1").out
    token_id, hmac = re.search(r"tokenId : (\S+)", made)[1], re.search(r"\S{86}==", made)[0]
    by_token = login("SCRAM-SHA-256", token_id, hmac).replace(";", ' tokenauth="true";')
    options = {**secured.security.client_options(), "sasl.jaas.config": by_token, "sasl.mechanism": "SCRAM-SHA-256"}
    for broker in secured.brokers:

        def works(broker=broker):
            try:
                with Admin(broker.address, **keywords(AdminOptions, options)) as admin:
                    return admin.ask(MetadataRequest(topics=None)).topics
            except ApiError:
                return []

        assert "t" in [topic.name for topic in wait_for(works, f"{broker} knows the token")]


def test_no_command_works_without_the_options(tidelog, secured, tmp_path):
    """So that the test above cannot pass because of a listener that is open."""
    file = tmp_path / "client.properties"
    wrong = secured.security.client_file.read_text().replace(secured.client_options["sasl.password"], "wrong")
    file.write_text(wrong)
    result = tidelog("topics", "--list", "--bootstrap-server", secured.bootstrap, "--command-config", str(file))
    assert result.code == 1
    assert "refuses user 'admin'" in result.err


def test_a_user_without_a_right_is_told_so(tidelog, secured, tmp_path, monkeypatch):
    monkeypatch.setattr(transport, "DENIED_MS", 0)
    admin = AdminClient(secured.client_options)
    added = UserScramCredentialUpsertion("bob", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"builder")
    admin.alter_user_scram_credentials([added])["bob"].result(30)
    own = {**secured.security.client_options(), "sasl.jaas.config": login("SCRAM-SHA-512", "bob", "builder")}
    file = tmp_path / "client.properties"
    file.write_text(properties.text(own))
    reached = ("--bootstrap-server", secured.bootstrap, "--command-config", str(file))

    def knows_bob():
        return tidelog("topics", "--list", *reached).code == 0

    wait_for(knows_bob, "bob can log in")
    assert tidelog("topics", "--list", *reached).lines == []
    for command, more in (("consume", ("--from-beginning",)), ("produce", ())):
        result = tidelog(command, "--topic", "t", *more, *reached, given=b"hello\n")
        assert result.code == 1
        assert "TOPIC_AUTHORIZATION_FAILED" in result.err
