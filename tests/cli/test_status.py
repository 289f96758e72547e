"""`tidelog status`: every replica's place, seen from outside, and what changed."""

import time
from io import StringIO

import pytest
from rich.console import Console

from tests.waiting import wait_for
from tidelog.cli.admin_requests import connect
from tidelog.cli.replica_states import ReplicaState, replica_states
from tidelog.cli.status import changed_states, print_changes, rich_table
from tidelog.model import TopicPartition
from tidelog.testing import Cluster


def state(replica, end, **other):
    return ReplicaState(TopicPartition("t", 0), 0, 5, (0, 1), replica, end, **other)


def test_leader_followers_and_their_offsets(on):
    on.create("seen", "--replica-assignment", "2:0:1")
    on("produce", "--topic", "seen", given=b"1\n2\n")
    # A follower's high watermark is one fetch behind its log end offset.
    result = on.until(lambda result: [line.split()[-3:-1] for line in result.lines[1:]] == [["2", "2"]] * 3,
                      "status", "--topic", "seen")  # fmt: skip
    assert result.code == 0
    head, *rows = [line.split() for line in result.lines]
    assert head == ["TOPIC", "PARTITION", "LEADER", "EPOCH", "ISR", "REPLICA", "STATE", "LEO", "HW", "LAG"]
    assert rows[0] == ["seen", "0", "2", "0", "2,0,1", "2", "leader", "2", "2", "0"]
    assert [row[5:9] for row in rows[1:]] == [["0", "in", "sync", "2"], ["1", "in", "sync", "2"]]


def test_a_broker_that_is_gone_is_a_gap():
    with Cluster(brokers=2) as cluster:
        from tidelog.cli.main import run

        place = ["--bootstrap-server", cluster.bootstrap]
        run(["topics", *place, "--create", "--topic", "t", "--replica-assignment", "0:1"])
        cluster.kill(1)
        with connect(cluster.bootstrap) as admin:

            def alone():
                found = replica_states(admin)
                return found if len(found) == 2 and found[0].in_sync == (0,) else None

            leader, gone = wait_for(alone, "broker 1 to be missed")
        assert (leader.state, leader.log_end_offset, leader.in_sync) == ("leader", 0, (0,))
        assert (gone.state, gone.log_end_offset, gone.high_watermark, gone.lag) == ("silent", None, None, None)


def test_a_replica_outside_of_the_isr_is_behind():
    assert state(0, 9).state == "leader"
    assert state(1, 9).state == "in sync"
    assert state(2, 4).state == "behind"
    assert state(2, None).state == "silent"


def test_only_what_changed_is_reported_again():
    before = [state(0, 9), state(1, 9)]
    after = [state(0, 10), state(1, 9), state(2, 3)]
    assert list(changed_states(before, after)) == [state(0, 10), state(2, 3)]
    assert list(changed_states(after, after)) == []


def test_the_drawing_has_each_replica_once():
    console = Console(file=StringIO(), width=120)
    console.print(rich_table([state(0, 9, high_watermark=8, lag=0), state(1, 7, lag=2)]))
    text = console.file.getvalue()
    assert text.count("leader") == text.count("in sync") == 1
    assert text.count(" t ") == 1, "a partition is named in its first row"


def test_following_prints_changes_and_says_once_that_nobody_answers(monkeypatch, capsys):
    looks = iter([[state(0, 1)], None, None, [state(0, 1), state(1, 1)]])

    def end(_seconds):
        if not shown:
            raise KeyboardInterrupt
        shown.pop()

    shown = [1, 1, 1]
    monkeypatch.setattr(time, "sleep", end)
    with pytest.raises(KeyboardInterrupt):
        print_changes(lambda: next(looks), 1)
    out, err = capsys.readouterr()
    assert [line.split()[1:7] for line in out.splitlines()[1:]] == [
        ["t", "0", "0", "5", "0,1", replica] for replica in ("0", "0", "1")
    ]
    assert [line.split()[1:] for line in err.splitlines()] == [["no", "broker", "answers"]]


def test_internal_topics_are_shown_where_they_are_named(on):
    on.create("plain")
    on("produce", "--topic", "plain", given=b"1\n")
    on("consume", "--topic", "plain", "--group", "of-plain", "--from-beginning", "--max-messages", "1")

    def topics(result):
        return {line.split()[0] for line in result.lines[1:]}

    on.until(lambda found: topics(found) == {"__consumer_offsets"}, "status", "--topic", "__consumer_offsets")
    assert "__consumer_offsets" not in topics(on("status"))
    assert "plain" in topics(on("status"))
