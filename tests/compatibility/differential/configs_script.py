"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources: of topics, the broker and others."""

from typing import Any

from tests.compatibility.differential.side import Side

UNKNOWN, TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 0, 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def run(side: Side) -> None:
    side.topic("options", 1, retention_ms="-1", cleanup_policy="compact")
    side.topic("plain")
    _describe(side)
    _incremental(side)
    _alter(side)
    _resources(side)


def _describe(side: Side, when: str = "") -> None:
    def ask(label: str, *resources: tuple[int, str, list[str] | None], synonyms: bool = True) -> None:
        named = [
            {"resource_type": kind, "resource_name": name, "configuration_keys": keys} for kind, name, keys in resources
        ]
        side.both(
            f"{label}{when}", "DescribeConfigs", resources=named, include_synonyms=synonyms, include_documentation=True
        )

    ask("all of a topic", (TOPIC, "options", None))
    ask("all of a topic without synonyms", (TOPIC, "plain", None), synonyms=False)
    ask("some of a topic", (TOPIC, "options", ["retention.ms", "cleanup.policy", "no.such.option"]))
    ask("none of a topic", (TOPIC, "options", []))
    ask("a topic that is not there", (TOPIC, "nowhere", None))
    ask("bad topics", (TOPIC, "bad name!", None), (TOPIC, "", None))
    ask("a topic twice", (TOPIC, "options", ["retention.ms"]), (TOPIC, "options", ["cleanup.policy"]))
    ask("all of the broker", (BROKER, "0", None))
    ask("some of the broker", (BROKER, "0", ["log.retention.ms", "broker.id", "node.id", "advertised.listeners"]))
    ask("the default of all brokers", (BROKER, "", None))
    ask("another broker", (BROKER, "7", None))
    ask("a broker that is no number", (BROKER, "x", None))
    ask("a broker that is -1", (BROKER, "-1", None))
    ask("a group", (GROUP, "g", None))
    ask("a group without name", (GROUP, "", None))
    ask("client metrics", (CLIENT_METRICS, "m", None))
    ask("a resource of no kind", (UNKNOWN, "x", None), (99, "x", None))
    ask("nothing")


def _incremental(side: Side) -> None:
    def ask(
        label: str,
        *changes: tuple[str, int, str | None],
        name: str = "plain",
        kind: int = TOPIC,
        validate: bool = False,
    ) -> None:
        configs = [
            {"name": option, "config_operation": operation, "value": value} for option, operation, value in changes
        ]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        side.both(label, "IncrementalAlterConfigs", resources=[resource], validate_only=validate)

    ask("set", ("retention.ms", SET, "60000"))
    ask("set, only looked at", ("retention.ms", SET, "1"), validate=True)
    ask("append to a list", ("cleanup.policy", APPEND, "compact"))
    ask("append what is there", ("cleanup.policy", APPEND, "compact"))
    ask("append to what is no list", ("retention.ms", APPEND, "5"))
    ask("subtract from a list", ("cleanup.policy", SUBTRACT, "delete"))
    ask("subtract what is not there", ("cleanup.policy", SUBTRACT, "delete"))
    ask("append and subtract", ("cleanup.policy", APPEND, "delete"), ("retention.ms", SUBTRACT, "5"))
    ask("subtract from what is no list", ("retention.ms", SUBTRACT, "5"))
    ask("append a wrong member", ("cleanup.policy", APPEND, "shred"))
    side.await_option(TOPIC, "plain", "cleanup.policy", lambda found: found.value == "compact")
    _describe(side, ", after changes")
    ask("delete", ("retention.ms", DELETE, None))
    ask("delete what was never set", ("segment.ms", DELETE, "x"))
    ask("delete what does not exist", ("no.such.option", DELETE, None))
    ask("an operation of no kind", ("retention.ms", 9, "1"))
    ask("one option twice", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    ask("no value", ("retention.ms", SET, None))
    ask("a bad value", ("retention.ms", SET, "soon"))
    ask("out of bounds", ("min.insync.replicas", SET, "0"))
    ask("an unknown option", ("no.such.option", SET, "1"))
    ask("good and bad together", ("retention.ms", SET, "1"), ("segment.bytes", SET, "x"))
    ask("nothing to change")
    ask("a topic that is not there", ("retention.ms", SET, "1"), name="nowhere")
    ask("a bad topic", ("retention.ms", SET, "1"), name="bad name!")
    ask("a topic without name", ("retention.ms", SET, "1"), name="")
    ask("an unknown kind", ("retention.ms", SET, "1"), kind=99)
    ask("a broker that is no number", ("log.retention.ms", SET, "1"), kind=BROKER, name="x")
    ask("another broker", ("log.cleaner.threads", SET, "1"), kind=BROKER, name="7")
    same = {"resource_type": TOPIC, "resource_name": "plain", "configs": [{"name": "segment.ms", "value": "5000"}]}
    side.both("one topic twice", "IncrementalAlterConfigs", resources=[same, same])
    side.both("no resources", "IncrementalAlterConfigs", resources=[])
    other = {**same, "resource_name": "nowhere"}
    side.both("one there, one not", "IncrementalAlterConfigs", resources=[same, other], validate_only=True)


def _alter(side: Side) -> None:
    def ask(
        label: str, *configs: tuple[str, str | None], name: str = "options", kind: int = TOPIC, validate: bool = False
    ) -> None:
        given = [{"name": option, "value": value} for option, value in configs]
        side.both(
            label,
            "AlterConfigs",
            resources=[{"resource_type": kind, "resource_name": name, "configs": given}],
            validate_only=validate,
        )

    ask("replace, only looked at", ("retention.ms", "5"), validate=True)
    ask("replace", ("segment.ms", "70000"))
    ask("replace by a bad value", ("segment.ms", "x"))
    ask("replace by an unknown option", ("no.such.option", "x"))
    ask("replace by null", ("segment.ms", None))
    ask("replace one option twice", ("segment.ms", "1"), ("segment.ms", "2"))
    ask("replace in a topic that is not there", ("segment.ms", "1"), name="nowhere")
    ask("replace in a bad topic", ("segment.ms", "1"), name="bad name!")
    ask("replace in a topic without name", ("segment.ms", "1"), name="")
    ask("replace in an unknown kind", ("segment.ms", "1"), kind=99)
    side.await_option(TOPIC, "options", "segment.ms", lambda found: found.value == "70000")
    _describe(side, ", after a replacement")
    ask("replace by nothing")
    same: dict[str, Any] = {"resource_type": TOPIC, "resource_name": "options", "configs": []}
    for version in (0, 2):
        side.mute("replace twice", "AlterConfigs", version, resources=[same, same])
    side.both("replace in no resources", "AlterConfigs", resources=[])


def _resources(side: Side) -> None:
    side.both("resources of the first version", "ListConfigResources")
    for kinds in (
        [TOPIC],
        [BROKER],
        [GROUP],
        [CLIENT_METRICS],
        [BROKER_LOGGER],
        [UNKNOWN],
        [99],
        [TOPIC, BROKER, TOPIC],
    ):
        side.ask(f"resources of {kinds}", "ListConfigResources", 1, resource_types=kinds)
