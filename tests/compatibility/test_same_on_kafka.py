"""Our tools print of a real Apache Kafka what its own tools print of it, word for word.

Left out of the comparison: blanks at the ends of lines, empty lines, and orders that Kafka leaves to hash tables (of
topics, of a topic's options, of quotas). What is wrong is told in one sentence on stderr with exit code 1; Kafka's tools print a stack trace, some with exit code 0.
"""

import shlex

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.waiting import wait_for
from tidelog.cli.main import run

TOOLS = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "offsets": "org.apache.kafka.tools.GetOffsetShell",
    "features": "org.apache.kafka.tools.FeatureCommand",
}

SET_UP = """
topics --create --topic alpha --partitions 2 --config cleanup.policy=compact --config segment.ms=600000
topics --create --topic beta --replica-assignment 0,0,0
configs --alter --client c --add-config producer_byte_rate=2048,request_percentage=12.5
configs --alter --entity-type users --entity-default --entity-type clients --entity-name x --add-config consumer_byte_rate=1
configs --alter --user-defaults --add-config controller_mutation_rate=1.5
configs --alter --ip 10.1.2.3 --add-config connection_creation_rate=5
configs --alter --group g --add-config consumer.session.timeout.ms=50000
configs --alter --broker 0 --add-config log.cleaner.threads=2
configs --alter --broker-defaults --add-config log.retention.ms=3600000
configs --alter --topic beta --add-config max.message.bytes=2000
"""

TIDY_UP = """
topics --delete --topic alpha|beta
groups --delete --group g1
configs --alter --client c --delete-config producer_byte_rate,request_percentage
configs --alter --entity-type users --entity-default --entity-type clients --entity-name x --delete-config consumer_byte_rate
configs --alter --user-defaults --delete-config controller_mutation_rate
configs --alter --ip 10.1.2.3 --delete-config connection_creation_rate
configs --alter --group g --delete-config consumer.session.timeout.ms
configs --alter --broker 0 --delete-config log.cleaner.threads
configs --alter --broker-defaults --delete-config log.retention.ms
"""

SAME = """
topics --list
topics --list --exclude-internal
topics --describe
topics --describe --topic alpha
topics --describe --topic "alpha|nosuch"
topics --describe --topics-with-overrides
topics --describe --at-min-isr-partitions
topics --describe --under-replicated-partitions
topics --describe --unavailable-partitions
topics --describe --under-min-isr-partitions
topics --describe --topic nosuch --if-exists
topics --describe --topic beta --partition-size-limit-per-response 1
configs --describe --entity-type topics
configs --describe --topic alpha --all
configs --describe --entity-type brokers
configs --describe --broker-defaults
configs --describe --entity-type clients
configs --describe --entity-type users
configs --describe --entity-type users --entity-type clients
configs --describe --entity-type users --entity-default --entity-type clients --entity-name x
configs --describe --entity-type ips
configs --describe --entity-type groups
configs --describe --group g --all
groups --list --state
groups --describe --group g1 --offsets --verbose
groups --describe --all-groups --state
groups --reset-offsets --group g1 --topic alpha --to-earliest --dry-run
groups --reset-offsets --group g1 --topic alpha:0,1 --shift-by -1 --dry-run
groups --reset-offsets --all-groups --all-topics --to-latest --dry-run --export
groups --reset-offsets --group g1 --topic alpha --to-current --dry-run
groups --delete-offsets --group g2 --topic beta
offsets --exclude-internal-topics
offsets --topic-partitions alpha:0,beta:1- --time earliest
offsets --topic alpha --time max-timestamp
features upgrade --release-version 4.3 --dry-run
features upgrade --metadata 4.3-IV0 --feature group.version=1 --dry-run
features downgrade --feature streams.version=0 --dry-run
features disable --feature share.version --unsafe --dry-run
"""


def lines(commands):
    return [line for line in commands.splitlines() if line]


@pytest.fixture(scope="module")
def place(real_kafka):
    """A real Kafka that our tools have set up, and tidy up again."""
    admin = AdminClient({"bootstrap.servers": real_kafka, "log_level": 0})

    def rests():
        """Members of groups of other tests are gone: what is said of a group does not change between two looks."""
        groups = admin.list_consumer_groups().result(60).valid
        return all(group.state is ConsumerGroupState.EMPTY for group in groups)

    def carry_out(commands):
        for line in lines(commands):
            command, *arguments = shlex.split(line)
            assert run([command, "--bootstrap-server", real_kafka, *arguments]) == 0, line

    wait_for(rests, "no group with members")
    carry_out(SET_UP)
    _fill(real_kafka)
    yield real_kafka
    carry_out(TIDY_UP)


def _fill(place):
    producer = Producer({"bootstrap.servers": place})
    for number in range(9):
        producer.produce("alpha", key=b"%d" % number, value=b"v", partition=number % 2)
        producer.produce("beta", value=b"v", partition=number % 3)
    assert producer.flush(60) == 0
    for group, offsets in {"g1": [("alpha", 0, 2), ("alpha", 1, 3)], "g2": [("beta", 0, 1), ("beta", 1, 1)]}.items():
        consumer = Consumer({"bootstrap.servers": place, "group.id": group, "enable.auto.commit": False})
        consumer.commit(offsets=[TopicPartition(*each) for each in offsets], asynchronous=False)
        consumer.close()


def plain(text):
    return sorted(_sorted_options(line.rstrip()) for line in text.splitlines() if line.strip())


def _sorted_options(line):
    for title in ("Configs: ", " are "):
        head, found, options = line.partition(title)
        if found and "=" in options:
            return head + found + ",".join(sorted(part.strip() for part in options.split(",")))
    return line


@pytest.mark.parametrize("line", lines(SAME))
def test_the_same_of_a_real_kafka(place, kafka_tool, capsys, line):
    command, *arguments = shlex.split(line)
    theirs = kafka_tool(TOOLS[command], "--bootstrap-server", place, *arguments)
    capsys.readouterr()
    assert run([command, "--bootstrap-server", place, *arguments]) == 0
    assert plain(capsys.readouterr().out) == plain(theirs)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("topics --describe --topic nosuch", "Topic 'nosuch' does not exist as expected."),
        ("topics --alter --topic alpha --partitions 1", "1 would not be an increase (INVALID_PARTITIONS)."),
        ("topics --create --topic alpha", "Topic 'alpha' already exists (TOPIC_ALREADY_EXISTS)."),
        ("topics --create --topic 'b ad'", "(INVALID_TOPIC_EXCEPTION)."),
        ("topics --create --topic big --replication-factor 3", "(INVALID_REPLICATION_FACTOR)."),
        ("topics --create --topic odd --config nonsense=1", "(INVALID_CONFIG)."),
        ("configs --alter --topic alpha --add-config retention.ms=x", "(INVALID_CONFIG)."),
        ("configs --alter --broker 0 --add-config log.retention.hours=3", "(INVALID_REQUEST)."),
        ("configs --alter --client c --add-config producer_byte_rate=-1", "(INVALID_REQUEST)."),
        (
            "configs --alter --client c --delete-config consumer_byte_rate",
            "consumer_byte_rate: cannot be removed because it is not set",
        ),
        ("configs --alter --group g --add-config consumer.session.timeout.ms=5", "(INVALID_CONFIG)."),
        ("groups --describe --group nosuch", "Group nosuch not found (GROUP_ID_NOT_FOUND)."),
        ("groups --delete --group nosuch", "(GROUP_ID_NOT_FOUND)."),
        ("groups --reset-offsets --group g1 --topic nosuch --to-earliest --execute", "(UNKNOWN_TOPIC_OR_PARTITION)."),
    ],
)
def test_what_a_real_kafka_refuses_is_one_sentence(place, capsys, line, says):
    command, *arguments = shlex.split(line)
    capsys.readouterr()
    assert run([command, "--bootstrap-server", place, *arguments]) == 1
    out, err = capsys.readouterr()
    assert says in err
    assert "Traceback" not in err
    assert out == ""
