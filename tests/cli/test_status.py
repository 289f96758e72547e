"""`tidelog status`: every replica's place, seen from outside, and what changed."""

import json
from io import StringIO

import pytest
from rich.console import Console

from tests.waiting import own_clock, wait_for
from tidelog.cli.admin_requests import connect
from tidelog.cli.replica_states import ReplicaState, replica_states
from tidelog.cli.status import status_command
from tidelog.cli.status.status_command import changed_states, print_changes, rich_table
from tidelog.cli.status.status_screen import Screen, View, split_keys
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
    monkeypatch.setattr(status_command, "time", own_clock(sleep=end))
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


def test_a_topic_that_does_not_exist_is_an_error(on):
    result = on("status", "--topic", "no-such-topic")
    assert (result.code, result.out) == (1, "")
    assert result.err.strip() == "No topic matches 'no-such-topic'."


def test_json_groups_and_throughput(on):
    on.create("viewed", "--partitions", "2")
    on("produce", "--topic", "viewed", given=b"1\n2\n3\n")
    on("consume", "--topic", "viewed", "--group", "of-views", "--from-beginning", "--max-messages", "2")

    def shown(*more):
        result = on("status", "--json", "--topic", "viewed", *more)
        assert result.code == 0, result
        return json.loads(result.out)["rows"]

    row = shown()[0]
    assert (row["topic"], row["partition"], row["state"]) == ("viewed", 0, "leader")
    throughput = shown("--view", "throughput", "--interval-ms", "10")
    assert throughput == [{"topic": "viewed", "partitions": 2, "end": 3, "records_per_s": 0.0}]
    group = next(row for row in shown("--view", "groups") if row["group"] == "of-views")
    assert group["type"].lower() == "classic"
    assert group["lag"] >= 1
    assert on("status", "--json", "--watch").code == 1


def test_internal_topics_are_shown_with_their_flag(on):
    on.create("beside")
    on("consume", "--topic", "beside", "--group", "of-beside", "--timeout-ms", "1")
    on.until(lambda found: "__consumer_offsets" in found.out, "status", "--internal")
    assert "__consumer_offsets" not in on("status").out


VIEW = View("replicas", ("NAME", "LAG"), frozenset({1}), [("b", 2), ("a", 10), ("c", None), ("d", 0)])


def test_keys_filter_sort_page_and_quit():
    screen = Screen(("replicas", "groups"), height=2)

    def press(*keys):
        for key in keys:
            screen.press(key, 2)
        return [row[0] for row in screen.rows(VIEW)]

    assert press() == ["b", "a"]
    assert press("down") == ["a", "c"]
    assert press("page down") == ["c", "d"]
    assert press("down", "down") == ["c", "d"], "not beyond the end"
    assert press("home") == ["b", "a"]
    assert press("s") == ["a", "b"]
    assert press("s") == ["d", "b"], "by lag, as numbers"
    assert press("end") == ["a", "c"], "what is unknown comes last"
    assert press("r", "home") == ["c", "a"]
    assert press("/", *"10") == ["a"]
    assert "filter: 10_" in screen.footer()
    assert press("q") == [], "a letter of the filter"
    assert press("rubout", "enter") == ["a"]
    assert "1-1 of 1" in screen.footer()
    assert not screen.quits
    assert press("escape", "v") == ["b", "a"]
    assert screen.name == "groups"
    press("q")
    assert screen.quits


def test_what_a_terminal_sends_is_split_into_keys():
    assert split_keys("q\x1b[A\x1b[6~/a\r\x7f\x1b") == ["q", "up", "page down", "/", "a", "enter", "rubout", "escape"]
