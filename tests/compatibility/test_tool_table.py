"""A table of what operators do with Apache Kafka's own tools, and what has to come of it, on three processes. The tools'
other uses are in `test_kafka_tools.py`.

The whole table runs on SQLite. The store lies below the admin APIs, which know no difference; so on ZooKeeper there are
only the rows that write to the tree of nodes, and one that reads each of them back: `ON_ZOOKEEPER`.
"""

import json
import re
import subprocess
from typing import NamedTuple

import pytest

from tests.compatibility.stores import running
from tests.waiting import wait_for
from tidelog.cli.main import run

CONFIGS, GROUPS = "kafka.admin.ConfigCommand", "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
THREE = r"Replicas: \d,\d,\d\tIsr: \d,\d,\d\t"


ELR = "eligible.leader.replicas.version"


class Row(NamedTuple):
    """A tool with its arguments; a pattern of what it prints, sooner or later; what may be put in stands in braces."""

    tool: str
    arguments: str
    prints: str


TABLE = [
    Row("TopicCommand", "--create --topic t --partitions 2 --replication-factor 3", r"Created topic t\."),
    Row(
        "TopicCommand", "--create --topic short --replica-assignment 0:1,1:2 --config min.insync.replicas=2", "Created"
    ),
    Row("TopicCommand", "--list", r"(?m)^short\nt$"),
    Row("TopicCommand", "--describe --topic t", rf"PartitionCount: 2\t.*\n(.*{THREE}.*\n?){{2}}"),
    Row("TopicCommand", "--describe --at-min-isr-partitions", r"\tTopic: short\t"),
    Row("TopicCommand", "--describe --under-replicated-partitions", r"^\s*$"),
    Row("TopicCommand", "--describe --topics-with-overrides", r"Topic: short\t.*Configs: .*min.insync.replicas=2"),
    Row("TopicCommand", "--alter --topic t --partitions 3", r"^\s*$"),
    Row("TopicCommand", "--describe --topic t", r"PartitionCount: 3\t"),
    Row(CONFIGS, "--alter --topic t --add-config retention.ms=1000000,cleanup.policy=[compact,delete]", "Completed"),
    Row(CONFIGS, "--describe --topic t", r"(?s)cleanup.policy=compact,delete .*retention.ms=1000000 "),
    Row(CONFIGS, "--alter --topic t --delete-config cleanup.policy", "Completed"),
    Row(CONFIGS, "--describe --topic t", r"are:\n  retention.ms=1000000 [^\n]*\n?$"),
    Row(CONFIGS, "--alter --broker 1 --add-config log.cleaner.threads=2", "updating config for broker 1"),
    Row(CONFIGS, "--alter --broker-defaults --add-config log.retention.ms=3600000", "default config for brokers"),
    Row(
        CONFIGS,
        "--describe --broker 1 --all",
        r"(?s)log.cleaner.threads=2 .*DYNAMIC_BROKER_CONFIG.*log.retention.ms=3600000 .*DYNAMIC_DEFAULT_BROKER_CONFIG",
    ),
    Row(CONFIGS, "--alter --client c --add-config producer_byte_rate=1000000,request_percentage=50", "client c"),
    Row(CONFIGS, "--describe --entity-type clients", r"client-id 'c' are .*producer_byte_rate=1000000.0"),
    Row(CONFIGS, "--alter --user u --client c --add-config consumer_byte_rate=1000", "Completed"),
    Row(CONFIGS, "--describe --entity-type users --entity-type clients", r"user-principal 'u', client-id 'c' are "),
    Row(CONFIGS, "--describe --entity-type users", r"^\s*$"),
    Row(CONFIGS, "--alter --ip 10.0.0.1 --add-config connection_creation_rate=5", "Completed"),
    Row(CONFIGS, "--describe --entity-type ips", r"ip '10.0.0.1' are connection_creation_rate=5.0"),
    Row(CONFIGS, "--alter --group g --add-config consumer.session.timeout.ms=50000", "Completed"),
    Row(CONFIGS, "--describe --group g", r"consumer.session.timeout.ms=50000 .*DYNAMIC_GROUP_CONFIG"),
    Row("VerifiableProducer", "--topic t --max-messages 30 --repeating-keys 10", r'"acked":30'),
    Row("GetOffsetShell", "--topic t", r"(t:\d:\d+\n?){3}"),
    Row("DeleteRecordsCommand", "--offset-json-file {records}", r"partition: t-0\tlow_watermark: 1"),
    Row("GetOffsetShell", "--topic-partitions t:0 --time earliest", r"t:0:1"),
    Row("consumer.ConsoleConsumer", "--topic t --group g --from-beginning --max-messages 29 --timeout-ms 30000", r"\d"),
    Row(GROUPS, "--list", r"(?m)^g$"),
    Row(GROUPS, "--describe --group g", r"(?s)GROUP\s+TOPIC\s+PARTITION.*g +t +0 "),
    Row(GROUPS, "--group g --topic t:0 --reset-offsets --to-earliest --execute", r"g +t +0 +1\b"),
    Row(GROUPS, "--group g --topic t:0 --reset-offsets --shift-by 1 --dry-run", r"g +t +0 +2\b"),
    Row(GROUPS, "--group g --delete-offsets --topic t", r"t +0 +Successful"),
    Row(GROUPS, "--delete --group g", "was successful"),
    Row("LeaderElectionCommand", "--election-type preferred --all-topic-partitions", r"^((?!rror)[\s\S])*$"),
    Row("LogDirsCommand", "--describe --topic-list t", r'"broker":0[\s\S]*"partition":"t-0"'),
    Row("reassign.ReassignPartitionsCommand", "--reassignment-json-file {moves} --execute", "Successfully started"),
    Row("reassign.ReassignPartitionsCommand", "--reassignment-json-file {moves} --verify", r"short-0 is completed"),
    Row("reassign.ReassignPartitionsCommand", "--list", "No partition reassignments found"),
    Row("TopicCommand", "--describe --topic short", rf"ReplicationFactor: 3\t[\s\S]*{THREE}"),
    Row("BrokerApiVersionsCommand", "", r"127\.0\.0\.1:\d+ \(id: 0 rack: null isFenced: false\) -> \("),
    Row("ClusterTool", "cluster-id", r"Cluster ID: \S{22}"),
    Row("ClusterTool", "list-endpoints", r"2\s+127\.0\.0\.1\s+\d+\s+null\s+unfenced\s+broker"),
    Row("FeatureCommand", "describe", r"Feature: metadata\.version\s.*FinalizedVersionLevel: 4\.3-IV0"),
    Row("FeatureCommand", f"downgrade --feature {ELR}=0", rf"{ELR} was downgraded to 0\."),
    Row("FeatureCommand", f"upgrade --feature {ELR}=1", rf"{ELR} was upgraded to 1\."),
    Row(
        "FeatureCommand",
        "describe",
        rf"Feature: {ELR}\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 1\s+FinalizedVersionLevel: 1\s+Epoch: 2",
    ),
    Row(
        "ClientCompatibilityTest",
        "--topic compatible --num-cluster-nodes 3 --offsets-for-times-supported true --cluster-id-supported true"
        " --create-topics-supported true --describe-acls-supported false --describe-configs-supported true"
        " --expect-record-too-large-exception false --idempotent-producer-supported true",
        r"SUCCESS\.",
    ),
    Row("TopicCommand", "--delete --topic t", r"^\s*$"),
    Row("TopicCommand", "--list", r"^((?!\bt\b)[\s\S])*$"),
]


ON_ZOOKEEPER = [
    Row("TopicCommand", "--create --topic short --replica-assignment 0:1,1:2", "Created"),
    Row("TopicCommand", "--alter --topic short --partitions 3", r"^\s*$"),
    Row(CONFIGS, "--alter --topic short --add-config retention.ms=1000000", "Completed"),
    Row("TopicCommand", "--describe --topic short", r"PartitionCount: 3\t[\s\S]*retention.ms=1000000"),
    Row(CONFIGS, "--alter --client c --add-config request_percentage=50", "client c"),
    Row(CONFIGS, "--describe --entity-type clients", r"client-id 'c' are .*request_percentage=50"),
    Row("reassign.ReassignPartitionsCommand", "--reassignment-json-file {moves} --execute", "Successfully started"),
    Row("reassign.ReassignPartitionsCommand", "--reassignment-json-file {moves} --verify", r"short-0 is completed"),
    Row("LeaderElectionCommand", "--election-type preferred --all-topic-partitions", r"^((?!rror)[\s\S])*$"),
    Row("TopicCommand", "--delete --topic short", r"^\s*$"),
    Row("TopicCommand", "--list", r"^((?!\bshort\b)[\s\S])*$"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with running("sqlite", tmp_path_factory.mktemp("sqlite")) as found:
        yield found


@pytest.fixture(scope="module")
def on_zookeeper(tmp_path_factory, zookeeper):
    with running("zookeeper", tmp_path_factory.mktemp("zookeeper"), f"{zookeeper.hosts}/table") as found:
        yield found


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    written = {
        "records": {"version": 1, "partitions": [{"topic": "t", "partition": 0, "offset": 1}]},
        "moves": {"version": 1, "partitions": [{"topic": "short", "partition": 0, "replicas": [2, 1, 0]}]},
    }
    for name, content in written.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return {name: str(folder / name) for name in written}


def named(row):
    return f"{row.tool.rpartition('.')[2]} {row.arguments}"[:70]


@pytest.mark.parametrize("row", TABLE, ids=named)
def test_the_tool_does_it(store, kafka_tool, files, row):
    carry_out(row, store, kafka_tool, files)


@pytest.mark.parametrize("row", ON_ZOOKEEPER, ids=named)
def test_the_tool_does_it_on_zookeeper(on_zookeeper, kafka_tool, files, row):
    carry_out(row, on_zookeeper, kafka_tool, files)


def carry_out(row, store, kafka_tool, files):
    name = row.tool if row.tool.startswith(("org.", "kafka.")) else f"org.apache.kafka.tools.{row.tool}"
    arguments = row.arguments.format(**files).split()
    place = ["--bootstrap-server", store.cluster.bootstrap]
    given = [*arguments, *place] if row.tool == "ClusterTool" else [*place, *arguments]
    told = []

    def done():
        told.append(kafka_tool(name, *given))
        return re.search(row.prints, told[-1])

    if is_a_question(row):
        wait_for(done, f"{row.prints} in {told}")
    else:
        assert done(), told


def is_a_question(row):
    """What can be asked again until every broker knows."""
    asked = ("--describe", "--list", "--verify", "--time")
    return row.tool == "GetOffsetShell" or any(each in row.arguments for each in asked)


FEATURES = f"""
describe
describe --node-id 1
version-mapping
version-mapping --release-version 3.9
version-mapping --release-version 4.0-IV1
version-mapping --release-version 4.4-IV0
version-mapping --release-version 4.4
feature-dependencies --feature transaction.version=2 --feature metadata.version=17 --feature {ELR}=1 --feature kraft.version=0
feature-dependencies --feature group.version=1 --feature share.version=2
feature-dependencies --feature metadata.version=6
feature-dependencies --feature no.such.feature=1
feature-dependencies --feature transaction.version
upgrade
downgrade --feature {ELR}
disable --feature {ELR} --feature {ELR}
upgrade --release-version 4.0 --feature {ELR}=1
upgrade --metadata 9.9
upgrade --metadata 4.3-IV0 --dry-run
upgrade --feature {ELR}=2 --feature group.version=1
upgrade --feature {ELR}=0
downgrade --feature {ELR}=-1
upgrade --feature no.such.feature=1
upgrade --feature {ELR}=1 --dry-run
downgrade --feature {ELR}=0 --dry-run
downgrade --feature {ELR}=0
describe
disable --feature {ELR} --dry-run
disable --feature group.version --unsafe --dry-run
downgrade --feature {ELR}=1
upgrade --feature {ELR}=1 --feature group.version=1
describe
disable --feature {ELR}
upgrade --feature {ELR}=1
"""


@pytest.mark.parametrize("place", ["store", "on_zookeeper"])
def test_features_are_described_and_changed_as_by_kafkas_tool(request, tool_server, capsys, place):
    check_features(request.getfixturevalue(place).cluster.bootstrap, tool_server, capsys)


def check_features(address, tool_server, capsys):
    """Each line by Kafka's tool, then each by ours, which must say and do the same."""
    bootstrap = ("--bootstrap-server", address)

    def theirs(arguments):
        done = tool_server.run("org.apache.kafka.tools.FeatureCommand", *bootstrap, *arguments)
        return done.returncode, done.stdout, done.stderr.strip()

    def ours(arguments):
        capsys.readouterr()
        code = run(["features", *bootstrap, *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err.strip()

    epoch = int(re.search(r"Epoch: (\d+)", ours(["describe"])[1])[1])
    told, changes = said_of_features(theirs, epoch)
    assert changes == 4
    again, _ = said_of_features(ours, epoch + changes)
    for mine, expected in zip(again, told, strict=True):
        assert mine == expected


def said_of_features(tool, epoch):
    """What the tool said at each line, with epochs that count from `epoch`, and how many changes it made."""
    told, changes = [], 0
    for line in FEATURES.strip().split("\n"):
        code, out, err = said_currently(tool, line, f"Epoch: {epoch + changes}\n")
        told.append((line, code, out.replace(f"Epoch: {epoch + changes}\n", f"Epoch: {changes}\n"), err))
        changes += out.startswith(f"{ELR} was ")
    return told, changes


def said_currently(tool, line, current):
    """What the tool says once a broker describes features with their current epoch: it learns of a change a moment
    later."""

    def said():
        told = tool(line.split())
        return told if not line.startswith("describe") or current in told[1] else None

    return wait_for(said, f"{line} with {current}")


def test_kcat_lists_the_cluster(store):
    listed = subprocess.run(
        ["kcat", "-L", "-b", store.cluster.bootstrap], capture_output=True, text=True, check=True, timeout=60
    )
    assert re.search(r" 3 brokers:\n(  broker \d at 127\.0\.0\.1:\d+( \(controller\))?\n){3}", listed.stdout)
    assert re.search(
        r"""topic "short" with 2 partitions:\n    partition 0, leader \d, replicas: 2,1,0,""", listed.stdout
    )
