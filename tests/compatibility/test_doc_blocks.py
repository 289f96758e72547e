"""The command blocks of README and docs, run in order in a fresh folder, as a reader would type them.

Ports are free ones, a cluster starts in the background, and what would run for ever or for long is bounded; `LEFT_OUT` has
the lines that are not run, each with its reason. A command that ends otherwise than it should fails the test.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import PATIENCE_S
from tidelog.testing import Cluster

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "docs/guide.md", "docs/security.md", "docs/pipelines.md")
WITH_CLUSTER = ("docs/explain.md", "docs/console.md", "docs/lab.md")
"""Those whose reader has a cluster: its topic is `flights`, its group `readers`."""
READERS = "tidelog groups --reset-offsets --to-earliest --execute --group readers --topic flights --bootstrap-server %s"
STARTS = re.compile(r"(tidelog|kcat|kafka-[a-z-]+\.sh|echo|sed|scripts/\w+|pip) ")

LEFT_OUT = {
    r"^scripts/": "the checkout is set up already",
    r"^tidelog chaos ": "tests/check/chaos runs it",
    r"^kafka-console-consumer\.sh ": "it runs until Ctrl-C; tests/compatibility runs Kafka's own",
    r"--reassignment-json-file moves\.json": "the reader has to write the file; tests/cli/test_reassign.py runs it",
    r"^tidelog up .*--metadata quorum": "another cluster in the same folder; tests/shell/test_quorum_process.py runs it",
    r"^tidelog quorum ": "tests/compatibility/test_quorum_tools.py runs it",
    r"zookeeper://": "it needs ZooKeeper; tests/cli/test_metadata_java.py and test_up_java.py run it",
    r"^tidelog pipeline run ": "it needs Spark; tests/spark runs the pipelines",
    r"^tidelog up --data flights\.data": "the cluster of the pipelines",
    r"^tidelog topics --create --topic flights --partitions 3$": "the same",
    r"^tidelog consume --topic flights\.delays ": "the same",
}
REPLACED = (
    (r"127\.0\.0\.1:9092", "127.0.0.1:$PORT"),
    (r"^(tidelog explain (?!.*bootstrap).*)$", r"\1 --bootstrap-server 127.0.0.1:$PORT"),
    (r"^(tidelog up (?!.*--port).*)$", r"\1 --port $PORT"),
    (r"--port 9092", "--port $PORT"),
    (r"^(tidelog up .*)$", r"\1 --detach"),
    (r"^(tidelog produce .*)$", r"echo hello | \1"),
    (r"(tidelog consume (?!.*--max-messages).*)$", r"\1 --max-messages 1"),
    (r"--seeds 100\b", "--seeds 1"),
    (r"--seconds 60\b", "--seconds 2"),
    (r"^(tidelog audit .*)$", r"\1 --local"),
    (r"^(tidelog console .*)$", r"coproc C { exec \1 --port 0; }; P=$C_PID; grep -m1 '^console http' <&${C[0]}; R=$?; kill $P; wait $P; exit $R"),
)  # fmt: skip
ENDS_WITH = {
    "tidelog explain topic flights": (0, 2),
    "tidelog explain cluster": (0, 2),
    "tidelog explain partition flights-0": (0, 2),
    "tidelog explain group readers": (0, 1, 2),
    "tidelog explain broker 1": (0, 2),
    "tidelog explain access": (1,),
    "tidelog groups": (0, 1),
}
"""Exit codes of commands that may report trouble, that the cluster has no ACLs, or that nobody has used the group."""


def blocks(text):
    """The indented and the fenced blocks of commands; a block of anything else, such as output or Python, is left out
    by `commands`."""
    lines, inside = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
            is_line = False
        else:
            is_line = inside or line.startswith("    ")
        if is_line:
            lines.append(line if inside else line[4:])
        elif lines:
            yield lines
            lines = []
    if lines:
        yield lines


def commands(document):
    """The commands of a document, in order, each with what is run for it."""
    for block in blocks((ROOT / document).read_text(encoding="utf-8")):
        if not STARTS.match(block[0]):
            continue
        for written in "\n".join(block).replace("\\\n", " ").splitlines():
            line = re.sub(r"\s+#.*$", "", written)
            if STARTS.match(line) and not line.endswith("&") and not any(re.search(each, line) for each in LEFT_OUT):
                changed = line
                for pattern, replacement in REPLACED:
                    changed = re.sub(pattern, replacement, changed)
                yield line, changed


@pytest.fixture
def shell(tmp_path, free_ports):
    """A function that runs a line in bash: exit code, and what it printed."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("tidelog", "kafka-topics.sh"):
        command = "" if name == "tidelog" else name
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tidelog {command} "$@"\n')
        (tools / name).chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    port = free_ports(3)[0]
    given = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PORT": str(port)}

    def call(line):
        done = subprocess.run(
            ["bash", "-c", line], cwd=home, env=given, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False, timeout=PATIENCE_S,
        )  # fmt: skip
        return done.returncode, done.stdout

    yield call
    call("tidelog down --data data")


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=2) as running:
        running.create_topic("flights")
        yield running


@pytest.mark.parametrize("document", WITH_CLUSTER)
def test_the_commands_for_readers_with_a_cluster_work(document, shell, cluster):
    address = cluster.bootstrap.split(",")[0]
    code, out = shell(
        f"echo hello | tidelog produce --topic flights --bootstrap-server {address} && {READERS % address}"
    )
    assert code == 0, out
    found = list(commands(document))
    assert found, "a document without commands need not be here"
    for line, changed in found:
        run_as_expected(shell, line, changed.replace("127.0.0.1:$PORT", address))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_commands_of_a_document_work_in_their_order(document, shell):
    found = list(commands(document))
    assert found, "a document without commands need not be here"
    for line, changed in found:
        run_as_expected(shell, line, changed)


def run_as_expected(shell, line, changed):
    code, out = shell(changed)
    expected = next((codes for start, codes in ENDS_WITH.items() if line.startswith(start)), (0,))
    assert code in expected, f"{line}\n(run as {changed})\n{out}"
    assert "Traceback" not in out, line


def test_every_exception_is_needed():
    lines = [
        line
        for document in (*DOCUMENTS, *WITH_CLUSTER)
        for block in blocks((ROOT / document).read_text())
        for line in block
    ]
    unused = [each for each in LEFT_OUT if not any(re.search(each, re.sub(r"\s+#.*$", "", line)) for line in lines)]
    assert unused == []
