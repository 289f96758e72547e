"""Every help page has examples, and every example is a command line that the command accepts; completion of shells."""

import os
import shlex
import shutil
import subprocess
import sys

import click
import pytest

from tests.cli.test_secured_process import leaves
from tidelog.cli.examples import EXAMPLES
from tidelog.cli.main import COMMANDS
from tidelog.cli.main import tidelog as root

FILES = (
    "server.properties",
    "client.properties",
    "moves.json",
    "offsets.json",
    "history.jsonl",
    "metadata.jsonl",
    "password.txt",
)
GROUPS = [name for name in COMMANDS if isinstance(root.get_command(click.Context(root), name), click.Group)]
GROUPS.remove("transactions")  # its options are the group's


def parsed(command, name, arguments):
    """Parse as click does, down to the last command of nested groups; UsageError for what it does not know."""
    context = command.make_context(name, list(arguments))
    if isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        name, inner, rest = command.resolve_command(context, rest)
        return parsed(inner, name, rest)
    return context


@pytest.mark.parametrize("name", sorted({*leaves(), *COMMANDS, "lab list", "lab run"}))
def test_every_help_page_ends_with_examples_that_the_command_accepts(name, tidelog, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for file in FILES:
        (tmp_path / file).touch()
    out = tidelog(*name.split(), "--help").out
    assert "Examples:\n" in out
    for example in EXAMPLES[name]:
        assert f"  tidelog {example}\n" in out
        assert example.startswith(name)
        words = shlex.split(example.partition(" <")[0].partition(" >")[0])
        parsed(root, "tidelog", words)


def test_there_are_no_examples_of_other_commands():
    assert set(EXAMPLES) <= {*leaves(), *COMMANDS, "lab list", "lab run"}


@pytest.mark.parametrize("name", ["", *GROUPS])
def test_a_group_alone_prints_its_help(tidelog, name):
    result = tidelog(*name.split())
    assert (result.code, result.err) == (0, "")
    assert result.out == tidelog(*name.split(), "--help").out


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [("tpoics", "topics"), ("lab rum", "run"), ("users ad", "add"), ("broker", None), ("topics --creat", "--create")],
)
def test_a_mistyped_command_or_option_gets_a_suggestion(tidelog, words, suggestion):
    result = tidelog(*words.split())
    if suggestion is None:
        assert result.code == 0
    else:
        assert result.code == 1
        assert f"Did you mean '{suggestion}'?" in result.err


@pytest.mark.parametrize("name", ["topics", "consume", "status", "audit", "explain cluster"])
def test_the_option_of_kafka_3_is_accepted_without_being_on_every_page(tidelog, name):
    assert "--zookeeper" not in tidelog(*name.split(), "--help").out
    missing = tidelog(*name.split(), *(["--list"] if name == "topics" else []), "--zookeeper", "missing")
    assert "neither HOST:PORT/CHROOT nor an existing folder" in missing.err or name == "consume"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(tidelog, shell):
    script = tidelog("completion", shell)
    assert (script.code, script.err) == (0, "")
    assert "_TIDELOG_COMPLETE" in script.out
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script.out, text=True, check=True, timeout=60)


def test_completion_knows_the_commands_without_importing_them():
    code = "import sys; from tidelog.cli.main import run\ntry: run([])\nfinally: print(*sys.modules, file=sys.stderr)"
    given = {**os.environ, "_TIDELOG_COMPLETE": "bash_complete", "COMP_WORDS": "tidelog to", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=given, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout == "plain,topics\n"
    assert "tidelog.cli.topics" not in done.stderr.split()
