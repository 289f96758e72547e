"""`tidelog groups` against a cluster: a group with a member, one without, and offsets that move."""

import pytest

from tidelog.cli.groups.group_changes import parse_plans, plans_as_csv
from tidelog.cli.groups.groups_command import DateTime, Duration
from tidelog.cli.options import CommandFailed
from tidelog.model import TopicPartition
from tidelog.shell.transport import Consumer


@pytest.fixture(scope="module")
def topic(cluster):
    cluster.create_topic("g-topic", 2, replicas=1)
    return "g-topic"


@pytest.fixture
def filled(on, topic):
    """Three records in partition 0, none in partition 1; every test adds three."""
    on("produce", "--topic", topic, "--partition", "0", given=b"1\n2\n3\n")
    return int(on("offsets", "--topic", topic).lines[0].rpartition(":")[2])


def rows(result):
    return [line.split() for line in result.lines if line][1:]


def reset(on, group, *arguments):
    return rows(on("groups", "--reset-offsets", "--group", group, *arguments))


def test_a_member_is_shown_with_its_partitions_and_lag(on, cluster, topic, filled):
    with Consumer(cluster.bootstrap, "live", auto_offset_reset="earliest", client_id="c") as consumer:
        consumer.subscribe([topic])
        read = 0
        while read < filled:
            read += len(consumer.poll(timeout=10))
        consumer.commit({(topic, 0): filled - 1, (topic, 1): 0})
        assert "live" in on("groups", "--list").lines
        first, second = rows(on("groups", "--describe", "--group", "live"))
        assert first[:6] == ["live", topic, "0", str(filled - 1), str(filled), "1"]
        assert second[:6] == ["live", topic, "1", "0", "0", "0"]
        assert first[7:] == ["/127.0.0.1", "c"]
        (member,) = rows(on("groups", "--describe", "--group", "live", "--members", "--verbose"))
        assert member[2:] == ["/127.0.0.1", "c", "2", "-", f"{topic}:0,1", "-", "-"]
        (state,) = rows(on("groups", "--describe", "--group", "live", "--state"))
        assert state[-3:] == ["range", "Stable", "1"]
        busy = on("groups", "--reset-offsets", "--group", "live", "--topic", topic, "--to-earliest", "--execute")
        assert busy.code == 1
        assert "its current state is Stable" in busy.err
        kept = on("groups", "--delete", "--group", "live")
        assert kept.code == 1
        assert "* Group 'live' could not be deleted due to: The group is not empty (NON_EMPTY_GROUP)." in kept.err


def test_offsets_move_by_every_scenario(on, topic, filled):
    end = str(filled)
    both = ("--topic", topic)
    assert reset(on, "m", *both, "--to-latest", "--execute") == [["m", topic, "0", end], ["m", topic, "1", "0"]]
    assert reset(on, "m", "--all-topics", "--shift-by", "-1", "--execute")[0][-1] == str(filled - 1)
    assert reset(on, "m", "--all-topics", "--to-current", "--dry-run")[0][-1] == str(filled - 1)
    assert reset(on, "m", "--all-topics", "--shift-by", "-1000")[0][-1] == "0"
    assert reset(on, "m", "--topic", f"{topic}:0", "--to-offset", "2") == [["m", topic, "0", "2"]]
    assert reset(on, "m", "--topic", f"{topic}:0", "--to-offset", "999999")[0][-1] == end
    assert reset(on, "m", *both, "--to-datetime", "2020-01-01T00:00:00.000")[0][-1] == "0"
    assert reset(on, "m", *both, "--to-datetime", "2090-01-01T00:00:00.000")[0][-1] == end
    assert reset(on, "m", *both, "--by-duration", "P1D")[0][-1] == "0"
    current, _ = rows(on("groups", "--describe", "--group", "m"))
    assert current[3:6] == [str(filled - 1), end, "1"], "nothing but --execute changes anything"


def test_a_preview_says_that_nothing_was_done(on, topic):
    arguments = ("groups", "--reset-offsets", "--group", "p", "--topic", topic, "--to-earliest")
    assert (
        on(*arguments).err
        == "WARN: No offsets were changed. Use --execute to commit them, or --dry-run to hide this warning.\n"
    )
    assert on(*arguments, "--dry-run").err == ""
    assert "p" not in on("groups", "--list").lines


def test_a_plan_is_exported_and_carried_out_from_its_file(on, topic, filled, tmp_path):
    plan = on("groups", "--reset-offsets", "--group", "e", "--topic", topic, "--to-latest", "--dry-run", "--export")
    assert plan.out == f"{topic},0,{filled}\n{topic},1,0\n"
    file = tmp_path / "plan.csv"
    file.write_text(plan.out)
    assert reset(on, "e", "--from-file", str(file), "--execute") == [
        ["e", topic, "0", str(filled)],
        ["e", topic, "1", "0"],
    ]


def test_groups_and_offsets_are_deleted(on, topic, filled):
    reset(on, "d", "--topic", topic, "--to-earliest", "--execute")
    assert [
        line.split() for line in on("groups", "--list", "--state", "empty", "--type").lines if line.startswith("d ")
    ] == [["d", "Classic", "Empty"]]
    deleted = on("groups", "--delete-offsets", "--group", "d", "--topic", f"{topic}:0")
    assert deleted.code == 0
    assert deleted.lines[-1].split() == [topic, "0", "Successful"]
    assert [row[2] for row in rows(on("groups", "--describe", "--group", "d"))] == ["1"]
    gone = on("groups", "--delete", "--group", "d")
    assert gone == (0, "Deletion of requested consumer groups ('d') was successful.\n", "")
    again = on("groups", "--delete", "--group", "d")
    assert again.code == 1
    assert again.err.endswith(
        "* Group 'd' could not be deleted due to: The group id does not exist (GROUP_ID_NOT_FOUND).\n"
    )


def test_a_missing_group_or_topic_is_exit_code_1(on):
    assert on("groups", "--describe", "--group", "none") == (1, "", "Group none not found (GROUP_ID_NOT_FOUND).\n")
    missing = on("groups", "--reset-offsets", "--group", "n", "--topic", "nowhere", "--to-earliest")
    assert (
        missing.err == "Topic nowhere: This server does not host this topic-partition (UNKNOWN_TOPIC_OR_PARTITION).\n"
    )


def test_moments_and_durations_are_iso_8601():
    assert DateTime().convert("1970-01-02T00:00:00.001", None, None) == 86_400_001
    assert DateTime().convert("1970-01-01T01:00:00+01:00", None, None) == 0
    assert Duration().convert("P1DT2H3M4.5S", None, None) == 93_784_500
    assert Duration().convert("-PT1S", None, None) == -1000


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--describe",), "--describe requires --group."),
        (("--describe", "--group", "g", "--members", "--state"), "--members and --state cannot be used together."),
        (("--list", "--members"), "--members applies to --describe, not to --list."),
        (
            ("--reset-offsets", "--group", "g", "--topic", "t"),
            "--reset-offsets requires one of --to-offset, --shift-by",
        ),
        (("--reset-offsets", "--group", "g", "--to-earliest"), "--reset-offsets requires --topic or --all-topics."),
        (
            ("--reset-offsets", "--group", "g", "--to-earliest", "--to-latest"),
            "--to-earliest and --to-latest cannot be used together.",
        ),
        (("--delete-offsets", "--group", "g"), "--delete-offsets requires --topic."),
        (("--reset-offsets", "--by-duration", "1h"), "'1h' is not a valid duration; expected PnDTnHnMnS."),
        (
            ("--reset-offsets", "--to-datetime", "today"),
            "'today' is not a valid time; expected YYYY-MM-DDThh:mm:ss.sss.",
        ),
        (("--list", "--timeout", "0"), "0 is not in the range x>=1."),
    ],
)
def test_flags_that_do_not_go_together_say_so(tidelog, arguments, part):
    result = tidelog("groups", *arguments)
    assert (result.code, result.out) == (1, "")
    assert part in result.err


def test_plans_survive_their_file():
    one = {"g": {TopicPartition("a", 0): 5, TopicPartition("b,c", 1): 6}}
    two = {**one, "h": {TopicPartition("a", 0): 7}}
    assert parse_plans(plans_as_csv(one), ["g"]) == one
    long = {TopicPartition("a" * 24, 0): 1, TopicPartition("b" * 25, 1): 2}
    assert plans_as_csv({"g": long}) == f'{"a" * 24},0,1\n"{"b" * 25}",1,2\n'
    assert parse_plans(plans_as_csv(two), ["g", "h"]) == two
    with pytest.raises(CommandFailed, match="line 2 is not"):
        parse_plans("a,0,1\na,x,1\n", ["g"])
