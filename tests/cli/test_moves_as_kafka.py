"""`reassign-partitions`, `leader-election`, `delete-records` and `log-dirs` print what Kafka's own tools print, asked of
the same cluster: where both may run on the same state, one after the other. Kafka leaves some orders to hash tables."""

import json

import pytest

from tidelog.shell.transport import Producer

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


@pytest.fixture
def both(cluster, on, kafka_tool):
    """Our lines and those of Kafka's tool."""

    def call(tool, command, *arguments):
        ours = on(command, *arguments)
        assert ours.code == 0, ours
        theirs = kafka_tool(tool, "--bootstrap-server", cluster.bootstrap, *arguments)
        return plain(ours.out), plain(theirs)

    return call


def plain(text):
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def file(tmp_path, content):
    path = tmp_path / "asked.json"
    path.write_text(json.dumps(content))
    return str(path)


def test_moves_are_reported_alike(cluster, on, both, tmp_path):
    on.create("alike", "--replica-assignment", "0,1")
    with Producer(cluster.bootstrap) as producer:
        for _ in range(2_000):  # after each megabyte the throttle holds the move for some ten seconds
            producer.send("alike", b"x" * 10_000, partition=0)
        producer.flush()
    topics = file(tmp_path, {"version": 1, "topics": [{"topic": "alike"}]})
    asked = ("--generate", "--topics-to-move-json-file", topics, "--broker-list", "2")
    ours, theirs = both(REASSIGN, "reassign-partitions", *asked)
    assert ours == theirs
    assert "broker-1" in ours[1]
    entries = [{"topic": "alike", "partition": p, "replicas": r} for p, r in ((0, [1]), (1, [1]))]
    plan = file(tmp_path, {"version": 1, "partitions": entries})
    chosen = ("--reassignment-json-file", plan)
    ours, theirs = both(REASSIGN, "reassign-partitions", "--list")
    assert ours == theirs == ["No partition reassignments found."]
    ours, theirs = both(REASSIGN, "reassign-partitions", "--verify", *chosen)
    assert ours == theirs
    assert "There is no active reassignment of partition alike-0, but replica set is 0 rather than 1." in ours
    ours = plain(on("reassign-partitions", "--execute", *chosen, "--throttle", "2000").out)
    _, theirs = both(REASSIGN, "reassign-partitions", "--execute", *chosen, "--throttle", "2000", "--additional")
    assert len(ours) == len(theirs)  # the first line with replicas is of before, the second of the move under way
    assert [line for line in theirs if "replicas" not in line] == [line for line in ours if "replicas" not in line]
    for action in ("--list", "--verify"):
        ours, theirs = both(REASSIGN, "reassign-partitions", action, *(chosen if action == "--verify" else ()))
        assert ours == theirs
    ours = plain(on("reassign-partitions", "--cancel", *chosen).out)
    assert ours[0] == "Successfully cancelled partition reassignment for: alike-0"
    ours, theirs = both(REASSIGN, "reassign-partitions", "--cancel", *chosen)
    assert ours == theirs
    assert ours[0].startswith("None of the specified partition reassignments are active.")


def test_elections_cuts_and_folders_are_reported_alike(cluster, on, both, tmp_path):
    on.create("elected-alike", "--replica-assignment", "0:1,1:0")
    chosen = ("--election-type", "preferred", "--topic", "elected-alike", "--partition", "1")
    ours, theirs = both("LeaderElectionCommand", "leader-election", *chosen)
    assert ours == theirs == ["Valid replica already elected for partitions elected-alike-1"]
    with Producer(cluster.bootstrap) as producer:
        for _ in range(5):
            producer.send("elected-alike", b"x", partition=0)
        producer.flush()
    cut = file(tmp_path, {"partitions": [{"topic": "elected-alike", "partition": 0, "offset": 3}], "version": 1})
    ours, theirs = both("DeleteRecordsCommand", "delete-records", "--offset-json-file", cut)
    assert ours == theirs
    ours, theirs = both(
        "LogDirsCommand", "log-dirs", "--describe", "--topic-list", "elected-alike", "--broker-list", "1"
    )
    assert ours[:2] == theirs[:2]
    assert ordered(ours[2]) == ordered(theirs[2])


def ordered(text):
    told = json.loads(text)
    for broker in told["brokers"]:
        for folder in broker["logDirs"]:
            folder["partitions"].sort(key=lambda each: each["partition"])
    return told
