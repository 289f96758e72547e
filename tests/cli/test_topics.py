"""`tidelog topics` against a cluster: the lines, the exit codes, and which flags go together."""

import re

import pytest

ID = r"[A-Za-z0-9_-]{22}"


def test_a_topic_lives_as_with_kafkas_tool(on):
    created = on.create("life", "--partitions", "2", "--config", "retention.ms=1000000")
    assert created == (0, "Created topic life.\n", "")
    assert "life" in on("topics", "--list").lines
    described = on.until(lambda result: "retention" in result.out, "topics", "--describe", "--topic", "life")
    head, *partitions = described.lines
    assert re.fullmatch(
        rf"Topic: life\tTopicId: {ID}\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: min.insync.replicas=1,retention.ms=1000000",
        head,
    )
    assert [line.split("\t")[1:3] for line in partitions] == [
        ["Topic: life", "Partition: 0"],
        ["Topic: life", "Partition: 1"],
    ]
    assert re.fullmatch(
        r"\tTopic: life\tPartition: 0\tLeader: ([012])\tReplicas: \1\tIsr: \1\tElr: \tLastKnownElr: ", partitions[0]
    )
    assert on("topics", "--alter", "--topic", "life", "--partitions", "3") == (0, "", "")
    on.until(lambda result: len(result.lines) == 4, "topics", "--describe", "--topic", "life")
    assert on("topics", "--delete", "--topic", "life") == (0, "", "")
    on.until(lambda result: "life" not in result.lines, "topics", "--list")


def test_what_exists_and_what_does_not(on):
    on.create("once")
    assert on("topics", "--create", "--topic", "once", "--if-not-exists") == (0, "", "")
    again = on("topics", "--create", "--topic", "once")
    assert again == (1, "", "Topic 'once' already exists (TOPIC_ALREADY_EXISTS).\n")
    for action in (("--describe",), ("--delete",), ("--alter", "--partitions", "9")):
        missing = on("topics", *action, "--topic", "missing")
        assert missing == (1, "", "Topic 'missing' does not exist as expected.\n")
        assert on("topics", *action, "--topic", "missing", "--if-exists") == (0, "", "")


def test_the_cluster_refuses_with_its_own_sentence(on):
    result = on("topics", "--create", "--topic", "big", "--replication-factor", "9")
    assert result.code == 1
    assert result.err.endswith("(INVALID_REPLICATION_FACTOR).\n")
    assert on("topics", "--create", "--topic", "b ad").err.endswith("(INVALID_TOPIC_EXCEPTION).\n")
    assert on("topics", "--create", "--topic", "odd", "--config", "nonsense=1").err.endswith("(INVALID_CONFIG).\n")


def test_replicas_go_where_they_are_assigned(on):
    on.create("placed", "--replica-assignment", "2:0,1:2")
    lines = on("topics", "--describe", "--topic", "placed").lines
    assert [re.search(r"Replicas: (\S+)", line)[1] for line in lines[1:]] == ["2,0", "1,2"]
    assert (
        on("topics", "--create", "--topic", "x", "--replica-assignment", "0:0").err.count("lists a broker twice") == 1
    )
    assert (
        on("topics", "--create", "--topic", "x", "--replica-assignment", "0:1,2").err.count("replication factor") == 1
    )


def test_a_topic_may_be_a_regular_expression(on):
    for name in ("fleet-a", "fleet-b", "other"):
        on.create(name)
    assert on("topics", "--list", "--topic", "fleet-.").lines == ["fleet-a", "fleet-b"]
    assert on("topics", "--list", "--topic", "fleet-a,other").lines == ["fleet-a", "other"]
    assert on("topics", "--list", "--topic", "(").err.startswith("--topic: '(' is not a valid regular expression")
    on("topics", "--delete", "--topic", "fleet-.*")
    on.until(lambda result: not result.lines, "topics", "--list", "--topic", "fleet-.*")


def test_a_description_of_many_pages_is_put_together(on):
    for name in ("paged-a", "paged-b"):
        on.create(name, "--partitions", "5")
    described = ("topics", "--describe", "--topic", "paged-.", "--partition-size-limit-per-response", "3")
    lines = on.until(lambda result: len(result.lines) == 12, *described).lines
    numbers = [re.search(r"Topic: (\S+)\tPartition: (\d)", line) for line in lines]
    assert [found.groups() for found in numbers if found] == [
        (name, str(number)) for name in ("paged-a", "paged-b") for number in range(5)
    ]


def test_filters_show_only_the_partitions_they_ask_for(on):
    on.create("healthy", "--replication-factor", "3", "--config", "min.insync.replicas=3")
    for filter_, count in [("under-replicated", 0), ("unavailable", 0), ("under-min-isr", 0), ("at-min-isr", 1)]:
        shown = ("topics", "--describe", "--topic", "healthy", f"--{filter_}-partitions")
        on.until(lambda result, count=count: len(result.lines) == count, *shown)
    shown = ("topics", "--describe", "--topic", "healthy", "--topics-with-overrides")
    overridden = on.until(lambda result: len(result.lines) == 1, *shown).lines
    assert "Configs: min.insync.replicas=3" in overridden[0]
    topic_id = re.search(r"TopicId: (\S+)", overridden[0])[1]
    assert "Topic: healthy" in on("topics", "--describe", "--topic-id", topic_id).lines[0]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Exactly one action is required: --create, --list, --describe, --alter, --delete."),
        (
            ("--list", "--create"),
            "Exactly one action is required: --create, --list, --describe, --alter, --delete.",
        ),
        (("--create",), "--create requires --topic."),
        (("--alter", "--topic", "t"), "--alter requires --partitions."),
        (("--delete",), "--delete requires --topic."),
        (("--list", "--config", "a=b"), "--config applies to --create, not to --list."),
        (("--list", "--if-exists"), "--if-exists applies to --alter or --delete or --describe, not to --list."),
        (
            ("--describe", "--at-min-isr-partitions", "--under-min-isr-partitions"),
            "--under-min-isr-partitions and --at-min-isr-partitions cannot be used together.",
        ),
        (
            ("--create", "--topic", "t", "--partitions", "1", "--replica-assignment", "0"),
            "--replica-assignment and --partitions cannot be used together.",
        ),
        (
            ("--create", "--topic", "t", "--config", "a"),
            "Invalid value for '--config': 'a' is not a valid setting; expected NAME=VALUE.",
        ),
    ],
)
def test_flags_that_do_not_go_together_say_so(tidelog, arguments, sentence):
    assert tidelog("topics", *arguments) == (1, "", f"tidelog topics: {sentence} See tidelog topics --help.\n")
