"""Our commands print what Kafka's own tools print, asked of the same cluster.

Left out of the comparison: blanks at the ends of lines, empty lines, and the order of a topic's options, which Kafka's
tool leaves to a hash table. A member's place in its group is compared with a real member present.
"""

import json
import re

import pytest

from tidelog.coordinator.placement import partition_for
from tidelog.shell.transactions import TransactionalProducer
from tidelog.shell.transport import Consumer

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
STATUS, COMPLETE_COMMIT = 16, 4
"""Where a transaction's record says its state: behind its version, producer and timeout."""

TOOLS = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "groups": GROUPS,
    "offsets": "org.apache.kafka.tools.GetOffsetShell",
}


def plain(text):
    return [_sorted_options(line.rstrip()) for line in text.splitlines() if line.strip()]


def _sorted_options(line):
    head, title, options = line.partition("Configs: ")
    return head + title + ",".join(sorted(options.split(","))) if title else line


@pytest.fixture(scope="module")
def member(cluster):
    """A group `g` with a member on topic `same`, which has three records in partition 0."""
    from tidelog.cli.main import run
    from tidelog.shell.transport import Producer

    place = ["--bootstrap-server", cluster.bootstrap]
    options = ["--config", "cleanup.policy=compact,delete", "--config", "min.insync.replicas=2"]
    assert run(["topics", *place, "--create", "--topic", "same", "--replica-assignment", "0:1:2,2:1:0", *options]) == 0
    with Producer(cluster.bootstrap) as producer:
        for value in (b"1", b"2", b"3"):
            producer.send("same", value, key=b"k", partition=0)
        producer.flush()
    with Consumer(cluster.bootstrap, "g", auto_offset_reset="earliest", session_timeout_ms=1_800_000) as consumer:
        consumer.subscribe(["same"])
        while not consumer.poll(timeout=10):
            pass
        consumer.commit({("same", 0): 2, ("same", 1): 0})
        yield


SAME = [
    ("topics", "--describe", "--topic", "same"),
    ("topics", "--describe", "--topic", "same", "--under-min-isr-partitions"),
    ("configs", "--describe", "--entity-type", "topics", "--entity-name", "same", "--all"),
    ("configs", "--describe", "--broker", "1", "--all"),
    ("configs", "--describe", "--entity-type", "brokers"),
    ("offsets", "--topic-partitions", "same:1-", "--time", "earliest"),
    ("offsets", "--topic", "same", "--time", "max-timestamp"),
    ("groups", "--list", "--state", "stable", "--type"),
    ("groups", "--describe", "--group", "g", "--offsets", "--verbose"),
    ("groups", "--describe", "--group", "g", "--members", "--verbose"),
    ("groups", "--describe", "--group", "g", "--state", "--verbose"),
    ("groups", "--reset-offsets", "--group", "h", "--topic", "same:0", "--to-offset", "1", "--dry-run", "--export"),
]


@pytest.mark.parametrize(("command", "arguments"), [(first, rest) for first, *rest in SAME], ids=map(" ".join, SAME))
@pytest.mark.usefixtures("member")
def test_the_same_lines(cluster, on, kafka_tool, command, arguments):
    ours = on(command, *arguments)
    theirs = kafka_tool(TOOLS[command], "--bootstrap-server", cluster.bootstrap, *arguments)
    assert ours.code == 0
    assert plain(ours.out) == plain(theirs)


def of_group_g(text):
    """Kafka's formatters end no line."""
    found = [json.JSONDecoder().raw_decode(text, match.start())[0] for match in re.finditer(r'\{"key":', text)]
    return [record for record in found if record["key"]["data"]["group"] == "g"]


@pytest.mark.parametrize("formatter", ["OffsetsMessageFormatter", "GroupMetadataMessageFormatter"])
def test_formatters_of_internal_topics(cluster, member, kafka_tool, capsys, formatter):
    from tidelog.cli.main import run

    name = f"org.apache.kafka.tools.consumer.{formatter}"
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        partition = partition_for("g", len(consumer.partitions_of("__consumer_offsets")))
        ends = consumer.end_offsets([("__consumer_offsets", partition)])
        consumer.assign(ends)
        count = 0
        while any(consumer.position(place) < end for place, end in ends.items()):
            count += len(consumer.poll(timeout=1))
    asked = ["--bootstrap-server", cluster.bootstrap, "--topic", "__consumer_offsets", "--offset", "earliest"]
    asked += ["--partition", str(partition), "--max-messages", str(count), "--timeout-ms", "120000"]
    theirs = of_group_g(kafka_tool(CONSOLE, *asked, "--formatter", name))
    assert theirs
    old = "kafka.coordinator.group.GroupMetadataManager$" + formatter
    for called in (name, old):
        capsys.readouterr()
        assert run(["consume", *asked, "--formatter", called]) == 0
        assert of_group_g(capsys.readouterr().out) == theirs


@pytest.mark.usefixtures("member")
def test_the_formatter_of_transactions(cluster, kafka_tool, capsys):
    """One transaction through all its states. On a busy machine a client asks again, and a state is there twice."""
    from tidelog.cli.main import run

    with TransactionalProducer(cluster.bootstrap, "shown") as producer:
        producer.begin()
        producer.send("same", b"in a transaction", key=b"k", partition=1)
        producer.commit()
    name = "TransactionLogMessageFormatter"
    asked = ["--bootstrap-server", cluster.bootstrap, "--topic", "__transaction_state", "--offset", "earliest"]
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        partition = partition_for("shown", len(consumer.partitions_of("__transaction_state")))
        consumer.assign([("__transaction_state", partition)])
        records = []
        while not records or records[-1].value[STATUS] != COMPLETE_COMMIT:
            records += consumer.poll(timeout=90) or pytest.fail("no state after 90 s")
    asked += ["--partition", str(partition), "--max-messages", str(len(records)), "--timeout-ms", "120000"]
    new = f"org.apache.kafka.tools.consumer.{name}"
    shown = kafka_tool(CONSOLE, *asked, "--formatter", new)
    theirs = of_transaction("shown", shown)
    assert list(dict.fromkeys(value["transactionStatus"] for value in theirs)) == [0, 1, 2, COMPLETE_COMMIT]
    for called in (new, "kafka.coordinator.transaction.TransactionLog$" + name):
        capsys.readouterr()
        assert run(["consume", *asked, "--formatter", called]) == 0
        assert of_transaction("shown", capsys.readouterr().out) == theirs


def of_transaction(transactional_id, text):
    """The values of its records, in order of offsets."""
    found = [json.JSONDecoder().raw_decode(text, match.start())[0] for match in re.finditer(r'\{"key":', text)]
    return [each["value"]["data"] for each in found if each["key"]["data"]["transactionalId"] == transactional_id]


def test_an_unknown_formatter_is_refused(capsys):
    from tidelog.cli.main import run

    assert run(["consume", "--topic", "t", "--formatter", "Nonsense"]) == 1
    assert "OffsetsMessageFormatter" in capsys.readouterr().err
