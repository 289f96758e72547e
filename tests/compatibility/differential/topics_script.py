"""Topics made, changed and deleted: CreateTopics, CreatePartitions, DeleteTopics, ElectLeaders."""

from typing import Any

from tests.compatibility.differential.side import Side

BAD_NAMES = ("", ".", "..", "bad name!", "ä", "a/b", "x" * 249, "x" * 250)


def run(side: Side) -> None:
    _create(side)
    _assignments(side)
    _configs(side)
    _partitions(side)
    _elections(side)
    _delete(side)


def _new(name: str, partitions: int = 1, copies: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": copies, **more}


def _ask(side: Side, label: str, *topics: dict[str, Any], versions: tuple[int, ...] = (2, 7), **more: Any) -> None:
    """Names with a {} are filled with the version, so that each version makes topics of its own."""
    for version in versions:
        named = [{**topic, "name": topic["name"].replace("{}", f"{version}")} for topic in topics]
        answer = side.connection.ask("CreateTopics", version, **{"topics": named, "timeout_ms": 20_000, **more})
        if not isinstance(answer, str):
            for made in answer.topics:
                if any(made.topic_id):
                    side.name_topic(made.name, made.topic_id)
        side.record(label, "CreateTopics", version, answer)


def _create(side: Side) -> None:
    _ask(side, "a topic", _new("made-{}", 2), versions=(2, 3, 4, 5, 6, 7))
    _ask(side, "it is there already", _new("made-{}"))
    _ask(side, "only looked at", _new("unmade-{}"), validate_only=True)
    _ask(side, "only looked at, and there already", _new("made-{}"), validate_only=True)
    for number, partitions in enumerate((0, -1, -2, 1_000_000_000)):
        _ask(side, f"{partitions} partitions", _new(f"partitions-{number}-{{}}", partitions), validate_only=True)
    for number, copies in enumerate((0, -1, -2, 2, 32767)):
        _ask(side, f"{copies} copies", _new(f"copies-{number}-{{}}", 1, copies), validate_only=True)
    _ask(
        side,
        "both defaults, before they were known",
        _new("defaults-{}", -1, -1),
        versions=(2, 3, 4),
        validate_only=True,
    )
    for name in BAD_NAMES:
        _ask(side, f"the name {name[:9]!r} of {len(name)}", _new(name), validate_only=True)
    _ask(side, "the same name twice", _new("twice-{}"), _new("twice-{}"), validate_only=True)
    _ask(side, "names that collide", _new("col.lide-{}"))
    _ask(side, "names that collide, again", _new("col_lide-{}"))
    _ask(side, "good and bad together", _new("good-{}"), _new("bad!-{}"), _new("worse-{}", 0), validate_only=True)
    _ask(side, "no topics")
    _ask(side, "the groups' topic", _new("__consumer_offsets", 4))
    _ask(side, "a timeout of 0", _new("at-once-{}"), timeout_ms=0, validate_only=True)
    _ask(side, "a negative timeout", _new("before-{}"), timeout_ms=-1, validate_only=True)


def _assignments(side: Side) -> None:
    def given(*brokers: list[int], first: int = 0) -> list[dict[str, Any]]:
        return [{"partition_index": first + index, "broker_ids": each} for index, each in enumerate(brokers)]

    def assigned(label: str, name: str, assignments: Any, partitions: int = -1, copies: int = -1) -> None:
        _ask(side, label, _new(name + "-{}", partitions, copies, assignments=assignments), validate_only=True)

    _ask(side, "assigned", _new("assigned-{}", -1, -1, assignments=given([0], [0])))
    assigned("assigned and partitions", "and-partitions", given([0]), partitions=1)
    assigned("assigned and copies", "and-copies", given([0]), copies=1)
    assigned("assigned to nobody", "to-nobody", given([0], []))
    assigned("assigned to a stranger", "to-a-stranger", given([9]))
    assigned("assigned twice to one", "twice", given([0, 0]))
    assigned("assigned to -1", "to-minus-one", given([-1]))
    assigned("assigned from 1", "from-1", given([0], first=1))
    assigned("assigned with gaps", "gaps", given([0]) + given([0], first=5))
    assigned("assigned one partition twice", "same-partition", given([0]) + given([0]))
    assigned("assigned unevenly", "unevenly", given([0], [0, 9]))
    assigned("assigned to none at all", "none", [], partitions=1, copies=1)


def _configs(side: Side) -> None:
    def with_config(label: str, name: str, value: str | None) -> None:
        _ask(side, label, _new("config-{}", configs=[{"name": name, "value": value}]), validate_only=True)

    for name, value in (
        ("retention.ms", "5000"), ("retention.ms", "-1"), ("retention.ms", "-2"), ("retention.ms", "soon"),
        ("retention.ms", ""), ("retention.ms", None), ("cleanup.policy", "compact"), ("cleanup.policy", "compact,delete"),
        ("cleanup.policy", "shred"), ("cleanup.policy", ""), ("cleanup.policy", "delete,delete"),
        ("compression.type", "zip"), ("compression.type", "zstd"), ("segment.bytes", "1"), ("segment.bytes", "1048576"),
        ("min.insync.replicas", "0"), ("min.insync.replicas", "3"), ("max.message.bytes", "-1"),
        ("message.timestamp.type", "LogAppendTime"), ("message.timestamp.type", "Now"), ("preallocate", "maybe"),
        ("min.cleanable.dirty.ratio", "1.5"), ("no.such.option", "1"), ("", "1"), ("log.retention.ms", "1"),
        ("flush.ms", "9223372036854775808"), ("unclean.leader.election.enable", "TRUE"), ("index.interval.bytes", "-1"),
        ("leader.replication.throttled.replicas", "*"), ("leader.replication.throttled.replicas", "0:1"),
        ("leader.replication.throttled.replicas", "x"), ("remote.storage.enable", "true"),
        ("local.retention.ms", "10"), ("message.format.version", "3.0"), ("message.downconversion.enable", "true"),
    ):  # fmt: skip
        with_config(f"{name} = {value}", name, value)
    twice = [{"name": "retention.ms", "value": "1000"}, {"name": "retention.ms", "value": "2000"}]
    _ask(side, "a config twice", _new("config-twice-{}", configs=twice))
    _ask(side, "a topic with configs", _new("configured-{}", configs=[{"name": "cleanup.policy", "value": "compact"}]))


def _partitions(side: Side) -> None:
    def ask(label: str, *topics: tuple[str, int, Any], validate: bool = False, timeout: int = 20_000) -> None:
        for version in (0, 3):
            named = [
                {"name": name.replace("{}", f"{version}"), "count": count, "assignments": given}
                for name, count, given in topics
            ]
            side.ask(label, "CreatePartitions", version, topics=named, timeout_ms=timeout, validate_only=validate)

    for version in (0, 3):
        side.topic(f"grows-{version}", 2)
    ask("more, only looked at", ("grows-{}", 4, None), validate=True)
    ask("more", ("grows-{}", 3, None))
    ask("as many", ("grows-{}", 3, None))
    ask("fewer", ("grows-{}", 2, None))
    ask("none", ("grows-{}", 0, None))
    ask("fewer than none", ("grows-{}", -1, None))
    ask("far too many", ("grows-{}", 1_000_000_000, None), validate=True)
    ask("a topic that is not there", ("nowhere", 3, None))
    ask("a bad name", ("bad name!", 3, None))
    ask("the same topic twice", ("grows-{}", 5, None), ("grows-{}", 6, None))
    ask("one good, one not", ("grows-{}", 5, None), ("nowhere", 5, None), validate=True)
    ask("to a broker", ("grows-{}", 4, [{"broker_ids": [0]}]))
    ask("to a stranger", ("grows-{}", 5, [{"broker_ids": [9]}]))
    ask("to nobody", ("grows-{}", 5, [{"broker_ids": []}]))
    ask("to one broker twice", ("grows-{}", 5, [{"broker_ids": [0, 0]}]))
    ask("too few assignments", ("grows-{}", 7, [{"broker_ids": [0]}]))
    ask("too many assignments", ("grows-{}", 5, [{"broker_ids": [0]}, {"broker_ids": [0]}]))
    ask("no assignments", ("grows-{}", 5, []), validate=True)
    ask("nothing")
    ask("a negative timeout", ("grows-{}", 9, None), validate=True, timeout=-1)


def _elections(side: Side) -> None:
    def ask(label: str, kind: int, partitions: Any, *versions: int) -> None:
        for version in versions or (0, 2):
            side.ask(label, "ElectLeaders", version, election_type=kind, topic_partitions=partitions, timeout_ms=5_000)

    for kind in (0, 1):
        ask(
            f"election {kind}",
            kind,
            [{"topic": "made-2", "partitions": [0, 1, 7]}, {"topic": "nowhere", "partitions": [0]}],
        )
        ask(f"election {kind} of a partition twice", kind, [{"topic": "made-2", "partitions": [0, 0]}])
        ask(f"election {kind} of none", kind, [])
        ask(f"election {kind} in a bad topic", kind, [{"topic": "bad name!", "partitions": [0]}])
    ask("an election of no kind", 7, [{"topic": "made-2", "partitions": [0]}], 1, 2)


def _delete(side: Side) -> None:
    def ask(label: str, *names: str, timeout: int = 20_000) -> None:
        for version in (1, 5):
            filled = [name.replace("{}", f"{version}") for name in names]
            side.ask(label, "DeleteTopics", version, topic_names=filled, timeout_ms=timeout)
        filled = [name.replace("{}", "6") for name in names]
        side.ask(label, "DeleteTopics", 6, topics=[{"name": name} for name in filled], timeout_ms=timeout)

    def by_id(label: str, *topics: dict[str, Any]) -> None:
        side.ask(label, "DeleteTopics", 6, topics=list(topics), timeout_ms=20_000)

    for version in (1, 5, 6):
        side.topic(f"goes-{version}", 2)
        side.topic(f"stays-{version}")
    ask("a topic", "goes-{}")
    ask("it is gone", "goes-{}")
    ask("one there, one not", "stays-{}", "nowhere")
    ask("twice", "made-2", "made-2")
    ask("bad names", "bad name!", "", "..")
    ask("nothing")
    ask("a negative timeout", "nowhere", timeout=-1)
    topic_id = side.topic("by-id")
    by_id("both its name and its id", {"name": "by-id", "topic_id": topic_id})
    by_id("an unknown id", {"name": None, "topic_id": b"unknown topic id"})
    by_id("neither name nor id", {"name": None, "topic_id": bytes(16)})
    by_id("twice, by name and by id", {"name": "by-id"}, {"name": None, "topic_id": topic_id})
    by_id("the same id twice", {"name": None, "topic_id": topic_id}, {"name": None, "topic_id": topic_id})
    by_id("its id", {"name": None, "topic_id": topic_id})
    by_id("its id, when it is gone", {"name": None, "topic_id": topic_id})
