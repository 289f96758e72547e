"""Client quotas, options of groups, and SCRAM credentials that nobody has: 48, 49, 50, and 32, 33, 44 for groups."""

from collections.abc import Callable
from typing import Any

from tests.compatibility.differential.side import Side
from tests.waiting import wait_for

GROUP = 32
SET, DELETE, APPEND = 0, 1, 2
EXACT, DEFAULT, ANY = 0, 1, 2
RATE = "producer_byte_rate"
GONE: Any = None

Entity = dict[str, str | None]


def run(side: Side) -> None:
    _alter_quotas(side)
    _describe_quotas(side)
    _remove_quotas(side)
    _groups(side)
    side.both("everybody's credentials", "DescribeUserScramCredentials", users=None)
    side.both("nobody's credentials", "DescribeUserScramCredentials", users=[])
    side.both("a user's credentials", "DescribeUserScramCredentials", users=[{"name": "u"}, {"name": ""}])
    side.both("a user twice", "DescribeUserScramCredentials", users=[{"name": "u"}, {"name": "u"}])


def _entry(entity: Entity, *quotas: tuple[str, float | None]) -> dict[str, Any]:
    ops = [{"key": name, "value": value or 0.0, "remove": value is None} for name, value in quotas]
    return {"entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()], "ops": ops}


def _alter_quotas(side: Side) -> None:
    def ask(label: str, *entries: dict[str, Any], validate: bool = False) -> None:
        side.both(label, "AlterClientQuotas", entries=list(entries), validate_only=validate)

    ask("a client, only looked at", _entry({"client-id": "never"}, (RATE, 1.0)), validate=True)
    ask("a client", _entry({"client-id": "c"}, (RATE, 1024.0), ("request_percentage", 12.5)))
    ask("every client", _entry({"client-id": None}, ("consumer_byte_rate", 2048.0)))
    ask("a user", _entry({"user": "u"}, ("controller_mutation_rate", 0.5)))
    ask("every user", _entry({"user": None}, (RATE, 1e12)))
    ask("a client of a user", _entry({"user": "u", "client-id": "c/d e"}, (RATE, 3.0)))
    ask("every client of every user", _entry({"user": None, "client-id": None}, (RATE, 4.0)))
    ask("an address", _entry({"ip": "10.0.0.1"}, ("connection_creation_rate", 5.0)))
    ask("every address", _entry({"ip": None}, ("connection_creation_rate", 6.0)))
    ask("several", _entry({"client-id": "x"}, (RATE, 1.0)), _entry({"client-id": "y"}, (RATE, -1.0)))
    ask("no entity", _entry({}, (RATE, 1.0)))
    ask("an unknown entity", _entry({"group": "g"}, (RATE, 1.0)))
    ask("an empty name", _entry({"user": ""}, (RATE, 1.0)))
    ask("an address and a user", _entry({"ip": "10.0.0.1", "user": "u"}, (RATE, 1.0)))
    ask("no address", _entry({"ip": "300.1.1.1"}, ("connection_creation_rate", 1.0)))
    ask("a quota of users on an address", _entry({"ip": "10.0.0.2"}, (RATE, 1.0)))
    ask("a quota of addresses on a user", _entry({"user": "v"}, ("connection_creation_rate", 1.0)))
    ask("an unknown quota", _entry({"user": "v"}, ("nonsense", 1.0)))
    ask("an unknown quota removed", _entry({"user": "v"}, ("nonsense", None)))
    for value in (0.0, -1.0, 0.5, 1e300):
        ask(f"a rate of {value}", _entry({"user": "v"}, (RATE, value)))
    ask("too many connections", _entry({"ip": None}, ("connection_creation_rate", 2147483648.0)))
    ask("one quota twice", _entry({"user": "v"}, (RATE, 1.0), (RATE, 2.0)))
    ask("nothing to change", _entry({"user": "v"}))
    ask("nobody to change")


def _describe_quotas(side: Side) -> None:
    def ask(label: str, *components: tuple[str, int, str | None], strict: bool = False) -> None:
        named = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
        side.both(label, "DescribeClientQuotas", components=named, strict=strict)

    side.quiet("AlterClientQuotas", 1, entries=[_entry({"client-id": "the last"}, (RATE, 1.0))])
    _await_quotas(side, lambda entities: ["the last"] in entities)
    ask("all quotas")
    ask("all quotas, strictly", strict=True)
    ask("of a client", ("client-id", EXACT, "c"))
    ask("of a client, strictly", ("client-id", EXACT, "c"), strict=True)
    ask("of every client", ("client-id", DEFAULT, None), strict=True)
    ask("of any client", ("client-id", ANY, None))
    ask("of a user", ("user", EXACT, "u"))
    ask("of a user and a client", ("user", EXACT, "u"), ("client-id", EXACT, "c/d e"), strict=True)
    ask("of addresses", ("ip", ANY, None), strict=True)
    ask("of nobody", ("user", EXACT, "nobody"))
    ask("of no type", ("", ANY, None))
    ask("of an unknown type", ("group", ANY, None))
    ask("of one type twice", ("user", ANY, None), ("user", EXACT, "u"))
    ask("of no name", ("user", EXACT, None))
    ask("of every user, and a name", ("user", DEFAULT, "u"))
    ask("of any user, and a name", ("user", ANY, "u"))
    ask("in no way", ("user", 7, None))
    ask("of an address and a user", ("ip", ANY, None), ("user", ANY, None))


def _await_quotas(side: Side, wanted: Callable[[list[Any]], bool]) -> None:
    """Both brokers learn a moment later what they have answered already."""

    def are_as_wanted() -> bool:
        found = side.quiet("DescribeClientQuotas", 1, components=[], strict=False).entries
        return wanted([[part.entity_name for part in entry.entity] for entry in found])

    wait_for(are_as_wanted, f"{side}: quotas as wanted")


def _await_option(side: Side, name: str, value: str, group: str = "g") -> None:
    side.await_option(GROUP, group, name, lambda found: found is not None and found.value == value)


def _remove_quotas(side: Side) -> None:
    entries = [
        _entry({"client-id": "c"}, (RATE, None), ("request_percentage", None)),
        _entry({"user": "w"}, (RATE, None)),
    ]
    side.both("removed", "AlterClientQuotas", entries=entries)
    _await_quotas(side, lambda entities: ["c"] not in entities)
    side.both("what is left", "DescribeClientQuotas", components=[], strict=False)


def _groups(side: Side) -> None:
    def alter(label: str, *changes: tuple[str, int, str | None], name: str = "g") -> None:
        configs = [{"name": each, "config_operation": how, "value": value} for each, how, value in changes]
        resource = {"resource_type": GROUP, "resource_name": name, "configs": configs}
        side.both(label, "IncrementalAlterConfigs", resources=[resource])

    def describe(label: str, name: str = "g") -> None:
        resource = {"resource_type": GROUP, "resource_name": name, "configuration_keys": None}
        side.both(label, "DescribeConfigs", resources=[resource], include_synonyms=True, include_documentation=True)

    describe("a group's options")
    alter("a group's time-out", ("consumer.session.timeout.ms", SET, "50000"))
    alter("with a slash", ("share.isolation.level", SET, "read_committed"), name="a/b")
    alter("too short a time-out", ("consumer.session.timeout.ms", SET, "5"))
    alter("too long a time-out", ("consumer.session.timeout.ms", SET, "500000"))
    alter("no time-out", ("consumer.session.timeout.ms", SET, "soon"))
    alter("too many beats", ("consumer.heartbeat.interval.ms", SET, "1"))
    alter("an unknown option of a group", ("retention.ms", SET, "1"))
    alter("an unknown option of a group deleted", ("retention.ms", DELETE, None))
    alter("append to a group's option", ("consumer.session.timeout.ms", APPEND, "1"))
    alter("a group without name", ("consumer.session.timeout.ms", SET, "50000"), name="")
    _await_option(side, "consumer.session.timeout.ms", "50000")
    _await_option(side, "share.isolation.level", "read_committed", "a/b")
    describe("a group's options, after changes")
    side.ask("groups with options", "ListConfigResources", 1, resource_types=[GROUP])
    given = [{"name": "consumer.heartbeat.interval.ms", "value": "6000"}]
    side.both(
        "a group's options replaced",
        "AlterConfigs",
        resources=[{"resource_type": GROUP, "resource_name": "g", "configs": given}],
    )
    _await_option(side, "consumer.heartbeat.interval.ms", "6000")
    describe("a group's options, after a replacement")
    alter("a group's options deleted", ("consumer.heartbeat.interval.ms", DELETE, None))
    _await_option(side, "consumer.heartbeat.interval.ms", "5000")
    side.ask("groups with options, after that", "ListConfigResources", 1, resource_types=[GROUP])
