"""Replicas that move between four broker processes: by Kafka's own tools and ours, under load and kills, and topics that
are deleted while they cannot be (seed 004)."""

import json
import os
import re
import sys
import time
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.compatibility.support import Load, Topic, assert_exact, controller_of, stored
from tests.processes import Processes
from tests.waiting import PATIENCE_S, wait_for
from tidelog.cli.main import run

pytestmark = pytest.mark.timeout(900)

BROKERS = 4
TURNS = 4
MOVING = {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
"""Moves under which a broker dies: the controller, or one that is moved to, in turn."""
REPLICAS = int(os.environ.get("TIDELOG_MOVED_REPLICAS", "40"))
"""How many replicas move under load; 500 gives the figures of bench/RESULTS.md."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("moves")


@pytest.fixture(scope="module")
def cluster(folder):
    overrides = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "50",
        "replica.lag.time.max.ms": "5000",
        "auto.leader.rebalance.enable": "false",
    }
    with Processes(folder, brokers=BROKERS, port=0, overrides=overrides) as running:
        yield running


@pytest.fixture
def tidelog(cluster, capsys):
    """`tidelog("topics", "--list")` → its output; it must succeed."""

    def call(command, *arguments, code=0):
        capsys.readouterr()
        assert run([command, "--bootstrap-server", cluster.bootstrap, *arguments]) == code, capsys.readouterr()
        return "".join(capsys.readouterr())

    return call


@pytest.fixture
def file(tmp_path):
    """`file({...})`: the path of a JSON file."""
    serial = count()

    def write(content):
        path = tmp_path / f"{next(serial)}.json"
        path.write_text(json.dumps(content))
        return str(path)

    return write


def wishes(moves):
    """{(topic, partition): replicas} as Kafka's JSON."""
    entries = [{"topic": t, "partition": p, "replicas": list(replicas)} for (t, p), replicas in moves.items()]
    return {"version": 1, "partitions": entries}


def fill(cluster, topic, count, size=1000, partition=0):
    small = {"linger.ms": 5, "batch.num.messages": 10}  # a batch is copied whole, whatever the throttle
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", **small})
    for number in range(count):
        producer.produce(topic, os.urandom(size // 2).hex(), key=str(number), partition=partition)
        if number % 500 == 0:
            producer.flush()
    assert producer.flush(60) == 0


def settled(tidelog):
    wait_for(lambda: "No partition reassignments found." in tidelog("reassign-partitions", "--list"), "all moves end")


def throttle_beforehand(tidelog, topic, rate=1000):
    """The tool sets throttles and begins at once, and a broker may hear of the move first: 300 kB take it 10 ms then."""
    for broker in range(BROKERS):
        rates = f"leader.replication.throttled.rate={rate},follower.replication.throttled.rate={rate}"
        tidelog("configs", "--alter", "--entity-type", "brokers", "--entity-name", str(broker), "--add-config", rates)
    all_of_it = "leader.replication.throttled.replicas=*,follower.replication.throttled.replicas=*"
    tidelog("configs", "--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", all_of_it)


def replicas(tidelog, topic):
    lines = tidelog("topics", "--describe", "--topic", topic).splitlines()
    return {
        int(line.split("Partition: ")[1].split("\t")[0]): line.split("Replicas: ")[1].split("\t")[0]
        for line in lines
        if "Leader: " in line
    }


def await_replicas(tidelog, moves):
    """Until the broker that is asked, whichever that is, knows where all partitions of a topic have moved."""
    ((topic, _), *_) = moves
    wanted = {partition: ",".join(map(str, own)) for (_, partition), own in moves.items()}
    wait_for(lambda: replicas(tidelog, topic) == wanted, f"{topic} at {wanted}")


def held(folder, topic):
    """The brokers that hold a replica of the topic, without a look into folders that may go meanwhile."""
    name = re.compile(rf"{topic}-\d+")
    found = {path.parent.name for path in Path(folder).glob("broker-*/*") if name.fullmatch(path.name)}
    return sorted(int(each.removeprefix("broker-")) for each in found)


def test_kafkas_reassignment_tool(cluster, tool, tidelog, file, folder):
    tidelog("topics", "--create", "--topic", "moved", "--replica-assignment", "0:1,1:0")
    for partition in (0, 1):
        fill(cluster, "moved", 300, partition=partition)
    topics = file({"topics": [{"topic": "moved"}], "version": 1})
    command = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    proposed = tool(command, "--generate", "--topics-to-move-json-file", topics, "--broker-list", "2,3")
    plan = file(json.loads(proposed.splitlines()[-1]))
    # Slow enough that it does not end while it is looked at; then as fast as an operator would have it.
    done = tool(command, "--execute", "--reassignment-json-file", plan, "--throttle", "1000")
    assert "The inter-broker throttle limit was set to 1000 B/s" in done
    assert "Successfully started partition reassignments for moved-0,moved-1" in done
    listed = tool(command, "--list")
    assert listed.strip() == tidelog("reassign-partitions", "--list").strip()
    assert "moved-1: replicas: " in listed
    faster = tool(command, "--execute", "--additional", "--reassignment-json-file", plan, "--throttle", "200000")
    assert "The inter-broker throttle limit was set to 200000 B/s" in faster
    settled(tidelog)
    verified = tool(command, "--verify", "--reassignment-json-file", plan)
    assert "Reassignment of partition moved-0 is completed." in verified
    assert "Clearing broker-level throttles on brokers 0,1,2,3" in verified
    assert sorted(replicas(tidelog, "moved")) == [0, 1]
    wait_for(lambda: held(folder, "moved") == [2, 3], "the old replicas go")
    back = file(wishes({("moved", 0): [0, 2], ("moved", 1): [1, 3]}))
    throttle_beforehand(tidelog, "moved")
    tool(command, "--execute", "--reassignment-json-file", back, "--throttle", "1000")
    assert "is still in progress" in tool(command, "--verify", "--reassignment-json-file", back)
    cancelled = tool(command, "--cancel", "--reassignment-json-file", back)
    assert "Successfully cancelled partition reassignments for: moved-0,moved-1" in cancelled
    wait_for(lambda: held(folder, "moved") == [2, 3], "what was begun goes")


def test_throttles_are_gone_when_a_move_has_ended(cluster, tidelog, file):
    tidelog("topics", "--create", "--topic", "paced", "--replica-assignment", "0:1")
    fill(cluster, "paced", 400)
    plan = file(wishes({("paced", 0): [2, 3]}))
    began = time.monotonic()
    tidelog("reassign-partitions", "--execute", "--reassignment-json-file", plan, "--throttle", "200000")
    settled(tidelog)
    assert time.monotonic() - began > 0.9 * 400_000 / 200_000 - 1, "faster than it may be"

    def throttled():
        asked = [("topics", "paced"), *(("brokers", str(broker)) for broker in range(BROKERS))]
        shown = [tidelog("configs", "--describe", "--entity-type", kind, "--entity-name", name) for kind, name in asked]
        return any("throttled" in text for text in shown)

    wait_for(lambda: not throttled(), "the throttles go")


def test_the_offsets_topic_gets_three_replicas_and_keeps_what_it_holds(cluster, tidelog, file):
    """Seed 004's example: every partition of __consumer_offsets from one replica to three."""
    Topic(cluster.bootstrap, "kept", 1, copies=1)
    groups = [f"group-{number}" for number in range(12)]
    for group in groups:
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
        consumer.commit(offsets=[TopicPartition("kept", 0, 7)], asynchronous=False)
        consumer.close()
    wanted = {("__consumer_offsets", p): [(p + n) % BROKERS for n in range(3)] for p in range(50)}
    plan = file(wishes(wanted))
    tidelog("reassign-partitions", "--execute", "--reassignment-json-file", plan)
    settled(tidelog)
    await_replicas(tidelog, wanted)
    tidelog("leader-election", "--election-type", "preferred", "--all-topic-partitions")
    victim = 1
    cluster.kill(victim)
    try:
        for group in groups:
            assert wait_for(partial(position, cluster, group), f"the position of {group}") == 7
    finally:
        cluster.start_broker(victim)
        cluster.wait_ready()


def position(cluster, group):
    """None while the group's coordinator moves: librdkafka hands that error to the application."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        (committed,) = consumer.committed([TopicPartition("kept", 0)], timeout=60)
    except KafkaException as error:
        if error.args[0].code() not in MOVING:
            raise
        return None
    finally:
        consumer.close()
    return committed.offset


def test_partitions_move_under_load_while_brokers_and_controllers_die(cluster, tidelog, file):
    topic = Topic(cluster.bootstrap, "wandering", 3, min_insync_replicas="2")
    with Load(cluster.bootstrap, topic) as load:
        for turn in range(TURNS):
            load.await_more(100)
            now = {p: [int(b) for b in text.split(",")] for p, text in replicas(tidelog, "wandering").items()}
            target = {("wandering", p): [(b + 1) % BROKERS for b in own] for p, own in now.items()}
            plan = file(wishes(target))
            tidelog("reassign-partitions", "--execute", "--reassignment-json-file", plan, "--throttle", "50000000")
            victim = controller_of(cluster.bootstrap) if turn % 2 else target["wandering", turn % 3][-1]
            cluster.kill(victim)
            load.await_more(100)
            cluster.start_broker(victim)
            cluster.wait_ready()
            settled(tidelog)
            await_replicas(tidelog, target)
            wait_for(lambda: all(len(isr) == 3 for isr in topic.isrs().values()), "all are in sync")
        load.stop()
        assert_exact(load, stored(cluster.bootstrap, topic))
    assert len(load.acknowledged) >= TURNS * 200


def test_many_replicas_move_under_load(cluster, tidelog, file):
    """TIDELOG_MOVED_REPLICAS=500 shows how long that takes (with -s)."""
    many = Topic(cluster.bootstrap, "many", REPLICAS, copies=1, leader=0)
    fill_many(cluster, "many", REPLICAS)
    topic = Topic(cluster.bootstrap, "busy", 3, min_insync_replicas="2")
    plan = file(wishes({("many", p): [1 + p % (BROKERS - 1)] for p in range(REPLICAS)}))
    with Load(cluster.bootstrap, topic, pace_s=0.0005) as load:
        load.await_more(100)
        sent, began = len(load.acknowledged), time.monotonic()
        tidelog("reassign-partitions", "--execute", "--reassignment-json-file", plan)
        asked = time.monotonic()
        settled(tidelog)
        ended = time.monotonic()
        acked = len(load.acknowledged) - sent
        load.stop()
        assert_exact(load, stored(cluster.bootstrap, topic))
    figures = f"{REPLICAS} replicas: asked {asked - began:.2f} s, ended {ended - began:.2f} s"
    sys.stderr.write(f"{figures}, {acked} records acknowledged meanwhile\n")
    wait_for(lambda: {tuple(isr) for isr in many.isrs().values()} == {(1,), (2,), (3,)}, "the replicas at their places")
    for partition in (0, REPLICAS - 1):
        assert len(read_all(cluster, "many", partition)) == 20


def fill_many(cluster, topic, partitions):
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 20})
    for partition in range(partitions):
        for number in range(20):
            producer.produce(topic, b"%d" % number * 100, partition=partition)
        producer.poll(0)
    assert producer.flush(120) == 0


def read_all(cluster, topic, partition):
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "enable.partition.eof": True}
        | {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            consumer.close()
            return found
        found.append(message.value())


# Seed 004: topics that will not die.


def test_a_topic_deleted_while_a_broker_is_down_goes_with_its_return(cluster, tidelog, folder):
    tidelog("topics", "--create", "--topic", "stubborn", "--replica-assignment", "0:1:2")
    fill(cluster, "stubborn", 10)
    cluster.kill(2)
    wait_for(lambda: "Isr: 0,1\t" in tidelog("topics", "--describe", "--topic", "stubborn"), "broker 2 is missed")
    tidelog("topics", "--delete", "--topic", "stubborn")
    wait_for(lambda: "stubborn" not in tidelog("topics", "--list").splitlines(), "nobody to show it any more")
    wait_for(lambda: held(folder, "stubborn") == [2], "the living delete")
    assert "marked for deletion" in tidelog("topics", "--create", "--topic", "stubborn", "--partitions", "1", code=1)
    cluster.start_broker(2)
    cluster.wait_ready()
    wait_for(lambda: held(folder, "stubborn") == [], "the broker that is back deletes")
    created = ("topics", "--create", "--if-not-exists", "--topic", "stubborn", "--replica-assignment", "2")
    wait_for(lambda: "Created topic stubborn." in tidelog(*created), "the name is free")


def test_a_topic_deleted_during_a_move_goes_when_that_ends(cluster, tidelog, file, folder):
    tidelog("topics", "--create", "--topic", "leaving", "--replica-assignment", "0")
    fill(cluster, "leaving", 300)
    plan = file(wishes({("leaving", 0): [1]}))
    tidelog("reassign-partitions", "--execute", "--reassignment-json-file", plan, "--throttle", "1000")
    from tidelog.cli.admin_requests import connect
    from tidelog.effects import CONTROLLER
    from tidelog.errors import ErrorCode
    from tidelog.wire.messages.topics.topic_changes import DeleteTopicsRequest, DeleteTopicState

    with connect(cluster.bootstrap) as admin:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="leaving")], timeout_ms=1000)
        assert admin.ask(request, CONTROLLER).responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert "leaving" in tidelog("topics", "--list").splitlines()
    tidelog("reassign-partitions", "--cancel", "--reassignment-json-file", plan)
    wait_for(lambda: "leaving" not in tidelog("topics", "--list").splitlines(), "the topic goes")
    wait_for(lambda: held(folder, "leaving") == [], "its files go")


def live(bootstrap):
    """The brokers that the controller has announced to the others."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=PATIENCE_S).brokers


def test_kafkas_election_tool_elects_uncleanly(cluster, tool, tidelog):
    tidelog("topics", "--create", "--topic", "lost", "--replica-assignment", "2:3")
    fill(cluster, "lost", 10)
    cluster.kill(3)
    wait_for(lambda: "Isr: 2\t" in tidelog("topics", "--describe", "--topic", "lost"), "broker 3 is missed")
    cluster.kill(2)
    wait_for(lambda: "Leader: none" in tidelog("topics", "--describe", "--topic", "lost"), "nobody leads")
    cluster.start_broker(3)
    wait_for(lambda: 3 in live(cluster.bootstrap), "broker 3 is registered")
    chosen = ("--topic", "lost", "--partition", "0")
    done = tool("LeaderElectionCommand", "--election-type", "unclean", *chosen)
    assert "Successfully completed leader election (UNCLEAN) for partitions lost-0" in done
    cluster.start_broker(2)
    cluster.wait_ready()
    wait_for(lambda: "Isr: 3,2\t" in tidelog("topics", "--describe", "--topic", "lost"), "broker 2 follows")
    done = tool("LeaderElectionCommand", "--election-type", "preferred", *chosen)
    assert "Successfully completed leader election (PREFERRED) for partitions lost-0" in done
