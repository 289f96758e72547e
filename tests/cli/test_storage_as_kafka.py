"""`tidelog storage` beside kafka-storage.sh: the same command lines, each tool in its own folder.

Exit code, output and files are the same but for times, random IDs, the order of directories and the comments of
meta.properties. Where Kafka's refusal is a Java exception, ours is a sentence of its own: then only the exit codes are
compared. `STRICTER` names what Kafka accepts and ours does not.
"""

import re

import pytest

from tidelog.config import properties
from tidelog.wire.records import batches, crc_holds

MAIN = "kafka.tools.StorageTool"
CLUSTER = "4L6g3nShT-eMCtK--X86sw"
VOTERS = "1@127.0.0.1:9093:JEXY6aqzQY-32P5TStzaFg,2@127.0.0.1:9094:MvDxzVmcRsaTz33bUuRU6A"
DYNAMIC = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
}
FIXED = {"controller.quorum.voters": "1@127.0.0.1:9093", "controller.quorum.bootstrap.servers": None}
BROKER = {"process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:9092"}
EXCEPTION = re.compile(r'Exception in thread "main" |^usage: ', re.MULTILINE)
NOISE = re.compile(r"\tat |java\.|SLF4J|\d{4}-\d\d-\d\dT.* main ERROR ")

FORMATS = [
    ((), {}), ((), FIXED), ((), BROKER), ((), {**BROKER, **FIXED, "node.id": "7"}), (("-N",), BROKER), (("-s",), BROKER),
    (("-s",), {}), (("-s",), FIXED), (("-N",), {}), (("-N",), FIXED), (("-I", VOTERS), {}), (("-I", VOTERS), FIXED),
    (("-I", VOTERS), {"node.id": "5"}), (("-I", "2@h:1:MvDxzVmcRsaTz33bUuRU6A"), {}), (("-s", "-N"), {}),
    (("-s", "-I", VOTERS), {}),
    *((("-I", bad), {}) for bad in (
        "", "x", "1@127.0.0.1:9093", "1@h:x:JEXY6aqzQY-32P5TStzaFg", "1@h:1:xx", "a@h:1:JEXY6aqzQY-32P5TStzaFg",
        "1@h:70000:JEXY6aqzQY-32P5TStzaFg", f"{VOTERS},{VOTERS}", "1@[::1]:9093:JEXY6aqzQY-32P5TStzaFg",
    )),
    (("-s",), {"metadata.log.dir": "{folder}/c"}), ((), {**FIXED, "metadata.log.dir": "{folder}/c"}),
    (("-s",), {"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://localhost:9093"}),
    (("-s",), {"advertised.listeners": "PLAINTEXT://h:1,CONTROLLER://ctl:9094"}),
    (("-s",), {"process.roles": "controller", "listeners": "CONTROLLER://127.0.0.1:9093"}),
    *((("-r", release), FIXED) for release in ("3.0", "3.3", "3.3-IV3", "3.9", "4.0", "4.0-IV1", "4.1", "4.2", "4.4", "x")),
    *((("-f", f"metadata.version={level}"), FIXED) for level in (6, *range(7, 31), 31, 99)),
    *((("-f", feature, *more), FIXED) for feature in (
        "group.version=0", "group.version=1", "group.version=2", "group.version=-1", "group.version=x", "group.version",
        "share.version=1", "share.version=2", "streams.version=0", "transaction.version=1", "transaction.version=3",
        "eligible.leader.replicas.version=1", "kraft.version=0", "kraft.version=1", "foo=1",
    ) for more in ((), ("-r", "3.9"))),
    (("-f", "metadata.version=20", "-r", "4.0"), FIXED), (("-f", "group.version=0", "-f", "group.version=1"), FIXED),
    *((("-s", "-f", f"kraft.version={level}"), {}) for level in (0, 1, 2)),
    (("-r", "3.3", "-S", "SCRAM-SHA-256=[name=alice,password=secret]"), FIXED),
    *((("-S", user), FIXED) for user in (
        'SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]', "x", "SCRAM-SHA-1=[name=a]",
        "SCRAM-SHA-256=[name=a]", "SCRAM-SHA-256=[password=x]", "SCRAM-SHA-256=[name=a,password=b,iterations=5]",
        "SCRAM-SHA-256=name=a", "SCRAM-SHA-256=[name=a,password=b,x=y]", "SCRAM-SHA-256=[name=a,saltedpassword=YCE=]",
    )),
    *(((), {**FIXED, name: text}) for name, text in (
        ("node.id", None), ("process.roles", None), ("process.roles", "foo"), ("process.roles", "broker"),
        ("process.roles", "controller"), ("controller.listener.names", None), ("controller.listener.names", "OTHER"),
        ("listeners", "PLAINTEXT://127.0.0.1:9092"), ("listeners", None), ("controller.quorum.voters", None),
        ("controller.quorum.voters", "2@h:9093"), ("controller.quorum.voters", "1@h"),
        ("controller.quorum.voters", "x@h:1"), ("controller.quorum.election.timeout.ms", "-1"),
        ("metadata.log.segment.bytes", "100"),
    )),
    ((), {"controller.quorum.bootstrap.servers": "x"}),
]  # fmt: skip
"""Arguments of `format`, and the options that differ from DYNAMIC."""

OWN_WORDS = re.compile(
    "add-scram|'iterations' value|square brackets|SCRAM argument|start with|SCRAM configurations|stable"
)
"""Refusals of --add-scram, where ours never print what may be a password, and of releases that are not out."""

STRICTER = [
    ((), {**FIXED, "controller.quorum.voters": "1@h:9093,1@i:9093"}, "each controller once"),
    ((), {**FIXED, "controller.quorum.voters": "1@0.0.0.0:9093"}, "nobody can connect to 0.0.0.0"),
    ((), {**FIXED, "controller.quorum.auto.join.enable": "true"}, "needs controllers that are not fixed"),
    (("-t", ""), FIXED, "--cluster-id is empty"),
]


@pytest.fixture
def both(tidelog, tool_server, tmp_path):
    """`both(action, arguments, changed)` → our result and Kafka's, from the same options in folders of their own."""

    def call(action, arguments, changed, cluster=CLUSTER):
        results = []
        for name in ("ours", "kafkas"):
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            file = folder / "server.properties"
            options = {**DYNAMIC, "log.dirs": f"{folder}/a,{folder}/b", **changed}
            lines = [f"{key}={text}\n".format(folder=folder) for key, text in options.items() if text is not None]
            file.write_text("".join(lines))
            given = ("-t", cluster) if action == "format" and "-t" not in arguments else ()
            command = (action, "-c", str(file), *given, *arguments)
            if name == "ours":
                results.append(tidelog("storage", *command))
            else:
                results.append(tool_server.run(MAIN, *command))
        return results

    return call


def lines(output):
    """What a tool printed, wherever its folder is."""
    text = re.sub(r"directory\.id=[\w-]{22}", "directory.id=ID", output)
    text = re.sub(r"/\S*/(ours|kafkas)/", "/", text)
    text = re.sub(r"/[ab] is already formatted", "/ is already formatted", text)
    text = re.sub(r"(UserScramCredentialRecord\(name='\w+', mechanism=\d)[^)]*", r"\1", text)
    return sorted(line for line in text.splitlines() if line.strip() and not NOISE.match(line))


def files(folder):
    """The content of each file: checkpoints without times and checksums, the lines of meta.properties."""
    found = {}
    own = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "server.properties"):
        name, content = str(file.relative_to(folder)), file.read_bytes()
        if file.name == "meta.properties":
            found[name] = properties.parse(content.decode())
            own[file.parent] = found[name]["directory.id"]
        else:
            found[name] = timeless(content)
    return found, own


def timeless(content):
    plain = bytearray(content)
    for batch in batches(content):
        assert crc_holds(content, batch)
        start = batch.position
        plain[start + 17 : start + 21] = bytes(4)  # the checksum
        plain[start + 27 : start + 43] = bytes(16)  # times
        if batch.is_control and batch.base_offset == 0:
            header = start + 61 + 12  # behind the batch's header, and the record's with its key
            assert plain[header : header + 2] == b"\0\0"
            plain[header + 2 : header + 10] = bytes(8)
    return bytes(plain)


def without_ids(found, own, is_named):
    """Where the tools draw IDs themselves, they are left out: those of the folders, and of the only voter."""
    from tidelog.model import id_bytes

    for folder, directory_id in own.items():
        drawn = id_bytes(directory_id)
        for name, content in found.items():
            if isinstance(content, bytes):
                found[name] = content if is_named else content.replace(drawn, bytes(16))
            elif name == f"{folder.name}/meta.properties" and (not is_named or folder.name == "b"):
                content["directory.id"] = "drawn"
    return found


def assert_same(ours, kafkas):
    assert ours.code == kafkas.returncode, (ours, kafkas.stderr)
    refusal = "\n".join(line for line in kafkas.stderr.splitlines() if not NOISE.match(line)).strip()
    if ours.code and (EXCEPTION.search(refusal) or OWN_WORDS.search(refusal)):
        assert len(ours.err.strip().splitlines()[-1:]) == 1
    else:
        own = [line for line in ours.err.splitlines() if not line.startswith("A password on the command line")]
        assert lines("\n".join(own)) == lines(refusal)
        assert lines(ours.out) == lines(kafkas.stdout)


@pytest.mark.parametrize(("arguments", "changed"), FORMATS, ids=lambda value: " ".join(value)[:60] or "-")
def test_the_same_command_formats_the_same_or_is_refused_by_both(both, tmp_path, arguments, changed):
    ours, kafkas = both("format", arguments, changed)
    assert_same(ours, kafkas)
    is_named = any(each.startswith("1@") for each in arguments) and "node.id" not in changed
    if any("SCRAM" in each for each in arguments) and "saltedpassword" not in "".join(arguments):
        return
    expected = without_ids(*files(tmp_path / "kafkas"), is_named)
    assert without_ids(*files(tmp_path / "ours"), is_named) == expected
    assert bool(expected) == (ours.code == 0)


@pytest.mark.parametrize(("arguments", "changed", "sentence"), STRICTER)
def test_what_could_never_work_is_refused_by_ours_only(both, arguments, changed, sentence):
    ours, kafkas = both("format", arguments, changed)
    assert (ours.code, kafkas.returncode) == (1, 0)
    assert sentence in ours.err


def test_directories_that_the_other_tool_formatted(both, tidelog, tool_server, tmp_path):
    both("format", ("-s",), {})
    (tmp_path / "ours").rename(tmp_path / "swapped")
    (tmp_path / "kafkas").rename(tmp_path / "ours")
    (tmp_path / "swapped").rename(tmp_path / "kafkas")
    for action, arguments, changed in (
        ("info", (), {}),
        ("info", (), {"node.id": "2"}),
        ("format", ("-s",), {}),
        ("format", ("-s", "-g"), {}),
        ("format", ("-s", "-g"), {"node.id": "2"}),
        ("format", ("-s", "-g", "-t", "other"), {}),
        ("format", ("-s", "-g"), {"log.dirs": "{folder}/a,{folder}/b,{folder}/d"}),
        ("info", (), {"log.dirs": "{folder}/a,{folder}/b,{folder}/d"}),
    ):
        assert_same(*both(action, arguments, changed))


FOLDERS = {
    "nothing": [],
    "empty": ["a/", "b/"],
    "a file": ["a/", "b"],
    "another cluster": ["a/meta.properties version=1 node.id=1 cluster.id=x", "b/meta.properties version=1 node.id=1 cluster.id=y"],
    "another node": ["a/meta.properties version=1 node.id=1 cluster.id=x", "b/meta.properties version=1 node.id=2 cluster.id=x"],
    "of ZooKeeper": ["a/meta.properties version=0 broker.id=1 cluster.id=x", "b/meta.properties version=0 broker.id=1 cluster.id=x"],
    "half": ["a/meta.properties version=1 node.id=1 cluster.id=x", "b/"],
}  # fmt: skip


@pytest.mark.parametrize("action", ["info", "format"])
@pytest.mark.parametrize("given", FOLDERS.values(), ids=FOLDERS)
def test_directories_as_they_are_found(both, tmp_path, action, given):
    for root in ("ours", "kafkas"):
        for entry in given:
            path, *content = entry.split(" ")
            file = tmp_path / root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            if path.endswith("/"):
                file.mkdir()
            else:
                file.write_text("\n".join(content))
    assert_same(*both(action, ("-s", "-g") if action == "format" else (), {}, cluster="x"))


def test_command_lines(tidelog, tool_server):
    for command in (("format",), ("info",), ("other",), ("info", "--foo"), ("info", "-c", "/none"), ("random-uuid",)):
        assert tidelog("storage", *command).code == tool_server.run(MAIN, *command).returncode
