"""Apache Kafka's own tools against three broker processes, and its auditor over the files that these have written."""

import re
from pathlib import Path

import pytest

from tests.waiting import wait_for

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPIC = "tooled"
LINES = [f"{number}" for number in range(200)]


@pytest.fixture(scope="module")
def filled(tool):
    """A topic of three partitions with two hundred records of keys 0-199, written by the console producer."""
    tool("TopicCommand", "--create", "--topic", TOPIC, "--partitions", "3", "--replication-factor", "3",
         "--config", "segment.bytes=1048576")  # fmt: skip
    keyed = "".join(f"{line}\t{line}\n" for line in LINES)
    tool("ConsoleProducer", "--topic", TOPIC, "--command-property", "acks=all",
         "--reader-property", "parse.key=true", "--reader-property", "key.separator=\t", given=keyed)  # fmt: skip
    return TOPIC


def offsets(text: str) -> dict[int, int]:
    return {int(found[1]): int(found[2]) for found in re.finditer(r"^\w+:(\d+):(\d+)$", text, re.MULTILINE)}


def test_console_producer_and_consumer_and_its_group(tool, filled):
    read = tool(CONSUMER, "--topic", filled, "--from-beginning", "--max-messages", "200", "--group", "console",
                "--timeout-ms", "30000", "--formatter-property", "print.key=true")  # fmt: skip
    assert sorted(read.split()) == sorted(LINES * 2)
    groups = tool(GROUPS, "--describe", "--group", "console")
    rows = [line.split() for line in groups.splitlines() if line.startswith("console ")]
    assert sorted(int(row[2]) for row in rows) == [0, 1, 2]
    assert sum(int(row[3]) for row in rows) == 200
    assert {row[5] for row in rows} == {"0"}
    assert "console" in tool(GROUPS, "--list").split()
    reset = tool(GROUPS, "--group", "console", "--topic", filled, "--reset-offsets", "--to-earliest", "--execute")
    assert len(re.findall(rf"console\s+{filled}\s+\d\s+0", reset)) == 3
    assert "Empty" in tool(GROUPS, "--describe", "--group", "console", "--state")
    assert "was successful" in tool(GROUPS, "--delete", "--group", "console")


def until(found, tool, *arguments):
    """Ask until whichever broker is asked knows; what it said at last."""
    return wait_for(lambda: [text] if found(text := tool(*arguments)) else [], f"{arguments}")[0]


def test_topics_are_described_grown_and_deleted(tool, filled):
    whole = re.compile(r"Leader: [012]\s+Replicas: \d,\d,\d\s+Isr: \d,\d,\d")
    described = until(lambda text: len(whole.findall(text)) == 3, tool, "TopicCommand", "--describe", "--topic", filled)
    assert "segment.bytes=1048576" in described
    tool("TopicCommand", "--create", "--topic", "short-lived", "--partitions", "1")
    until(lambda text: "short-lived" in text.split(), tool, "TopicCommand", "--list")
    tool("TopicCommand", "--alter", "--topic", "short-lived", "--partitions", "4")
    describe = ("TopicCommand", "--describe", "--topic", "short-lived")
    until(lambda text: "PartitionCount: 4" in text, tool, *describe)
    tool("TopicCommand", "--delete", "--topic", "short-lived")
    until(lambda text: "short-lived" not in text.split(), tool, "TopicCommand", "--list")


def test_offsets_and_deletion_of_records(tool, filled, tmp_path):
    ends = offsets(tool("GetOffsetShell", "--topic", filled))
    assert sum(ends.values()) == 200
    assert offsets(tool("GetOffsetShell", "--topic", filled, "--time", "earliest")) == dict.fromkeys(ends, 0)
    wanted = tmp_path / "wanted.json"
    wanted.write_text(f'{{"version": 1, "partitions": [{{"topic": "{filled}", "partition": 0, "offset": 5}}]}}')
    assert "low_watermark: 5" in tool("DeleteRecordsCommand", "--offset-json-file", str(wanted))
    assert offsets(tool("GetOffsetShell", "--topic", filled, "--time", "earliest")) == {0: 5, 1: 0, 2: 0}


def test_configs_are_described_and_altered(kafka_tool, cluster, filled):
    def configs(*arguments: str) -> str:
        return kafka_tool("kafka.admin.ConfigCommand", "--bootstrap-server", cluster.bootstrap, *arguments)

    of_topic = ("--entity-type", "topics", "--entity-name", filled)
    configs("--alter", *of_topic, "--add-config", "retention.ms=123456,cleanup.policy=[compact,delete]")
    described = until(lambda text: "retention.ms=123456" in text, configs, "--describe", *of_topic)
    assert "cleanup.policy=compact,delete" in described
    configs("--alter", *of_topic, "--delete-config", "cleanup.policy")
    until(lambda text: "cleanup.policy" not in text, configs, "--describe", *of_topic)
    every = configs("--describe", "--all", "--entity-type", "brokers", "--entity-name", "0")
    assert "log.retention.hours=168" in every


def test_elections_log_dirs_and_versions(tool, filled):
    elected = tool("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    assert "rror" not in elected
    dirs = tool("LogDirsCommand", "--describe", "--topic-list", filled)
    assert all(f'"broker":{number}' in dirs for number in range(3))
    assert f'"partition":"{filled}-2"' in dirs
    versions = tool("BrokerApiVersionsCommand")
    assert len(re.findall(r"^127\.0\.0\.1:\d+ \(id: \d ", versions, re.MULTILINE)) == 3
    assert "Produce(0): 0 to 13 [usable: 13]" in versions
    assert "UNSUPPORTED" not in versions.split("Fetch(1)")[0]


@pytest.fixture(scope="module")
def measured(tool, kafka_tool, cluster):
    """What ProducerPerformance says of twenty thousand records in one partition of three replicas."""
    tool("TopicCommand", "--create", "--topic", "quick", "--partitions", "1", "--replication-factor", "3",
         "--config", "segment.bytes=1048576")  # fmt: skip
    return kafka_tool("ProducerPerformance", "--topic", "quick", "--num-records", "20000", "--record-size", "100",
                      "--throughput", "-1", "--command-property", f"bootstrap.servers={cluster.bootstrap}")  # fmt: skip


def test_performance_tools(tool, measured):
    assert measured.splitlines()[-1].startswith("20000 records sent")
    read = tool("ConsumerPerformance", "--topic", "quick", "--num-records", "20000", "--timeout", "30000")
    assert int(read.splitlines()[-1].split(",")[4]) >= 20000


def replicas(cluster, topic, partition=0):
    return [Path(cluster.folder) / f"broker-{number}" / f"{topic}-{partition}" for number in range(3)]


def test_its_auditor_reads_our_files(kafka_tool, cluster, measured):
    """Every replica of a partition, which are the same, and the groups' topic by its own decoder."""

    def contents() -> set[bytes]:
        return {b"".join(path.read_bytes() for path in sorted(folder.glob("*.log"))) for folder in folders}

    folders = replicas(cluster, "quick")
    wait_for(lambda: len(contents()) == 1, "replicas that are the same byte for byte")
    audited = sorted(path for folder in folders for path in folder.glob("0*.*"))
    assert {path.suffix for path in audited} == {".log", ".index", ".timeindex", ".snapshot"}
    text = kafka_tool("DumpLogSegments", "--deep-iteration", "--files", ",".join(map(str, audited)))
    assert re.search("corrupt|mismatch|not match|isvalid: false|Exception", text, re.IGNORECASE) is None
    found = [int(offset) for offset in re.findall(r"^\| offset: (\d+) ", text, re.MULTILINE)]
    assert found == list(range(20000)) * 3


def test_its_auditor_decodes_the_groups_topic(kafka_tool, cluster, tool, filled):
    tool(CONSUMER, "--topic", filled, "--max-messages", "1", "--from-beginning", "--group", "audited")
    folders = Path(cluster.folder).glob("broker-*/__consumer_offsets-*/*.log")
    written = ",".join(str(path) for path in folders if path.stat().st_size)
    decoded = kafka_tool("DumpLogSegments", "--offsets-decoder", "--files", written)
    assert '"group":"audited"' in decoded
    assert f'"topic":"{filled}"' in decoded
