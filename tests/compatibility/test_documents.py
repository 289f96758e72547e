"""Every command of the documents that operators have, as it is written there, on three processes and either store.

The documents are of Kafka 2 and 3: some commands name ZooKeeper. Paths, hosts and example names are put in; the scripts
are Tidelog's commands by the table `SCRIPTS` of `cli/main.py`; what is no script there stands in `IN_WORDS`.
"""

import json
import re
import shlex
from dataclasses import dataclass

import pytest

from tests.compatibility.stores import PARAMS, running
from tests.compatibility.support import controller_of
from tests.waiting import wait_for
from tidelog.cli.main import run

TOPIC = "my_topic_name"

IN_WORDS = {
    "rmr /controller": "tidelog metadata rm --metadata {store} /controller",
    "jstack | grep kafka-log-cleaner-thread": "tidelog explain cluster --bootstrap-server {bootstrap}",
}
"""What the documents say in words, or do with other programs, and the command for it."""


@pytest.fixture(scope="module", params=PARAMS)
def store(request, tmp_path_factory):
    folder, place = tmp_path_factory.mktemp(request.param), ""
    if request.param == "zookeeper":
        place = f"{request.getfixturevalue('zookeeper').hosts}/documents"
    with running(request.param, folder, place, **{"offsets.topic.replication.factor": "1"}) as found:
        yield found


@pytest.fixture
def operator(store, tmp_path, capsys, monkeypatch):
    """Carries out a line of a document; what it prints."""
    monkeypatch.chdir(tmp_path)
    partitions = [
        {"topic": "__consumer_offsets", "partition": index, "replicas": [(index + each) % 3 for each in range(3)]}
        for index in range(50)
    ]
    (tmp_path / "reassign.json").write_text(json.dumps({"version": 1, "partitions": partitions}))
    written = {
        "zookeeper_host:port": store.place,
        "broker_host:port": store.cluster.bootstrap,
        "kafka_host:port": store.cluster.bootstrap,
        "localhost:9092": store.cluster.bootstrap,
        "<topic_name>": TOPIC,
        "<新分区数>": "3",
    }

    def carry_out(line, *more, succeeds=True):
        line = IN_WORDS.get(line, line).format(store=store.url, bootstrap=store.cluster.bootstrap)
        for words, meant in written.items():
            line = line.replace(words, meant)
        command = shlex.split(line.replace("\\$", "$"))
        capsys.readouterr()
        code = run([*(command[1:] if command[0] == "tidelog" else command), *more])
        out, err = capsys.readouterr()
        found_problems = code == 2 and " explain " in line  # a throttle that an earlier line left
        assert (code == 0 or found_problems) is succeeds, (line, out, err)
        return out if succeeds else err

    return carry_out


@dataclass
class Step:
    """A line of a document, what is printed, and how the effect is seen."""

    line: str
    prints: str
    more: tuple[str, ...] = ()
    shown_by: str = ""
    shows: str = ""


DESCRIBE = f"kafka-topics.sh --bootstrap-server broker_host:port --describe --topic {TOPIC}"
OFFSETS = "bin/kafka-console-consumer.sh --bootstrap-server kafka_host:port --topic __consumer_offsets --formatter"
UNTIL_NOTHING_COMES = ("--timeout-ms", "1000")

SEED_004 = [
    Step(
        "bin/kafka-topics.sh --bootstrap-server broker_host:port --create --topic my_topic_name --partitions 1"
        " --replication-factor 1",
        r"Created topic my_topic_name\.",
    ),
    Step("bin/kafka-topics.sh --bootstrap-server broker_host:port --list", r"^my_topic_name$"),
    Step(
        "bin/kafka-topics.sh --bootstrap-server broker_host:port --describe --topic <topic_name>",
        r"Topic: my_topic_name\tTopicId: \S+\tPartitionCount: 1\tReplicationFactor: 1",
    ),
    Step(
        "bin/kafka-topics.sh --bootstrap-server broker_host:port --alter --topic <topic_name> --partitions <新分区数>",
        r"^$",
        shown_by=DESCRIBE,
        shows=r"PartitionCount: 3\t",
    ),
    Step(
        "bin/kafka-configs.sh --zookeeper zookeeper_host:port --entity-type topics --entity-name <topic_name> --alter"
        " --add-config max.message.bytes=10485760",
        r"Completed updating config for topic my_topic_name\.",
        shown_by=DESCRIBE,
        shows="Configs: .*max.message.bytes=10485760",
    ),
    Step(
        "bin/kafka-configs.sh --zookeeper zookeeper_host:port --alter --add-config"
        " 'leader.replication.throttled.rate=104857600,follower.replication.throttled.rate=104857600'"
        " --entity-type brokers --entity-name 0",
        r"Completed updating config for broker 0\.",
        shown_by="kafka-configs.sh --zookeeper zookeeper_host:port --describe --entity-type brokers --entity-name 0",
        shows="leader.replication.throttled.rate=104857600",
    ),
    Step(
        "bin/kafka-configs.sh --zookeeper zookeeper_host:port --alter --add-config"
        " 'leader.replication.throttled.replicas=*,follower.replication.throttled.replicas=*'"
        " --entity-type topics --entity-name test",
        r"Completed updating config for topic test\.",
        shown_by="kafka-configs.sh --zookeeper zookeeper_host:port --describe --entity-type topics --entity-name test",
        shows=r"follower.replication.throttled.replicas=\* ",
    ),
    Step("bin/kafka-topics.sh --bootstrap-server broker_host:port --delete --topic <topic_name>", r"^$"),
    Step(
        "bin/kafka-reassign-partitions.sh --zookeeper zookeeper_host:port --reassignment-json-file reassign.json"
        " --execute",
        "Successfully started partition reassignments? for __consumer_offsets-0,",
        shown_by="kafka-topics.sh --bootstrap-server broker_host:port --describe --topic __consumer_offsets",
        shows=r"ReplicationFactor: 3\t.*\n(\t.*Replicas: \d,\d,\d\tIsr: \d,\d,\d\tElr.*\n){50}",
    ),
    Step(
        OFFSETS + ' "kafka.coordinator.group.GroupMetadataManager\\$OffsetsMessageFormatter" --from-beginning',
        r'"group":"readers","topic":"test","partition":0.*"offset":3',
        UNTIL_NOTHING_COMES,
    ),
    Step(
        OFFSETS + ' "kafka.coordinator.group.GroupMetadataManager\\$GroupMetadataMessageFormatter" --from-beginning',
        r'"group":"readers".*"protocolType":"consumer"',
        UNTIL_NOTHING_COMES,
    ),
    Step(
        OFFSETS + ' "kafka.coordinator.transaction.TransactionLog\\$TransactionLogMessageFormatter " --from-beginning',
        r"",
        UNTIL_NOTHING_COMES,
    ),
    Step("jstack | grep kafka-log-cleaner-thread", r"\A(?![\s\S]*(cleaner|compact))"),
]


@pytest.fixture(scope="module")
def readers(store):
    """A topic `test` with three records that the group `readers` has read."""
    place = ["--bootstrap-server", store.cluster.bootstrap]
    assert run(["topics", *place, "--create", "--topic", "test", "--replication-factor", "3"]) == 0
    from tidelog.shell.transport import Consumer, Producer

    with Producer(store.cluster.bootstrap) as producer:
        for value in (b"1", b"2", b"3"):
            producer.send("test", value, partition=0)
        producer.flush()
    with Consumer(store.cluster.bootstrap, "readers", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["test"])
        while not consumer.poll(timeout=10):
            pass
        consumer.commit({("test", 0): 3})


@pytest.mark.usefixtures("readers")
@pytest.mark.parametrize("step", SEED_004, ids=lambda step: " ".join(step.line.split())[:60])
def test_seed_004(operator, step):
    told = []

    def is_printed():
        told.append(operator(step.line, *step.more))
        return re.search(step.prints, told[-1], re.MULTILINE)

    if any(asked in step.line for asked in ("--list", "--describe", "console-consumer")):
        wait_for(is_printed, step.prints)  # of whichever broker is asked
    else:
        assert is_printed(), told
    if step.shown_by:
        wait_for(lambda: re.search(step.shows, operator(step.shown_by)), f"{step.shows} in {step.shown_by}")


def test_a_topic_that_was_deleted_is_gone(operator):
    wait_for(
        lambda: TOPIC not in operator("kafka-topics.sh --bootstrap-server broker_host:port --list"), "the end of it"
    )


def test_more_partitions_means_more(operator, readers):
    grow = "kafka-topics.sh --bootstrap-server broker_host:port --alter --topic test --partitions 1"
    assert "(INVALID_PARTITIONS)" in operator(grow, succeeds=False)


def test_seed_002(operator):
    create = "kafka-topics.sh --bootstrap-server localhost:9092 --create --topic my-topic --replication-factor 3"
    operator(create)
    listed = "kafka-topics.sh --list --bootstrap-server localhost:9092"
    wait_for(lambda: "my-topic" in operator(listed).split(), "the topic")
    line = (
        "kafka-configs.sh --alter --topic my-topic --add-config min.insync.replicas=2 --bootstrap-server localhost:9092"
    )
    assert operator(line) == "Completed updating config for topic my-topic.\n"
    shown = "kafka-configs.sh --describe --topic my-topic --bootstrap-server localhost:9092"
    wait_for(lambda: "min.insync.replicas=2 " in operator(shown), "the option")


def test_a_controller_is_elected_anew_when_its_node_goes(operator, store):
    before = operator(f"tidelog metadata get --metadata {store.url} /controller_epoch")
    operator("rmr /controller")
    epoch = f"tidelog metadata get --metadata {store.url} /controller_epoch"
    wait_for(lambda: int(operator(epoch)) > int(before), "another term")
    wait_for(lambda: controller_of(store.cluster.bootstrap) >= 0, "a controller")
    operator("kafka-topics.sh --bootstrap-server broker_host:port --create --topic after")
