"""`tidelog storage`: what it writes and prints, and each refusal. test_storage_as_kafka.py compares it with Kafka's tool."""

import pytest

from tests.quorum.test_snapshots import loaded
from tidelog.cli.brokers import storage_format
from tidelog.log.checkpoints import MetaProperties, format_meta_properties, read_meta_properties
from tidelog.model import id_bytes
from tidelog.quorum.snapshots import QuorumState

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
VOTERS = "1@one:9093:JEXY6aqzQY-32P5TStzaFg,2@two:9094:MvDxzVmcRsaTz33bUuRU6A"


@pytest.fixture
def node(tidelog, tmp_path):
    """`node("format", …, changed={…})`: the command for a node with two directories, a and b."""

    def call(action, *arguments, **changed):
        options = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://one:9092,CONTROLLER://one:9093",
            "controller.quorum.bootstrap.servers": "one:9093",
            "log.dirs": f"{tmp_path}/a,{tmp_path}/b",
            **{name.replace("_", "."): text for name, text in changed.items()},
        }
        file = tmp_path / "server.properties"
        file.write_text("".join(f"{name}={text}\n" for name, text in options.items() if text is not None))
        given = ("--cluster-id", CLUSTER) if action == "format" and "--cluster-id" not in arguments else ()
        return tidelog("storage", action, "--config", str(file), *given, *arguments)

    return call


def bootstrap(folder):
    return loaded((folder / "bootstrap.checkpoint").read_bytes())


def meta(folder):
    return read_meta_properties((folder / "meta.properties").read_bytes(), "")


def voters(folder):
    return loaded((folder / "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint").read_bytes(), 0)


def test_a_standalone_controller_is_the_only_voter(node, tmp_path):
    result = node("format", "--standalone")
    assert (result.code, result.err) == (0, "")
    assert result.lines[1:] == [
        f"Formatting dynamic metadata voter directory {tmp_path}/a with metadata.version 4.3-IV0.",
        f"Formatting data directory {tmp_path}/b with metadata.version 4.3-IV0.",
    ]
    state = voters(tmp_path / "a").state
    (voter,) = state.voters
    assert (state.kraft_version, voter.voter_id) == (1, 1)
    assert [(each.name, each.host, each.port) for each in voter.endpoints] == [("CONTROLLER", "one", 9093)]
    assert meta(tmp_path / "a") == (CLUSTER, 1, voter.voter_directory_id)
    assert sorted(each.name for each in (tmp_path / "b").iterdir()) == ["bootstrap.checkpoint", "meta.properties"]
    assert meta(tmp_path / "b").directory_id not in (None, voter.voter_directory_id)
    for folder in "ab":
        found = bootstrap(tmp_path / folder)
        assert (found.features["metadata.version"], found.features["transaction.version"]) == (30, 2)
        assert "kraft.version" not in found.features
        assert found.state == QuorumState(0, None)


def test_a_brokers_directory_from_before_the_quorum_learns_the_controllers(node, tmp_path):
    """Its meta.properties is there already. Only what is missing is written."""
    folder = tmp_path / "a"
    folder.mkdir()
    own = MetaProperties(CLUSTER, 3, bytes(range(16)))
    (folder / "meta.properties").write_bytes(format_meta_properties(own))
    as_node_3 = {"node_id": "3", "log_dirs": str(folder)}
    other = node("format", "-g", "-I", f"{VOTERS},3@three:9095:JEXY6aqzQY-32P5TStzaFg", **as_node_3)
    assert (other.code, other.err.split(":")[0]) == (1, f"{folder} is formatted with another directory ID")
    result = node("format", "-g", "-I", VOTERS, **as_node_3)
    assert result.lines == [f"Naming the controllers in {folder}.", "All of the log directories are already formatted."]
    assert [voter.voter_id for voter in voters(folder).state.voters] == [1, 2]
    assert meta(folder) == own
    assert node("format", "-g", "-I", VOTERS, **as_node_3).lines == [result.lines[1]]


def test_the_first_controllers_are_the_same_on_every_node(node, tmp_path):
    assert node("format", "--initial-controllers", VOTERS).code == 0
    first = voters(tmp_path / "a").state
    assert [each.voter_id for each in first.voters] == [1, 2]
    assert meta(tmp_path / "a").directory_id == id_bytes("JEXY6aqzQY-32P5TStzaFg")
    (tmp_path / "a/meta.properties").unlink()
    result = node("format", "-g", "-I", VOTERS, node_id="1", log_dirs=f"{tmp_path}/a")
    assert (result.code, voters(tmp_path / "a").state) == (0, first)
    result = node("format", "-I", VOTERS, node_id="5", log_dirs=f"{tmp_path}/c")
    assert "Formatting dynamic metadata directory" in result.out
    assert voters(tmp_path / "c").state == first


def test_a_node_that_joins_others_names_no_voter(node, tmp_path):
    assert node("format", "--no-initial-controllers").code == 0
    assert not (tmp_path / "a/__cluster_metadata-0").exists()


def test_users_and_features_of_the_new_cluster(node, tmp_path):
    users = tmp_path / "users"
    users.write_text("SCRAM-SHA-512=[name=alice,password=secret]\n")
    result = node("format", "-s", "-r", "3.9", "-f", "group.version=1", "-S", f"@{users}")
    assert (result.code, "secret" in result.out) == (0, False)
    assert "UserScramCredentialRecord(name='alice', mechanism=2)" in result.out
    found = bootstrap(tmp_path / "b")
    assert found.features == {"metadata.version": 21, "group.version": 1}
    assert [(user.name, user.mechanism, user.iterations) for user in found.users] == [("alice", 2, 4096)]


def test_only_directories_that_are_not_formatted_are_written(node, tmp_path):
    node("format", "-s")
    before = {file: file.read_bytes() for file in (tmp_path / "a").rglob("*") if file.is_file()}
    refused = node("format", "-s")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith(f"Log directory {tmp_path}/a is already formatted. Use --ignore-formatted")
    assert node("format", "-s", "-g").out == "All of the log directories are already formatted.\n"
    (tmp_path / "b/meta.properties").unlink()
    assert f"Formatting data directory {tmp_path}/b" in node("format", "-s", "-g").out
    assert {file: file.read_bytes() for file in (tmp_path / "a").rglob("*") if file.is_file()} == before


def test_directories_of_others_are_never_written(node, tmp_path):
    node("format", "-s")
    (tmp_path / "b/meta.properties").unlink()
    before = {
        file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file() and file.suffix != ".properties"
    }
    other = node("format", "-s", "-g", "--cluster-id", "other")
    assert (other.code, other.err) == (1, f"{tmp_path}/a is of the cluster {CLUSTER}, not of other.\n")
    other = node("format", "-s", "-g", node_id="2")
    assert (other.code, other.err) == (1, f"{tmp_path}/a is of node 1, not of node 2.\n")
    assert not (tmp_path / "b/meta.properties").exists()
    assert all(file.read_bytes() == content for file, content in before.items())


def test_directories_are_described(node, tmp_path):
    assert node("info").out == f"Found problems:\n  {tmp_path}/a does not exist\n  {tmp_path}/b does not exist\n\n"
    node("format", "-s")
    result = node("info")
    assert (result.code, result.lines[:3]) == (0, ["Found log directories:", f"  {tmp_path}/a", f"  {tmp_path}/b"])
    assert result.lines[4].startswith(f"Found metadata: {{cluster.id={CLUSTER}, directory.id=")
    (tmp_path / "b/meta.properties").write_text("version=9\n")
    result = node("info")
    assert result.code == 1
    assert f"  Error loading {tmp_path}/b/meta.properties: version '9' is not known" in result.lines


def test_a_directory_that_cannot_be_written_is_one_sentence(node, tmp_path):
    (tmp_path / "file").write_text("")
    result = node("format", "-s", log_dirs=f"{tmp_path}/file/a")
    assert (result.code, result.err) == (1, "No available log directories to format.\n")
    result = node("format", "-s", log_dirs="/proc/tidelog")
    assert result.code == 1
    assert result.err.startswith("/proc/tidelog cannot be formatted: ")
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "changed", "sentence"),
    [
        ((), {}, "Because controller.quorum.voters is not set on this controller, you must specify one of the following"),
        (("-s",), {"controller_quorum_voters": "1@one:9093"}, "You cannot specify controller.quorum.voters and format"),
        (("-s", "-N"), {}, "--standalone and --no-initial-controllers cannot be used together"),
        (("-s",), {"process_roles": "broker", "listeners": "PLAINTEXT://:9092"}, "You can only use --standalone on a contr"),
        (("-I", ""), {}, "--initial-controllers names no controller; expected ID@HOST:PORT:DIRECTORY"),
        (("-I", "1@one:9093"), {}, "'1@one:9093' is not a controller; expected ID@HOST:PORT:DIRECTORY"),
        (("-I", "1@one:x:JEXY6aqzQY-32P5TStzaFg"), {}, "is not a controller"),
        (("-I", "1@one:9093:xx"), {}, "'xx' is not the ID of a directory"),
        (("-I", "1@0.0.0.0:9093:JEXY6aqzQY-32P5TStzaFg"), {}, "--initial-controllers: nobody can connect to 0.0.0.0; set"),
        (("-I", f"{VOTERS},{VOTERS}"), {}, "--initial-controllers has node 1 more than once"),
        (("-s", "-r", "3.3", "-S", "SCRAM-SHA-256=[name=a,password=b]"), {}, "SCRAM is only supported in metadata.version"),
        (("-s", "--cluster-id", ""), {}, "--cluster-id is empty"),
        (("-s",), {"node_id": None}, "node.id is missing"),
        (("-s",), {"num_partitions": "x"}, "num.partitions must be"),
    ],
)  # fmt: skip
def test_a_request_that_contradicts_itself_writes_nothing(node, tmp_path, arguments, changed, sentence):
    result = node("format", *arguments, **changed)
    assert (result.code, result.out) == (1, "")
    assert sentence in result.err
    assert [each.name for each in tmp_path.iterdir()] == ["server.properties"]


def test_a_random_id_can_be_an_argument(tidelog, monkeypatch):
    first, second = (tidelog("storage", "random-uuid").out.strip() for _ in range(2))
    assert first != second
    assert len(id_bytes(first)) == 16
    drawn = iter([b"\xf8" + bytes(15), b"\x01" * 16])
    monkeypatch.setattr(storage_format.os, "urandom", lambda _: next(drawn))
    assert tidelog("storage", "random-uuid").out[0] != "-"
