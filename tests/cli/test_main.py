"""What every command has in common: help, versions, wrong flags, and quick starts."""

import os
import subprocess
import sys

import pytest

from tidelog.cli.main import COMMANDS

SLOW_MODULES = {"tidelog.shell", "tidelog.node", "tidelog.wire", "tidelog.sim", "uvloop", "asyncio", "rich", "sqlite3"}


def test_help_names_every_command_in_sentences(tidelog):
    result = tidelog("--help")
    assert result.code == 0
    assert all(f"  {name} " in result.out for name in COMMANDS)
    assert all(command.sentence.endswith(".") for command in COMMANDS.values())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_each_of_its_options(tidelog, command):
    result = tidelog(command, "--help")
    assert result.code == 0
    assert result.out.startswith(f"Usage: tidelog {command} ")


def test_the_version_is_printed(tidelog):
    assert tidelog("--version").out.startswith("tidelog")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("bogus",), "tidelog: No such command 'bogus'. See tidelog --help.\n"),
        (("topic", "--list"), "tidelog: No such command 'topic'. Did you mean 'topics'? See tidelog --help.\n"),
        (("topics", "--bogus"), "tidelog topics: No such option '--bogus'. See tidelog topics --help.\n"),
        (
            ("topics", "--list", "--partitions", "0"),
            "tidelog topics: Invalid value for '--partitions': 0 is not in the range x>=1. See tidelog topics --help.\n",
        ),
        (
            ("topics", "--bootstrap-server", "here:99999", "--list"),
            (
                "tidelog topics: Invalid value for '--bootstrap-server': 'here:99999' is not a valid address; expected host:port, with a port from 1 to "
                "65535. See tidelog topics --help.\n"
            ),
        ),
        (
            ("up", "--data", "x", "--port", "65535"),
            "tidelog up: --port 65535: 3 brokers need ports up to 65537, above 65535. See tidelog up --help.\n",
        ),
        (
            ("up", "--data", "/proc/x", "--port", "0"),
            "Cannot create the data folder /proc/x: No such file or directory.\n",
        ),
        (("up", "--data", "x", "--override", "num.partitions=0"), "num.partitions must be at least 1, not '0'\n"),
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_exit_code_1(tidelog, arguments, sentence):
    assert tidelog(*arguments) == (1, "", sentence)


def test_a_refused_connection_is_one_sentence_and_exit_code_1(tidelog, free_ports):
    (port,) = free_ports(1)
    for arguments in [("topics", "--list"), ("status",), ("groups", "--list"), ("produce", "--topic", "t")]:
        result = tidelog(arguments[0], "--bootstrap-server", f"127.0.0.1:{port}", *arguments[1:])
        assert result == (1, "", f"No broker is reachable at 127.0.0.1:{port} (Connection refused).\n")


def test_help_and_version_import_nothing_slow():
    code = (
        "import sys; from tidelog.cli.main import run; run(['--help']); run(['topics', '--help']); print(*sys.modules)"
    )
    bare = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}  # it imports more
    done = subprocess.run(
        [sys.executable, "-c", code], env=bare, capture_output=True, text=True, check=True, timeout=60
    )
    imported = set(done.stdout.splitlines()[-1].split())
    assert not imported & SLOW_MODULES


def test_python_runs_the_package_as_the_command():
    command = [sys.executable, "-m", "tidelog", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("tidelog")
