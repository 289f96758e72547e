"""Where replicas stand and who leads: reassignments, elections, a broker given up. On one broker nothing moves; what is
compared is what is refused, and with which code."""

from typing import Any

from tests.compatibility.differential.side import Side


def run(side: Side) -> None:
    side.topic("stays", 2)
    _reassignments(side)
    _elections(side)
    for broker in (99, -1):
        side.ask(f"broker {broker} is given up", "UnregisterBroker", 0, broker_id=broker)


def _reassignments(side: Side) -> None:
    def ask(label: str, *wishes: tuple[str, int, list[int] | None], **values: Any) -> None:
        topics: dict[str, list[dict[str, Any]]] = {}
        for topic, partition, replicas in wishes:
            topics.setdefault(topic, []).append({"partition_index": partition, "replicas": replicas})
        named = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
        for version in (0, 1):
            side.ask(label, "AlterPartitionReassignments", version, topics=named, timeout_ms=10_000, **values)

    ask("to where it is", ("stays", 0, [0]))
    ask("to an unknown broker", ("stays", 0, [9]))
    ask("to an unknown broker, too", ("stays", 0, [0, 9]))
    ask("to a negative broker", ("stays", 0, [-1]))
    ask("to nowhere", ("stays", 0, []))
    ask("twice to the same", ("stays", 0, [0, 0]))
    ask("cancel what does not move", ("stays", 0, None))
    ask("an unknown partition", ("stays", 9, [0]))
    ask("a negative partition", ("stays", -1, [0]))
    ask("cancel an unknown partition", ("stays", 9, None))
    ask("an unknown topic", ("nowhere", 0, [0]), ("nowhere", 1, None))
    ask("a bad name", ("bad name!", 0, [0]))
    ask("some of each", ("stays", 0, [0]), ("stays", 1, [7]), ("nowhere", 0, [0]))
    ask("none")
    for wish in ([0, 9], [0], []):
        values = {"allow_replication_factor_change": False}
        named = [{"name": "stays", "partitions": [{"partition_index": 0, "replicas": wish}]}]
        side.ask(f"as many as before: {wish}", "AlterPartitionReassignments", 1, topics=named, **values)
    side.ask("all", "ListPartitionReassignments", 0, topics=None)
    side.ask("none", "ListPartitionReassignments", 0, topics=[])
    for name in ("stays", "nowhere"):
        named = [{"name": name, "partition_indexes": [0, 7]}]
        side.ask(f"of {name}", "ListPartitionReassignments", 0, topics=named)


def _elections(side: Side) -> None:
    def ask(label: str, kind: int, *partitions: tuple[str, list[int]]) -> None:
        named = [{"topic": topic, "partitions": indexes} for topic, indexes in partitions]
        for version in (0, 1, 2):
            side.ask(f"{label}, type {kind}", "ElectLeaders", version, election_type=kind, topic_partitions=named)

    for kind in (0, 1):
        ask("of a partition that has its leader", kind, ("stays", [0]))
        ask("of an unknown partition", kind, ("stays", [1, 9]))
        ask("of an unknown topic", kind, ("nowhere", [0]))
        ask("of none", kind)
    for kind in (0, 1):
        side.ask(f"everywhere, type {kind}", "ElectLeaders", 2, election_type=kind, topic_partitions=None)
