"""Who and what there is: Metadata, DescribeCluster, DescribeTopicPartitions, DescribeLogDirs,
AlterReplicaLogDirs, ApiVersions."""

import struct
from typing import Any

from tests.compatibility.differential.side import Side
from tidelog.api.registry import APIS


def run(side: Side) -> None:
    topic_id = side.topic("seen", 3)
    side.topic("also-seen", 1)
    _name_cluster(side)
    _metadata(side, topic_id)
    _cluster(side)
    _topic_partitions(side)
    _log_dirs(side)
    _api_versions(side)
    _features(side)


COMPARED = {key for key, api in APIS.items() if api.caller not in ("sasl", "quorum")} - {22}
"""Of what ApiVersions lists. What is for logins Kafka lists everywhere, Tidelog where a listener has SASL."""


def _name_cluster(side: Side) -> None:
    side.names[side.quiet("DescribeCluster", 0).cluster_id] = "the cluster"


def _metadata(side: Side, topic_id: bytes) -> None:
    def ask(label: str, *versions: int, **values: Any) -> None:
        for version in versions or (0, 13):
            side.ask(label, "Metadata", version, **{"allow_auto_topic_creation": False, **values})

    seen = [{"name": "seen", "topic_id": bytes(16)}]
    for version in range(14):
        ask("a topic", version, topics=seen)
    ask("no topics", 1, 13, topics=[])
    ask("two topics", topics=[*seen, {"name": "also-seen"}])
    ask("a topic twice", topics=[*seen, *seen])
    ask("a topic that is not there", 4, 13, topics=[{"name": "nowhere"}])
    ask("bad names", 4, 9, 13, topics=[{"name": name} for name in ("bad name!", "", "..", "x" * 250)])
    ask("by id", 10, 12, 13, topics=[{"name": None, "topic_id": topic_id}])
    ask("by an unknown id", 12, 13, topics=[{"name": None, "topic_id": b"unknown topic id"}])
    ask("by no id", 12, 13, topics=[{"name": None, "topic_id": bytes(16)}])
    ask("by id and name", 12, 13, topics=[{"name": "seen", "topic_id": topic_id}])
    ask("a null name where names were needed", 10, 11, topics=[{"name": None, "topic_id": topic_id}])
    operations = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    ask("allowed operations", 8, 10, 13, topics=seen, **operations)
    ask("creation is asked for with a bad name", 4, 13, topics=[{"name": "bad name!"}], allow_auto_topic_creation=True)
    ask("creation is asked for", 4, topics=[{"name": "made-by-asking"}], allow_auto_topic_creation=True)
    side.await_leaders("made-by-asking")
    side.name_topic(
        "made-by-asking", side.quiet("Metadata", 12, topics=[{"name": "made-by-asking"}]).topics[0].topic_id
    )
    ask("it has been made", topics=[{"name": "made-by-asking"}])


def _cluster(side: Side) -> None:
    for version in (0, 1, 2):
        for operations in (False, True):
            side.ask(
                f"the cluster, operations {operations}",
                "DescribeCluster",
                version,
                include_cluster_authorized_operations=operations,
            )
    for kind in (0, 2, 9):
        side.ask(f"endpoints of type {kind}", "DescribeCluster", 2, endpoint_type=kind)
    side.ask("fenced brokers, too", "DescribeCluster", 2, include_fenced_brokers=True)


def _topic_partitions(side: Side) -> None:
    def ask(label: str, *names: str, limit: int = 2000, cursor: dict[str, Any] | None = None) -> None:
        side.both(
            label,
            "DescribeTopicPartitions",
            topics=[{"name": name} for name in names],
            response_partition_limit=limit,
            cursor=cursor,
        )

    ask("a topic", "seen")
    ask("two, and one that is not there", "seen", "also-seen", "nowhere")
    ask("bad names", "bad name!", "")
    ask("twice", "seen", "seen")
    ask("limited", "seen", "also-seen", limit=2)
    ask("limited to 1", "seen", "also-seen", limit=1)
    for limit in (0, -1):
        ask(f"limited to {limit}", "seen", limit=limit)
    ask("from a cursor", "seen", "also-seen", cursor={"topic_name": "seen", "partition_index": 1})
    ask("from a cursor between topics", "seen", "also-seen", cursor={"topic_name": "b", "partition_index": 0})
    ask("from a cursor behind all", "seen", cursor={"topic_name": "z", "partition_index": 0})
    ask("from a cursor behind its partitions", "seen", cursor={"topic_name": "seen", "partition_index": 9})
    ask("from a negative cursor", "seen", cursor={"topic_name": "seen", "partition_index": -1})


def _log_dirs(side: Side) -> None:
    for version in range(1, 6):
        side.ask("of a topic", "DescribeLogDirs", version, topics=[{"topic": "seen", "partitions": [0, 2]}])
    side.both("of a partition that is not there", "DescribeLogDirs", topics=[{"topic": "seen", "partitions": [9]}])
    side.both("of a topic that is not there", "DescribeLogDirs", topics=[{"topic": "nowhere", "partitions": [0]}])
    side.both("of none", "DescribeLogDirs", topics=[])

    def move(label: str, path: str, topic: str, *partitions: int) -> None:
        moved = {"path": path, "topics": [{"name": topic, "partitions": list(partitions)}]}
        side.both(f"of {label}", "AlterReplicaLogDirs", dirs=[moved])

    present = side.quiet("DescribeLogDirs", 4, topics=None).results[0].log_dir
    move("a replica to where it is", present, "seen", 0, 2)
    move("a replica that is not there", present, "seen", 9)
    move("a topic that is not there", present, "nowhere", 0)
    move("a replica to no folder of the broker", "/nowhere/at/all", "seen", 0)
    move("a replica to a path that is not absolute", "logs", "seen", 0)
    side.both("of nothing", "AlterReplicaLogDirs", dirs=[])


def _features(side: Side) -> None:
    def update(label: str, *updates: tuple[str, int, int], validate: bool = True) -> None:
        for version in (0, 1, 2):
            kinds = {"allow_downgrade": False} if version == 0 else {"validate_only": validate}
            wanted = [
                {"feature": name, "max_version_level": level, **({} if version == 0 else {"upgrade_type": kind})}
                for name, level, kind in updates
            ]
            side.ask(label, "UpdateFeatures", version, feature_updates=wanted, **({} if version == 0 else kinds))

    elr = "eligible.leader.replicas.version"
    update("the level there is", (elr, 1, 1))
    update("a level that does not exist", (elr, 2, 1))
    update("a negative level", (elr, -1, 1))
    update("a feature that does not exist", ("no.such.feature", 1, 1))
    update("down without saying so", (elr, 0, 1))
    update("down to the level there is", (elr, 1, 2))
    update("a kind that does not exist", (elr, 1, 7))
    update("one good, one not", (elr, 1, 1), ("no.such.feature", 1, 1))
    side.ask(
        "down, if it were",
        "UpdateFeatures",
        2,
        validate_only=True,
        feature_updates=[{"feature": elr, "max_version_level": 0, "upgrade_type": 2}],
    )


def _api_versions(side: Side) -> None:
    for version in range(5):
        named = {"client_software_name": "twin", "client_software_version": "1"}
        answer = side.connection.ask("ApiVersions", version, **named)
        answer.api_keys = [each for each in answer.api_keys if each.api_key in COMPARED]
        side.record("ours", "ApiVersions", version, answer)
    for name, number in (("bad name!", "1"), ("", "1"), ("twin", ""), ("twin", "1 2"), ("-twin", "1")):
        answer = side.connection.ask("ApiVersions", 3, client_software_name=name, client_software_version=number)
        side.note(f"the client {name!r} {number!r}", (answer.error_code, len(answer.api_keys) > 0))
    for version in (5, 99, 32767, -1):
        frame = struct.pack(">hhih", 18, version, 77, -1) + (b"\0" * 4 if version > 0 else b"")
        side.raw_start(f"ApiVersions v{version}", struct.pack(">i", len(frame)) + frame, 6)
