"""Kafka's tools do in the JVM that the tests' tools share what they do in a process of their own: three ways for a tool
to end, each in a real process beside it. What the tools print of a cluster is compared in the other files."""

import pytest

from tests.kafka_tools import NEEDS_A_PROCESS, ToolServer, run_alone
from tidelog.testing import Cluster

TOOLS = "org.apache.kafka.tools"


@pytest.fixture(scope="module")
def place():
    with Cluster(brokers=1, auto_create_topics_enable=False) as started:
        started.create_topic("t", 1)
        yield ("--bootstrap-server", started.bootstrap)


@pytest.fixture
def both(kafka_libs, tool_server):
    """A tool's end in a process of its own, and in the shared JVM, where it has run before."""

    def call(main, *arguments, given=""):
        alone = run_alone(kafka_libs, main, *arguments, given=given)
        tool_server.run(main, *arguments, given=given)
        return alone, tool_server.run(main, *arguments, given=given)

    return call


def ended(told):
    return told.returncode, told.stdout, told.stderr


def test_a_real_process_that_succeeds(both, place):
    alone, shared = both(f"{TOOLS}.TopicCommand", *place, "--list")
    assert ended(alone) == ended(shared) == (0, "t\n", "")


def test_a_real_process_that_is_refused(both, place):
    alone, shared = both(f"{TOOLS}.TopicCommand", *place, "--create", "--topic", "t")
    assert alone.returncode == shared.returncode == 1
    assert "Topic 't' already exists" in alone.stdout
    assert alone.stderr == shared.stderr == ""
    first, *_ = alone.stdout.splitlines()
    assert shared.stdout.startswith(f"{first}\n"), "behind it are a time and a trace of who called"
    alone, shared = both(f"{TOOLS}.FeatureCommand", "--nonsense")  # argparse4j's way out
    assert ended(alone) == ended(shared)
    assert alone.returncode == 1
    assert "nonsense" in alone.stderr


def test_a_real_process_that_reads_its_standard_input(both, place):
    alone, shared = both(f"{TOOLS}.ConsoleProducer", *place, "--topic", "t", given="eins\nzwei\n")
    assert alone.returncode == shared.returncode == 0
    read = ("--topic", "t", "--from-beginning", "--max-messages", "6", "--timeout-ms", "60000")
    alone, shared = both(f"{TOOLS}.consumer.ConsoleConsumer", *place, *read)
    assert ended(alone) == ended(shared)
    assert alone.stdout == "eins\nzwei\n" * 3


def test_a_tool_that_ends_the_jvm_ends_itself_only(both):
    """--version of some calls System.exit, which nothing can catch: the JVM answers, ends, and another one starts."""
    alone, shared = both(f"{TOOLS}.ClusterTool", "--version")
    assert ended(alone) == ended(shared)


def test_a_tool_that_takes_too_long_is_a_failure_with_what_its_threads_do(kafka_libs, tmp_path, free_ports):
    (port,) = free_ports(1)
    with ToolServer(kafka_libs, tmp_path) as server:
        assert server.run(f"{TOOLS}.TopicCommand", "--help").returncode == 1, "its classes are there"
        with pytest.raises(AssertionError, match=r"is not done in time[\s\S]*TopicCommand.main"):
            server.run(f"{TOOLS}.TopicCommand", "--bootstrap-server", f"127.0.0.1:{port}", "--list", within_s=3)
        assert server.run(f"{TOOLS}.TopicCommand", "--help").returncode == 1, "another JVM"


def test_what_ends_in_a_hook_of_the_jvm_has_a_process_of_its_own(kafka_tool, place):
    assert f"{TOOLS}.VerifiableProducer" in NEEDS_A_PROCESS
    told = kafka_tool("VerifiableProducer", *place, "--topic", "t", "--max-messages", "3")
    assert '"name":"tool_data"' in told
