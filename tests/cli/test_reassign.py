"""`tidelog reassign-partitions`, `rebalance`, `leader-election`, `delete-records` and `log-dirs` on three brokers."""

import json
import re
from collections import Counter
from itertools import count
from queue import SimpleQueue

import pytest

from tests.waiting import PATIENCE_S, wait_for
from tidelog.shell.metrics_page import MetricsPage
from tidelog.shell.transport import Producer
from tidelog.testing import Cluster


@pytest.fixture
def file(tmp_path):
    """`file({...})`: the path of a JSON file."""

    serial = count()

    def write(content):
        path = tmp_path / f"{next(serial)}.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return write


def wishes(*entries):
    """(topic, partition, replicas) …"""
    partitions = [{"topic": t, "partition": p, "replicas": replicas} for t, p, replicas in entries]
    return {"version": 1, "partitions": partitions}


def settled(on):
    on.until(lambda r: "No partition reassignments found." in r.lines, "reassign-partitions", "--list")


def are_on(on, topic, wanted):
    """Wait until the broker that is asked knows these replicas; the controller knew them before."""
    on.until(lambda result: _replicas(result.lines) == wanted, "topics", "--describe", "--topic", topic)


def _replicas(lines):
    return [line.split("Replicas: ")[1].split("\t")[0] for line in lines if "Replicas: " in line]


def send(cluster, topic, count=100, size=1000, partition=0):
    with Producer(cluster.bootstrap) as producer:
        for _ in range(count):
            producer.send(topic, b"x" * size, partition=partition)
        producer.flush()


def numbers(cluster):
    """The brokers' metrics, summed."""
    sums = Counter()
    for broker in cluster.brokers:
        page, answer = MetricsPage(broker._hosted.node, broker._hosted.server), SimpleQueue()
        broker._hosted.loop.call_soon_threadsafe(lambda page=page, answer=answer: answer.put(page.text()))
        text = answer.get(timeout=PATIENCE_S).decode()
        sums.update({name: float(value) for name, value in re.findall(r"^([a-z_]+) (\S+)$", text, re.MULTILINE)})
    return sums


def test_generate_proposes_and_execute_moves_and_verify_says_so(cluster, on, file):
    on.create("moves", "--replica-assignment", "0:1,0:1")
    send(cluster, "moves")
    topics = file({"topics": [{"topic": "moves"}], "version": 1})
    proposed = on("reassign-partitions", "--generate", "--topics-to-move-json-file", topics, "--broker-list", "1,2")
    assert proposed.lines[0] == "Current partition replica assignment"
    assert json.loads(proposed.lines[1])["partitions"][0]["replicas"] == [0, 1]
    target = json.loads(proposed.lines[-1])
    assert all(sorted(entry["replicas"]) == [1, 2] for entry in target["partitions"])
    plan = file(target)
    done = on("reassign-partitions", "--execute", "--reassignment-json-file", plan, "--throttle", "100000000")
    assert done.code == 0
    assert "Successfully started partition reassignments for moves-0,moves-1" in done.lines
    assert "The inter-broker throttle limit was set to 100000000 B/s" in done.lines
    settled(on)
    are_on(on, "moves", [",".join(map(str, entry["replicas"])) for entry in target["partitions"]])
    verified = on("reassign-partitions", "--verify", "--reassignment-json-file", plan)
    assert "Reassignment of partition moves-0 is completed." in verified.lines
    assert "Clearing broker-level throttles on brokers 0,1,2" in verified.lines
    assert "Clearing topic-level throttles on topic moves" in verified.lines
    other = file(wishes(("moves", 0, [0])))
    verified = on("reassign-partitions", "--verify", "--reassignment-json-file", other, "--preserve-throttles")
    assert "There is no active reassignment of partition moves-0, but replica set is" in verified.out
    assert "Clearing" not in verified.out


def test_throttles_are_removed_by_themselves_when_the_move_ends(cluster, on, file):
    on.create("slow", "--replica-assignment", "0")
    send(cluster, "slow")
    plan = file(wishes(("slow", 0, [1])))
    assert on("reassign-partitions", "--execute", "--reassignment-json-file", plan, "--throttle", "9000000").code == 0
    settled(on)
    for kind, name in (("topics", "slow"), ("brokers", "0"), ("brokers", "1")):
        asked = ("configs", "--describe", "--entity-type", kind, "--entity-name", name)
        on.until(lambda result: "throttled" not in result.out, *asked)


def test_a_slow_move_is_listed_with_what_is_left_and_cancelled(cluster, on, file):
    on.create("held", "--replica-assignment", "0")
    send(cluster, "held", 1_500, 10_000)  # after each megabyte the throttle holds it for some ten seconds
    plan = file(wishes(("held", 0, [1])))
    assert on("reassign-partitions", "--execute", "--reassignment-json-file", plan, "--throttle", "1000").code == 0
    listed = on.until(lambda result: len(result.lines) > 2, "reassign-partitions", "--list", "--progress")
    assert listed.lines[:2] == ["Current partition reassignments:", "held-0: replicas: 1,0. adding: 1. removing: 0."]
    assert "bytes left" in listed.lines[-1]
    names = [f"kafka_server_replicamanager_{name}partitions" for name in ("reassigning", "underreplicated")]
    wait_for(lambda: [numbers(cluster)[name] for name in names] == [1, 0], "one move, and nothing else behind")
    again = on("reassign-partitions", "--execute", "--reassignment-json-file", plan)
    assert again.code == 1
    assert "Use --additional to override this" in again.err
    verified = on("reassign-partitions", "--verify", "--reassignment-json-file", plan)
    assert "Reassignment of partition held-0 is still in progress." in verified.lines
    assert "Clearing" not in verified.out
    cancelled = on("reassign-partitions", "--cancel", "--reassignment-json-file", plan)
    assert "Successfully cancelled partition reassignment for: held-0" in cancelled.lines
    are_on(on, "held", ["0"])
    cancelled = on("reassign-partitions", "--cancel", "--reassignment-json-file", plan)
    assert "None of the specified partition reassignments are active." in cancelled.lines


def test_the_replication_factor_may_be_held(on, file):
    on.create("three", "--replica-assignment", "0:1")
    plan = file(wishes(("three", 0, [0, 1, 2])))
    chosen = ("--reassignment-json-file", plan)
    refused = on("reassign-partitions", "--execute", *chosen, "--disallow-replication-factor-change")
    assert refused.code == 1
    assert "The replication factor is changed from 2 to 3" in refused.err
    assert on("reassign-partitions", "--execute", *chosen).code == 0
    settled(on)
    are_on(on, "three", ["0,1,2"])


def test_replicas_move_between_folders(tidelog, tmp_path, file):
    with Cluster(brokers=1, log_dirs=f"{tmp_path}/a,{tmp_path}/b") as cluster:

        def on(command, *arguments):
            return tidelog(command, "--bootstrap-server", cluster.bootstrap, *arguments)

        assert on("topics", "--create", "--topic", "housed", "--replica-assignment", "0").code == 0
        send(cluster, "housed")
        here, there = f"{tmp_path}/a", f"{tmp_path}/b"
        if not (tmp_path / "a" / "housed-0").exists():
            here, there = there, here
        entry = {"topic": "housed", "partition": 0, "replicas": [0], "log_dirs": [there]}
        plan = file({"version": 1, "partitions": [entry]})
        chosen = ("--reassignment-json-file", plan)
        done = on("reassign-partitions", "--execute", *chosen, "--replica-alter-log-dirs-throttle", "100000000")
        assert f"Successfully started moving log directory to {there} for replica housed-0 with broker 0 " in done.lines

        def completed():
            result = on("reassign-partitions", "--verify", *chosen)
            return result if "completed successfully" in result.out else None

        verified = wait_for(completed, "the replica to be in the other folder")
        assert "Reassignment of replica housed-0-0 completed successfully." in verified.lines
        assert "Clearing broker-level throttles on broker 0" in verified.lines
        wrong = file({"version": 1, "partitions": [entry | {"log_dirs": ["/nowhere"]}]})
        refused = on("reassign-partitions", "--execute", "--reassignment-json-file", wrong)
        assert refused.code == 1
        assert "Failed to alter dir for housed-0-0" in refused.err


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "is not valid JSON"),
        ({"version": 2, "partitions": []}, "Not supported version field value 2"),
        ({"partitions": []}, "Partition reassignment list cannot be empty"),
        (wishes(("t", 0, [])), "Partition replica list cannot be empty"),
        (wishes(("t", 0, [1]), ("t", 0, [2])), "contains duplicate topic partitions: t-0"),
        (wishes(("t", 0, [1, 1])), "t-0 contains multiple entries for 1"),
        (wishes(("t", 0, [9])), "Unknown broker id 9"),
        (wishes(("missing", 0, [1])), "Topic missing not found"),
        ({"partitions": [{"topic": "t", "partition": 0}]}, "has no 'replicas'"),
        ({"partitions": [{"topic": "t", "partition": "0", "replicas": [1]}]}, "'0' is not an integer"),
        ([], "expected structure"),
        (
            {"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["a", "b"]}]},
            "Size of replicas list [1] is different from size of log dirs list [a, b] for partition t-0",
        ),
    ],
)
def test_bad_files_are_refused_in_a_sentence(on, file, content, sentence):
    result = on("reassign-partitions", "--execute", "--reassignment-json-file", file(content))
    assert result.code == 1
    assert sentence in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Exactly one action"),
        (("--list", "--verify"), "Exactly one action"),
        (("--execute",), "--execute requires --reassignment-json-file"),
        (("--list", "--throttle", "5"), "--throttle applies to --execute"),
        (("--generate", "--broker-list", "0"), "--generate requires --topics-to-move-json-file"),
    ],
)
def test_command_lines_are_checked(on, arguments, sentence):
    result = on("reassign-partitions", *arguments)
    assert result.code == 1
    assert sentence in result.err


def test_rebalance_shows_and_moves_in_batches(cluster, on):
    on.create("uneven", "--replica-assignment", ",".join(["0:1"] * 9))
    send(cluster, "uneven", 10)
    shown = on("rebalance", "--plan", "--topic", "uneven")
    assert "Broker 2: 0 -> 6 replicas, 0 -> 3 leaders" in shown.out
    assert "Broker 0: 9 -> 6 replicas, 9 -> 3 leaders" in shown.out
    are_on(on, "uneven", ["0,1"] * 9)
    done = on("rebalance", "--execute", "--topic", "uneven", "--batch", "4", "--timeout", "90000")
    assert done.code == 0, done
    assert "Batch 1 of" in done.out
    nothing = "0 of 9 partitions move, 0 bytes are copied."
    on.until(lambda result: result.lines[0] == nothing, "rebalance", "--plan", "--topic", "uneven")
    on.until(
        lambda result: [result.out.count(f"Leader: {broker}") for broker in range(3)] == [3, 3, 3],
        *("topics", "--describe", "--topic", "uneven"),
    )
    refused = on("rebalance", "--plan", "--topic", "uneven", "--broker-list", "1")
    assert "only 1 broker(s)" in refused.err


def test_leader_election(on, file):
    on.create("elected", "--replica-assignment", "0:1,1:2")
    plan = file(wishes(("elected", 0, [1, 0])))
    assert on("reassign-partitions", "--execute", "--reassignment-json-file", plan).code == 0
    are_on(on, "elected", ["1,0", "1,2"])
    one = ("--election-type", "PREFERRED", "--topic", "elected", "--partition", "0")
    done = on("leader-election", *one)
    assert done.lines == ["Successfully completed leader election (PREFERRED) for partitions elected-0"]
    asked = file({"partitions": [{"topic": "elected", "partition": p} for p in (0, 1)]})
    done = on("leader-election", "--election-type", "preferred", "--path-to-json-file", asked)
    assert done.lines == ["Valid replica already elected for partitions elected-0, elected-1"]
    done = on("leader-election", "--election-type", "unclean", "--topic", "elected", "--partition", "7")
    assert done.code == 1
    assert "Error completing leader election (UNCLEAN) for partition: elected-7: UNKNOWN_TOPIC_OR_PARTITION" in done.out
    assert on("leader-election", "--election-type", "preferred", "--all-topic-partitions").code == 0
    assert "One and only one" in on("leader-election", "--election-type", "preferred").err
    twice = file({"partitions": [{"topic": "elected", "partition": 0}] * 2})
    done = on("leader-election", "--election-type", "preferred", "--path-to-json-file", twice)
    assert "duplicate partitions: [elected-0]" in done.err


def test_delete_records(cluster, on, file):
    on.create("cut", "--partitions", "1", "--replication-factor", "3")
    send(cluster, "cut", 10)
    asked = file({"partitions": [{"topic": "cut", "partition": 0, "offset": 4}], "version": 1})
    done = on("delete-records", "--offset-json-file", asked)
    assert done.lines == [
        "Executing records delete operation",
        "Records delete operation completed:",
        "partition: cut-0\tlow_watermark: 4",
    ]
    beyond = file({"partitions": [{"topic": "cut", "partition": 0, "offset": 99}], "version": 1})
    assert "OFFSET_OUT_OF_RANGE" in on("delete-records", "--offset-json-file", beyond).out
    assert "Missing partitions field" in on("delete-records", "--offset-json-file", file({"version": 1})).err


def test_log_dirs(cluster, on):
    on.create("weighed", "--replica-assignment", "1")
    send(cluster, "weighed", 10)
    done = on("log-dirs", "--describe", "--topic-list", "weighed", "--broker-list", "0,1")
    assert done.lines[:2] == [
        "Querying brokers for log directories information",
        "Received log directory information from brokers 0,1",
    ]
    told = json.loads(done.lines[2])
    (held,) = [p for b in told["brokers"] if b["broker"] == 1 for d in b["logDirs"] for p in d["partitions"]]
    assert (held["partition"], held["offsetLag"], held["isFuture"]) == ("weighed-0", 0, False)
    assert held["size"] > 10_000
    refused = on("log-dirs", "--describe", "--broker-list", "7")
    assert "ERROR: The given brokers do not exist from --broker-list: 7. Current existent brokers: 0,1,2" in refused.err
    assert "--describe is required" in on("log-dirs").err
