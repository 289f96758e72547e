"""`tidelog offsets`: which partitions are meant, and at which moment."""

import pytest

from tidelog.cli.offsets import _matcher


def matched(text):
    matches = _matcher({"topic_partitions": text, "topic": None, "partitions": None})
    return [f"{topic}:{number}" for topic in ("a", "ab") for number in range(4) if matches(topic, number)]


def test_patterns_name_topics_and_half_open_ranges():
    assert matched("a") == ["a:0", "a:1", "a:2", "a:3"]
    assert matched("a:1") == ["a:1"]
    assert matched("a:1-3") == ["a:1", "a:2"]
    assert matched("a:2-") == ["a:2", "a:3"]
    assert matched("a:-2") == ["a:0", "a:1"]
    assert matched(":3") == ["a:3", "ab:3"]
    assert matched("a.:0,a:1") == ["a:1", "ab:0"]


def test_first_last_and_by_time(on):
    on.create("clock", "--partitions", "2")
    on("produce", "--topic", "clock", "--partition", "0", given=b"1\n2\n3\n")
    assert on("offsets", "--topic", "clock").lines == ["clock:0:3", "clock:1:0"]
    assert on("offsets", "--topic", "clock", "--time", "earliest").lines == ["clock:0:0", "clock:1:0"]
    assert on("offsets", "--topic", "clock", "--time", "-1", "--partitions", "0").lines == ["clock:0:3"]
    assert on("offsets", "--topic", "clock", "--time", "0").lines == ["clock:0:0"]
    assert on("offsets", "--topic", "clock", "--time", "99999999999999").lines == []
    assert on("offsets", "--topic-partitions", "clock:1-").lines == ["clock:1:0"]


def test_nothing_that_matches_is_exit_code_1(on):
    assert on("offsets", "--topic", "missing") == (1, "", "No partition matches the given filters.\n")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (
            ("--time", "bogus"),
            "'bogus' is not valid; expected a timestamp in milliseconds or one of latest (-1), earliest (-2)",
        ),
        (
            ("--topic-partitions", "a", "--topic", "b"),
            "--topic-partitions cannot be used with --topic or --partitions.",
        ),
        (
            ("--topic-partitions", "a:b"),
            "--topic-partitions: 'a:b' is not a valid pattern; expected TOPIC:PARTITION or TOPIC:FROM-TO.",
        ),
        (("--partitions", "x"), "--partitions: 'x' is not a list of partition numbers; expected 0,1,2."),
        (("--topic", "("), "'(' is not a valid regular expression"),
    ],
)
def test_a_wrong_filter_is_named(tidelog, arguments, part):
    result = tidelog("offsets", *arguments)
    assert (result.code, result.out) == (1, "")
    assert part in result.err
