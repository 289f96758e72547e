"""kafka-metadata-quorum and kafka-features against four real brokers, of which three vote; `tidelog quorum` prints the
same lines, and kafka-python describes the same quorum."""

import re
import warnings

import pytest

from tests.compatibility.test_tool_table import check_features
from tests.processes import Processes
from tests.waiting import wait_for
from tidelog.cli.main import run
from tidelog.log.checkpoints import META_PROPERTIES, read_meta_properties
from tidelog.model import id_text

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kafka.admin import KafkaAdminClient

TOOL, FEATURES = "org.apache.kafka.tools.MetadataQuorumCommand", "org.apache.kafka.tools.FeatureCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("clients_sockets_are_collected"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Processes(tmp_path_factory.mktemp("quorum"), brokers=4, port=0, quorum=True) as running:
        yield running


@pytest.fixture
def both(cluster, tool_server, capsys):
    """What Kafka's tool and ours did: exit status, stdout and stderr of each."""

    def call(*arguments, where=("--bootstrap-server", "")):
        place = (where[0], where[1] or cluster.bootstrap)
        theirs = tool_server.run(TOOL, *place, *arguments)
        capsys.readouterr()
        code = run(["quorum", *place, *arguments])
        ours = capsys.readouterr()
        return (theirs.returncode, theirs.stdout, theirs.stderr), (code, ours.out, ours.err)

    return call


def still(text):
    """Without what changes from one moment to the next: offsets, lags and times."""
    text = re.sub(r"(HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs): +-?\d+", r"\1: N", text)
    return [re.sub(r"\b\d+ ms ago|\b\d{13}\b", "T", re.sub(r" +", " ", line)) for line in text.splitlines()]


def directory(cluster, number):
    file = cluster.children[number].folder / META_PROPERTIES
    return id_text(read_meta_properties(file.read_bytes(), str(file)).directory_id)


def test_the_status_of_the_quorum(cluster, both):
    def same():
        theirs, ours = both("describe", "--status")
        assert (theirs[0], ours[0]) == (0, 0), (theirs, ours)
        assert still(theirs[1]) == still(ours[1])
        return theirs[1] if '"id": 3' in theirs[1] else None

    told = wait_for(same, "broker 3 as an observer")
    for number in range(3):
        assert f'{{"id": {number}, "directoryId": "{directory(cluster, number)}", "endpoints": ["CONTROLLER://' in told
    assert re.search(rf'CurrentObservers: +\[{{"id": 3, "directoryId": "{directory(cluster, 3)}"}}\]', told)


@pytest.mark.parametrize("more", [(), ("--human-readable",)])
def test_how_far_each_replica_is(both, more):
    theirs, ours = both("describe", "--replication", *more)
    assert (theirs[0], ours[0]) == (0, 0), (theirs, ours)

    def shape(told):
        return [(row[0], row[1], row[-1]) for row in map(str.split, told.splitlines())]

    assert shape(theirs[1]) == shape(ours[1])
    assert [row[2] for row in shape(ours[1])] == ["Status", "Leader", "Follower", "Follower", "Observer"]
    assert [line.count("\t") for line in theirs[1].splitlines()] == [line.count("\t") for line in ours[1].splitlines()]


def test_kafka_python_describes_it(cluster):
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        told = admin.describe_metadata_quorum()
    finally:
        admin.close()
    (topic,) = told["topics"]
    (partition,) = topic["partitions"]
    assert topic["topic_name"] == "__cluster_metadata"
    assert [voter["replica_id"] for voter in partition["current_voters"]] == [0, 1, 2]
    assert partition["leader_id"] in (0, 1, 2)


def voters(cluster, capsys):
    capsys.readouterr()
    assert run(["quorum", "--bootstrap-server", cluster.bootstrap, "describe", "--status"]) == 0
    told = capsys.readouterr().out
    line = re.search(r"(?m)^CurrentVoters: .*$", told)[0]
    return int(re.search(r"(?m)^LeaderId: +(\d+)$", told)[1]), sorted(map(int, re.findall(r'"id": (\d+)', line)))


def test_a_controller_is_removed_and_added_by_either_tool(cluster, both, tool_server, capsys):
    """A follower, which goes on as an observer."""
    leader, ids = voters(cluster, capsys)
    assert ids == [0, 1, 2]
    follower = (leader + 1) % 3
    file = str(cluster.children[follower].folder / "server.properties")
    place = ("--bootstrap-server", cluster.bootstrap)
    key = ("--controller-id", str(follower), "--controller-directory-id", directory(cluster, follower))

    def theirs(*arguments):
        done = tool_server.run(TOOL, *place, *arguments)
        return done.returncode, done.stdout

    def ours(*arguments):
        capsys.readouterr()
        return run(["quorum", *place, *arguments]), capsys.readouterr().out

    kafka, tidelog = both("remove-controller", *key, "--dry-run")
    assert kafka == tidelog
    kafka, tidelog = both("--command-config", file, "add-controller", "--dry-run")
    assert kafka == tidelog
    told = []
    for tool in (theirs, ours):
        removed = tool("remove-controller", *key)
        assert removed[0] == 0, removed
        assert voters(cluster, capsys)[1] == sorted({0, 1, 2} - {follower})
        added = tool("--command-config", file, "add-controller")
        assert added[0] == 0, added
        assert voters(cluster, capsys)[1] == [0, 1, 2]
        told.append((removed, added))
    assert told[0] == told[1]


def test_features_are_described_and_changed_as_by_kafkas_tool(cluster, tool_server, capsys):
    check_features(cluster.bootstrap, tool_server, capsys)


def test_features_at_their_level_are_not_refused(cluster, tool_server, capsys):
    """A release's levels are refused only for features that Tidelog does not have."""
    place = ("--bootstrap-server", cluster.bootstrap)
    said = {}
    for line in (
        "upgrade --feature kraft.version=1",
        "downgrade --feature kraft.version=1 --dry-run",
        "upgrade --release-version 4.3 --dry-run",
        "upgrade --release-version 4.0 --dry-run",
    ):
        theirs = tool_server.run(FEATURES, *place, *line.split())
        capsys.readouterr()
        assert run(["features", *place, *line.split()]) == theirs.returncode
        assert capsys.readouterr().out == theirs.stdout
        said[line] = theirs.stdout
    assert said["upgrade --feature kraft.version=1"] == "kraft.version was upgraded to 1.\n"
    refused = said["upgrade --release-version 4.3 --dry-run"]
    assert set(re.findall(r"for feature (\S+)\. ", refused)) <= {"share.version", "streams.version"}


def test_either_tool_asks_the_controllers(cluster, both, tool_server, capsys):
    """With --bootstrap-controller they begin with DescribeCluster, and never ask a broker."""
    (_, told, _), _ = both("describe", "--status")
    addresses = re.findall(r"CONTROLLER://(127\.0\.0\.1:\d+)", told)
    for address in addresses:
        place = ("--bootstrap-controller", address)
        theirs, ours = both("describe", "--status", where=place)
        assert (theirs[0], ours[0]) == (0, 0), (theirs, ours)
        assert still(theirs[1]) == still(ours[1]) == still(told)
        done = tool_server.run(FEATURES, *place, "describe")
        assert run(["features", *place, "describe"]) == done.returncode == 0
        assert capsys.readouterr().out == done.stdout
        assert re.search(r"Feature: kraft\.version .*FinalizedVersionLevel: 1 ", done.stdout)
        for update in ("upgrade --feature no.such.feature=1", "upgrade --feature group.version=1 --dry-run"):
            done = tool_server.run(FEATURES, *place, *update.split())
            assert run(["features", *place, *update.split()]) == done.returncode
            assert re.sub(r"controller \d", "controller", capsys.readouterr().out) == re.sub(
                r"controller \d", "controller", done.stdout
            )
    assert len(addresses) == 3


def test_what_is_wrong_is_one_sentence(cluster, both, capsys):
    leader, _ = voters(cluster, capsys)
    key = ("--controller-id", str(leader), "--controller-directory-id", "AAAAAAAAAAAAAAAAAAAAAQ")
    for arguments in (
        ("describe",),
        ("describe", "--status", "--replication"),
        ("describe", "--status", "--human-readable"),
        ("add-controller",),
        ("remove-controller", "--controller-id", "-1", *key[2:]),
        ("remove-controller", *key),
    ):
        theirs, ours = both(*arguments)
        assert (theirs[0], ours[0]) == (1, 1)
        assert theirs[1] == ours[1] == ""
        if arguments[-1] != key[-1] or "-1" in arguments:
            assert theirs[2] == ours[2]
        assert "Traceback" not in ours[2]
        assert ours[2].count("\n") == 1


def test_addresses_that_are_not_of_controllers(cluster, capsys):
    for place, said in (
        (("--bootstrap-controller", cluster.bootstrap), "This endpoint is for brokers"),
        (("--bootstrap-controller", "127.0.0.1:1"), "No broker is reachable at 127.0.0.1:1"),
        (("--bootstrap-controller", "127.0.0.1:1", "--bootstrap-server", "127.0.0.1:2"), "cannot be used together"),
    ):
        capsys.readouterr()
        assert run(["quorum", *place, "describe", "--status"]) == 1
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert said in err


def test_kafkas_tool_describes_the_cluster_of_brokers_and_of_controllers(cluster, tool_server, both, capsys):
    (_, told, _), _ = both("describe", "--status")
    controller = ("--bootstrap-controller", re.search(r"CONTROLLER://(127\.0\.0\.1:\d+)", told)[1])
    broker = ("--bootstrap-server", cluster.bootstrap)

    def theirs(*arguments, place=broker):
        return tool_server.run(CLUSTER, *arguments, *place)

    def ours(*arguments):
        capsys.readouterr()
        return run(["cluster", *arguments, *broker]), capsys.readouterr().out

    said = theirs("cluster-id")
    assert re.fullmatch(r"Cluster ID: \S{22}\n", said.stdout), said
    assert theirs("cluster-id", place=controller).stdout == said.stdout
    assert ours("cluster-id") == (0, said.stdout)
    rows = [line.split() for line in theirs("list-endpoints").stdout.splitlines()[1:]]
    assert [(row[0], row[-1]) for row in rows] == [(str(number), "broker") for number in range(4)]
    rows = [line.split() for line in theirs("list-endpoints", place=controller).stdout.splitlines()[1:]]
    assert [(row[0], row[-1]) for row in rows] == [(str(number), "controller") for number in range(3)]
