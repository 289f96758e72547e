"""Three broker processes on real file systems that fill up, go away, cannot be written or cannot be read, under an
idempotent acks=all load: what was acknowledged stays, the other folders and brokers go on, and the tools are told.
"""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.compatibility.mounts import as_root, fill, small_disk
from tests.compatibility.support import Load, Topic, assert_exact, stored
from tests.processes import Processes
from tests.waiting import wait_for
from tidelog.shell.supervisor import Supervisor

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
STORAGE_ERROR = "org.apache.kafka.common.errors.KafkaStorageException"
QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "replica.lag.time.max.ms": "2000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}


def on(supervisor: Supervisor, broker: int, *folders: object) -> None:
    """Let the broker keep its logs there."""
    child = supervisor.children[broker]
    child.options = {**child.options, "log.dirs": ",".join(map(str, folders))}
    child.log = child.folder.with_suffix(".log")


def told(supervisor: Supervisor, broker: int, kind: str) -> int:
    """How often the broker has said so."""
    path = supervisor.children[broker].log
    assert path is not None
    return path.read_text().count(f" {kind} ")


@pytest.fixture
def described(kafka_tool):
    """folder → (error, partitions in it) of one broker, by Kafka's own tool."""

    def describe(supervisor: Supervisor, broker: int) -> dict[str, tuple[str | None, set[str]]]:
        text = kafka_tool("LogDirsCommand", "--bootstrap-server", supervisor.bootstrap, "--describe",
                          "--broker-list", str(broker))  # fmt: skip
        (line,) = (line for line in text.splitlines() if line.startswith("{"))
        (found,) = json.loads(line)["brokers"]
        return {
            each["logDir"]: (each["error"], {partition["partition"] for partition in each["partitions"]})
            for each in found["logDirs"]
        }

    return describe


@as_root
def test_a_full_disk_of_a_leader_and_of_a_follower(tmp_path):
    with ExitStack() as exits:
        supervisor = Processes(tmp_path, overrides=QUICK, port=0)
        for broker in (0, 1):
            disk = exits.enter_context(small_disk(tmp_path / f"disk-{broker}", 48))
            on(supervisor, broker, disk / "logs")
        exits.enter_context(supervisor)
        topic = Topic(supervisor.bootstrap, "t", 1, leader=0, min_insync_replicas="2", segment_bytes="1048576")
        load = exits.enter_context(Load(supervisor.bootstrap, topic, {"compression.type": "none"}))
        load.await_more(500)

        ballast = fill(tmp_path / "disk-1")
        wait_for(lambda: told(supervisor, 1, "folder.full"), "the follower's disk to be full")
        wait_for(lambda: topic.isrs()[0] == [0, 2], "the follower to leave the in-sync set")
        load.await_more(500)
        ballast.unlink()
        wait_for(lambda: topic.isrs()[0] == [0, 1, 2], "the follower to catch up")

        ballast = fill(tmp_path / "disk-0")
        wait_for(lambda: told(supervisor, 0, "folder.full"), "the leader's disk to be full")
        before = len(load.acknowledged)
        found = stored(supervisor.bootstrap, topic)[0]
        assert len(found) >= before - 1_000
        assert topic.led_by() == 0
        assert not load.failed
        ballast.unlink()
        load.await_more(500)
        load.stop()
        assert_exact(load, stored(supervisor.bootstrap, topic))
        assert [told(supervisor, broker, "folder.room") for broker in (0, 1)] == [1, 1]
        assert not any(told(supervisor, broker, "folder.failed") for broker in (0, 1))


@as_root
def test_folders_that_go_away_cannot_be_written_or_cannot_be_read(tmp_path, described):
    with ExitStack() as exits:
        supervisor = Processes(tmp_path, overrides=QUICK, port=0)
        folders = {broker: [tmp_path / f"logs-{broker}-{name}" for name in "ab"] for broker in range(3)}
        for broker, (one, other) in folders.items():
            on(supervisor, broker, one, other)
        exits.enter_context(supervisor)
        topic = Topic(supervisor.bootstrap, "t", 6, leader=0, min_insync_replicas="1")
        load = exits.enter_context(Load(supervisor.bootstrap, topic))
        load.await_more(500)
        placed = described(supervisor, 0)
        spread = {path: {name for name in held if name.startswith("t-")} for path, (_, held) in placed.items()}
        assert sorted(map(len, spread.values())) == [3, 3], "new replicas go where there are fewest"

        gone, kept = map(str, folders[0])
        folders[0][0].rename(tmp_path / "gone")
        lost = {int(name.rpartition("-")[2]) for name in spread[gone]}
        wait_for(lambda: all(topic.leader(each) not in (-1, 0) for each in lost), "other leaders for what is gone")
        assert all(topic.led_by(each) == 0 for each in set(range(6)) - lost), "the other folder is not concerned"
        load.await_more(500)
        now = described(supervisor, 0)
        assert STORAGE_ERROR in now[gone][0]
        assert now[kept] == (None, placed[kept][1])

        exits.enter_context(small_disk(folders[1][0], 1, "ro"))  # on top of what is there
        wait_for(lambda: told(supervisor, 1, "folder.failed"), "the read-only folder to be noticed")
        load.await_more(500)
        assert STORAGE_ERROR in described(supervisor, 1)[str(folders[1][0])][0]

        # Every broker placed the same partitions in its first folder: these have a copy on broker 2 alone by now.
        supervisor.kill(2)
        folders[2][1].rename(tmp_path / "unreadable")
        folders[2][1].write_text("no folder")
        supervisor.start_broker(2)
        supervisor.wait_ready()
        wait_for(lambda: told(supervisor, 2, "folder.failed"), "the folder that cannot be read to be told of")
        load.await_more(500)
        after = described(supervisor, 2)
        assert STORAGE_ERROR in after[str(folders[2][1])][0]
        assert not after[str(folders[2][0])][0]
        expected = [[2] if each in lost else [0, 1] for each in range(6)]
        wait_for(lambda: list(topic.isrs().values()) == expected, "every replica that can be in sync")
        load.stop()
        assert_exact(load, stored(supervisor.bootstrap, topic))


def test_kafkas_tool_moves_replicas_between_folders_under_load(tmp_path, kafka_tool):
    with ExitStack() as exits:
        supervisor = Processes(tmp_path, overrides=QUICK, port=0)
        folders = {broker: [str(tmp_path / f"logs-{broker}-{name}") for name in "ab"] for broker in range(3)}
        for broker, named in folders.items():
            on(supervisor, broker, *named)
        exits.enter_context(supervisor)
        topic = Topic(supervisor.bootstrap, "t", 2, leader=0, min_insync_replicas="2", segment_bytes="1048576")
        load = exits.enter_context(Load(supervisor.bootstrap, topic))
        load.await_more(2_000)
        wishes = [
            {"topic": "t", "partition": index, "replicas": [0, 1, 2],
             "log_dirs": [named[1 - index] for named in folders.values()]}
            for index in range(2)
        ]  # fmt: skip
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": wishes}))
        asked = ("--bootstrap-server", supervisor.bootstrap, "--reassignment-json-file", str(plan))
        kafka_tool(REASSIGN, *asked, "--execute")

        def is_complete() -> bool:
            told = kafka_tool(REASSIGN, *asked, "--verify", "--preserve-throttles")
            return told.count("is currently in the expected state") + told.count("completed successfully") >= 6

        wait_for(is_complete, "the tool to find all replicas in their new folders")
        load.await_more(500)
        for wish in wishes:
            for path in wish["log_dirs"]:
                assert (Path(path) / f"t-{wish['partition']}" / "partition.metadata").exists()
        wait_for(lambda: topic.isrs() == {0: [0, 1, 2], 1: [0, 1, 2]}, "all replicas in sync")
        load.stop()
        assert_exact(load, stored(supervisor.bootstrap, topic))


@as_root
def test_a_broker_without_any_folder_left_ends_with_one_sentence(tmp_path):
    with ExitStack() as exits:
        supervisor = Processes(tmp_path, brokers=1, overrides=QUICK, port=0)
        on(supervisor, 0, tmp_path / "a", tmp_path / "b")
        exits.enter_context(supervisor)
        Topic(supervisor.bootstrap, "t", 2, 1)
        child = supervisor.children[0]
        for name in "ab":
            (tmp_path / name).rename(tmp_path / f"{name}-gone")
        assert child.reap() == "with exit code 1"
        assert child.log is not None
        assert "every log folder failed" in child.log.read_text().splitlines()[-1]
