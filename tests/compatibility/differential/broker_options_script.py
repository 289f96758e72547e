"""Options of brokers, changed while they run: for one broker, for all, and what cannot be changed."""

from collections.abc import Callable

from tests.compatibility.differential.side import Side

BROKER, LOGGER = 4, 8
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
OWN, ALL = "0", ""


def run(side: Side) -> None:
    _refused(side)
    _changed(side)
    _replaced(side)
    _loggers(side)


def _alter(
    side: Side, label: str, *changes: tuple[str, int, str | None], name: str = OWN, validate: bool = False
) -> None:
    configs = [{"name": each, "config_operation": how, "value": value} for each, how, value in changes]
    resource = {"resource_type": BROKER, "resource_name": name, "configs": configs}
    who = "all brokers" if name == ALL else "one broker"
    side.both(f"{label}, for {who}", "IncrementalAlterConfigs", resources=[resource], validate_only=validate)


def _refused(side: Side) -> None:
    for name in (OWN, ALL):
        for option, value in (
            ("log.retention.hours", "5"), ("node.id", "7"), ("log.dirs", "/x"), ("num.partitions", "3"),
            ("process.roles", "broker"), ("controller.quorum.voters", ""), ("auto.create.topics.enable", "false"),
            ("log.cleaner.threads", "x"), ("log.cleaner.threads", "-1"), ("log.retention.ms", "soon"),
            ("min.insync.replicas", "0"), ("message.max.bytes", "-5"), ("compression.type", "zip"),
            ("log.cleanup.policy", "shred"), ("max.connections.per.ip.overrides", "nonsense"),
            ("listeners", "PLAINTEXT://:x"), ("ssl.keystore.location", "/x"), ("sasl.jaas.config", "x"),
            ("log.segment.bytes", "1"), ("unclean.leader.election.enable", "maybe"), ("num.io.threads", "0"),
            ("log.message.timestamp.type", "Now"), ("group.consumer.assignment.interval.ms", "-1"),
        ):  # fmt: skip
            _alter(side, f"{option} = {value!r}", (option, SET, value), name=name, validate=True)
        _alter(side, "an unknown option of a broker", ("no.such.option", SET, "1"), name=name, validate=True)
        for how, value in ((SET, "2"), (DELETE, None)):  # eligible leader replicas need to know it
            if (name, how) != (ALL, SET):
                _alter(side, f"min.insync.replicas, {how}", ("min.insync.replicas", how, value), name=name)
        _alter(side, "delete what was never set", ("log.cleaner.threads", DELETE, None), name=name)
        _alter(side, "delete what cannot be set", ("log.retention.hours", DELETE, None), name=name, validate=True)
        _alter(side, "append to what is no list", ("log.cleaner.threads", APPEND, "1"), name=name, validate=True)
        _alter(side, "no value", ("log.cleaner.threads", SET, None), name=name, validate=True)
        _alter(side, "twice", ("log.cleaner.threads", SET, "1"), ("log.cleaner.threads", SET, "2"), name=name)
        _alter(
            side,
            "one good, one not",
            ("log.cleaner.threads", SET, "2"),
            ("node.id", SET, "2"),
            name=name,
            validate=True,
        )


def _changed(side: Side) -> None:
    for name in (OWN, ALL):
        _alter(side, "set", ("log.retention.ms", SET, "3600000"), ("message.max.bytes", SET, "2000000"), name=name)
        _alter(side, "append to a list", ("log.cleanup.policy", APPEND, "compact"), name=name)
        _await(side, name, "log.cleanup.policy", lambda value: value is not None and "compact" in value)
        _describe(side, f"dynamic options of {name!r}", name)
        _alter(side, "subtract from a list", ("log.cleanup.policy", SUBTRACT, "compact"), name=name)
        _await(side, name, "log.cleanup.policy", lambda value: value is not None and "compact" not in value)
        _describe(side, f"after a subtraction from {name!r}", name)
    names = ("log.retention.ms", "message.max.bytes", "log.cleanup.policy")
    _alter(side, "deleted", *((each, DELETE, None) for each in names))
    _await_source(side, OWN, "message.max.bytes", OF_ALL)
    _describe(side, "what all brokers have", OWN)
    _alter(side, "deleted", *((each, DELETE, None) for each in names), name=ALL)
    _await_source(side, OWN, "message.max.bytes", BY_DEFAULT)
    _describe(side, "what is left", OWN)


def _replaced(side: Side) -> None:
    def replace(label: str, *configs: tuple[str, str], name: str = OWN) -> None:
        given = [{"name": option, "value": value} for option, value in configs]
        resource = {"resource_type": BROKER, "resource_name": name, "configs": given}
        side.both(label, "AlterConfigs", resources=[resource], validate_only=True)

    replace("replace options of a broker", ("log.cleaner.threads", "2"))
    replace("replace options of a broker by one that cannot be set", ("node.id", "2"))
    replace("replace options of all brokers by one that is a broker's own", ("listeners", "PLAINTEXT://:1"), name=ALL)
    replace("replace options of a broker by a bad value", ("log.cleaner.threads", "x"))
    replace("replace options of another broker", ("log.cleaner.threads", "2"), name="7")


SHOWN = ["log.retention.ms", "log.retention.hours", "message.max.bytes", "log.cleanup.policy"]


def _describe(side: Side, label: str, name: str) -> None:
    resource = {"resource_type": BROKER, "resource_name": name, "configuration_keys": SHOWN}
    side.both(label, "DescribeConfigs", resources=[resource], include_synonyms=True)


OF_ALL, BY_DEFAULT = 3, 5


def _await(side: Side, name: str, option: str, wanted: Callable[[str | None], bool]) -> None:
    """Both brokers learn a moment later what they have answered already."""
    side.await_option(BROKER, name, option, lambda found: wanted(found.value if found else None))


def _await_source(side: Side, name: str, option: str, source: int) -> None:
    side.await_option(BROKER, name, option, lambda found: bool(found) and found.config_source == source)


def _loggers(side: Side) -> None:
    """Only what is refused, and the root: the others have names of their own."""

    def alter(label: str, name: str, how: int, value: str | None, broker: str = OWN, validate: bool = False) -> None:
        configs = [{"name": name, "config_operation": how, "value": value}]
        resource = {"resource_type": LOGGER, "resource_name": broker, "configs": configs}
        side.both(label, "IncrementalAlterConfigs", resources=[resource], validate_only=validate)

    alter("a level", "root", SET, "INFO")
    alter("a level, only looked at", "root", SET, "DEBUG", validate=True)
    alter("no level", "root", SET, "LOUD")
    alter("a logger that is not there", "no.such.logger", SET, "INFO")
    alter("a logger that is not there deleted", "no.such.logger", DELETE, None)
    alter("the root deleted", "root", DELETE, None)
    alter("append to a level", "root", APPEND, "INFO")
    alter("a level of another broker", "root", SET, "INFO", broker="7")
    alter("a level of no broker", "root", SET, "INFO", broker="x")
    alter("a level of all brokers", "root", SET, "INFO", broker=ALL)
    asked = {"resource_type": LOGGER, "resource_name": OWN, "configuration_keys": ["root"]}
    side.both("the root's level", "DescribeConfigs", resources=[asked], include_synonyms=True)
    given = {"resource_type": LOGGER, "resource_name": OWN, "configs": [{"name": "root", "value": "INFO"}]}
    side.both("levels replaced", "AlterConfigs", resources=[given])
