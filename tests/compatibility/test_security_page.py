"""The quick start of docs/security.md, line by line as it is written there, with another port."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests import jvm
from tests.cli.commands import PATIENCE_S
from tests.waiting import wait_for
from tidelog.config import properties

ROOT = Path(__file__).parent.parent.parent
TOOLS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}
PRINTS = {
    "tidelog topics --create": r"Created topic flights\.\n",
    'echo "AA 1545"': "",
    "tidelog consume": r"AA 1545\n",
    "kafka-topics.sh": r"Topic: flights\t.*PartitionCount: 3\t(.*\n)+",
    "echo builder": r".*bob.*\n",
    "tidelog acls": r"(.*\n)*.*principal=User:bob(.*\n)*",
    "sed": "",
}
"""The beginning of a command, and what it prints."""


def blocks():
    """The indented blocks of the quick start."""
    page = (ROOT / "docs" / "security.md").read_text("utf-8")
    part = page.split("## Quick start\n")[1].split("\n## ")[0]
    found = re.findall(r"(?:^    .*\n)+", part, re.MULTILINE)
    return [[line.removeprefix("    ") for line in block.splitlines()] for block in found]


START, PRINTED, COMMANDS, OTHERS, LIBRDKAFKA = blocks()


@pytest.fixture(scope="module")
def started(tmp_path_factory, kafka_libs):
    """The folder in which the page's first command runs, its lines, and an environment with Kafka's scripts."""
    folder = tmp_path_factory.mktemp("me")
    scripts = folder / "bin"
    scripts.mkdir()
    for name, main in TOOLS.items():
        flags = shlex.join(("-Xmx256m", *jvm.KAFKA))
        (scripts / name).write_text(f'#!/bin/sh\nexec java {flags} -cp "{kafka_libs}" {main} "$@"\n')
        (scripts / name).chmod(0o755)
    path = os.pathsep.join([str(scripts), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path}
    (line,) = START
    command = shlex.split(line.replace("--port 9092", "--port 0"))
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield folder, read_until_ready(process.stdout)[-len(PRINTED) :], environment
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE_S)


def read_until_ready(lines):
    """What a terminal shows: a table of the brokers, then what the page has."""
    shown = []
    for line in lines:
        shown.append(line)
        if line.startswith("ready "):
            return shown
    raise AssertionError(shown)


def test_the_last_lines_are_those_of_the_page(started):
    folder, printed, _ = started
    for line, shown in zip(printed, PRINTED, strict=True):
        expected = re.escape(shown).replace(r"/home/me", re.escape(str(folder)))
        assert re.fullmatch(re.sub(r":90\d\d", r":\\d+", expected) + "\n", line), (line, expected)


@pytest.mark.parametrize("line", [*COMMANDS, *OTHERS])
def test_each_command_does_what_the_page_says(started, line):
    folder, printed, environment = started
    address = re.search(r"127\.0\.0\.1:\d+", printed[-1])[0]

    def carried_out():
        """Done; a new user and his rights are known to all brokers a moment later."""
        done = subprocess.run(
            ["bash", "-c", line.replace("127.0.0.1:9092", address)],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        return done if done.returncode == 0 or "bob.properties" not in line else None

    done = wait_for(carried_out, line)
    assert done.returncode == 0, done
    (expected,) = [text for beginning, text in PRINTS.items() if line.startswith(beginning)]
    assert re.fullmatch(expected, done.stdout), done


def test_librdkafka_has_the_options_of_the_page(started):
    folder, printed, _ = started
    options = properties.parse("\n".join(LIBRDKAFKA))
    file = (folder / "data/security/client.properties").read_text("utf-8")
    options["sasl.password"] = re.search(r'password="([^"]*)"', file)[1]
    options["ssl.ca.location"] = str(folder / options["ssl.ca.location"])
    admin = AdminClient({"bootstrap.servers": printed[-1].split()[1], **options})
    assert "flights" in admin.list_topics(timeout=60).topics
