"""The rules of Kafka's StandardAuthorizer, case by case."""

import pytest

from tidelog.security.acls import (
    DEFAULT_ALLOW,
    DEFAULT_DENY,
    Acl,
    AclIndex,
    AclOperation,
    Binding,
    BindingFilter,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

ALICE, HOST = "User:alice", "10.0.0.1"


def rule(
    operation,
    name="orders",
    *,
    kind="TOPIC",
    pattern="LITERAL",
    principal=ALICE,
    host="*",
    permission="ALLOW",
):
    return Binding(
        ResourcePattern(ResourceType[kind], name, PatternType[pattern]),
        Acl(principal, host, AclOperation[operation], Permission[permission]),
    )


def decide(rules, operation, name="orders", *, kind="TOPIC", principal=ALICE, host=HOST, default=DEFAULT_DENY):
    question = (principal, host, AclOperation[operation], ResourceType[kind], name)
    return AclIndex(rules).decide(*question, default=default)


def allows(rules, operation, name="orders", **more):
    return decide(rules, operation, name, **more).allowed


@pytest.mark.parametrize(
    ("written", "host", "expected"),
    [
        ("0:0:0:0:0:0:0:1", "::1", True),  # as Kafka's brokers know it
        ("2001:DB8::1", "2001:db8::1", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("::2", "::1", False),
        ("no:address", "::1", False),
        ("10.0.0.2", "10.0.0.1", False),
    ],
)
def test_a_deny_holds_however_the_address_is_written(written, host, expected):
    rules = [rule("READ"), rule("READ", host=written, permission="DENY")]
    assert allows(rules, "READ", host=host) is not expected


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        ([rule("READ", "orders")], "orders", True),
        ([rule("READ", "orders")], "order", False),
        ([rule("READ", "orders")], "orders2", False),
        ([rule("READ", "*")], "anything", True),
        ([rule("READ", "ord", pattern="PREFIXED")], "orders", True),
        ([rule("READ", "orders", pattern="PREFIXED")], "orders", True),
        ([rule("READ", "orders2", pattern="PREFIXED")], "orders", False),
        ([rule("READ", "o", pattern="PREFIXED"), rule("READ", "orders", permission="DENY")], "orders", False),
        ([rule("READ", "orders"), rule("READ", "o", pattern="PREFIXED", permission="DENY")], "orders", False),
        ([rule("READ", "orders"), rule("READ", "*", permission="DENY")], "orders", False),
        ([rule("READ", "orders", kind="GROUP")], "orders", False),
        ([rule("ALL", "orders")], "orders", True),
        ([rule("ALL", "orders"), rule("READ", "orders", permission="DENY")], "orders", False),
        ([rule("READ", "orders"), rule("ALL", "orders", permission="DENY")], "orders", False),
        ([], "orders", False),
    ],
)
def test_a_resource_is_matched_by_name_prefix_or_wildcard_and_deny_wins(rules, name, expected):
    assert allows(rules, "READ", name) is expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"principal": "User:bob"}, False),
        ({"principal": "User:*"}, True),
        ({"principal": "Group:alice"}, False),
        ({"host": HOST}, True),
        ({"host": "10.0.0.2"}, False),
    ],
)
def test_principal_and_host_are_exact_or_anybody(given, expected):
    assert allows([rule("READ", **given)], "READ") is expected


IMPLIED = {
    "DESCRIBE": {"READ", "WRITE", "DELETE", "ALTER", "DESCRIBE", "ALL"},
    "DESCRIBE_CONFIGS": {"ALTER_CONFIGS", "DESCRIBE_CONFIGS", "ALL"},
}
CONCRETE = [each.name for each in AclOperation if each.value >= AclOperation.READ] + ["ALL"]


@pytest.mark.parametrize("asked", [name for name in CONCRETE if name != "ALL"])
@pytest.mark.parametrize("granted", CONCRETE)
def test_which_operations_include_others(asked, granted):
    included = IMPLIED.get(asked, {asked, "ALL"})
    assert allows([rule(granted)], asked) is (granted in included)
    denied = [rule("ALL"), rule(granted, permission="DENY")]
    assert allows(denied, asked) is (granted not in (asked, "ALL"))  # a DENY includes nothing else


def test_the_default_is_for_resources_that_no_rule_is_about():
    assert allows([], "READ", default=DEFAULT_ALLOW)
    for others in (
        rule("READ", principal="User:bob"),
        rule("READ", "*", principal="User:bob"),
        rule("READ", "ord", pattern="PREFIXED", principal="User:bob"),
    ):
        assert not allows([others], "READ", default=DEFAULT_ALLOW)
    assert allows([rule("READ", "other", principal="User:bob")], "READ", default=DEFAULT_ALLOW)


def test_a_decision_names_the_rule_as_kafka_logs_it():
    assert decide([rule("READ", host=HOST)], "DESCRIBE").rule == (
        "MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=orders, patternType=LITERAL, "
        "principal=User:alice, host=10.0.0.1, operation=READ, permissionType=ALLOW))"
    )
    assert decide([rule("READ")], "WRITE").rule == "DefaultDeny"
    assert decide([], "WRITE", default=DEFAULT_ALLOW).rule == "DefaultAllow"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([rule("WRITE", "orders")], True),
        ([rule("WRITE", "*")], True),
        ([rule("WRITE", "o", pattern="PREFIXED")], True),
        ([rule("READ", "orders")], False),
        ([rule("WRITE", "orders", principal="User:bob")], False),
        ([rule("WRITE", "orders"), rule("WRITE", "orders", permission="DENY")], False),
        ([rule("WRITE", "orders"), rule("WRITE", "other", permission="DENY")], True),
        ([rule("WRITE", "orders"), rule("WRITE", "ord", pattern="PREFIXED", permission="DENY")], False),
        ([rule("WRITE", "orders"), rule("WRITE", "*", permission="DENY")], False),
        ([rule("WRITE", "*"), rule("WRITE", "o", pattern="PREFIXED", permission="DENY")], True),
        ([rule("WRITE", "ord", pattern="PREFIXED"), rule("WRITE", "o", pattern="PREFIXED", permission="DENY")], False),
        ([rule("WRITE", "o", pattern="PREFIXED"), rule("WRITE", "ord", pattern="PREFIXED", permission="DENY")], True),
        ([rule("WRITE", "o", pattern="PREFIXED"), rule("WRITE", "o", permission="DENY")], True),
    ],
)
def test_some_resource_of_a_type_is_allowed_unless_every_one_is_denied(rules, expected):
    assert AclIndex(rules).allows_any(ALICE, HOST, AclOperation.WRITE, ResourceType.TOPIC) is expected


def found(rules, **wanted):
    chosen = {
        "resource_type": ResourceType.ANY,
        "name": None,
        "pattern_type": PatternType.ANY,
        "principal": None,
        "host": None,
        "operation": AclOperation.ANY,
        "permission": Permission.ANY,
    } | wanted
    return [binding for binding in rules if BindingFilter(**chosen).matches(binding)]


def test_filters():
    literal, wildcard = rule("READ", "orders"), rule("READ", "*")
    prefix, group = rule("READ", "ord", pattern="PREFIXED"), rule("READ", "orders", kind="GROUP")
    rules = [literal, wildcard, prefix, group]
    assert found(rules) == rules
    assert found(rules, resource_type=ResourceType.TOPIC) == [literal, wildcard, prefix]
    assert found(rules, name="orders") == [literal, group]
    assert found(rules, name="*") == [wildcard]
    assert found(rules, name="orders", pattern_type=PatternType.MATCH) == [literal, wildcard, prefix, group]
    assert found(rules, name="ord", pattern_type=PatternType.PREFIXED) == [prefix]
    assert found(rules, name="ord", pattern_type=PatternType.LITERAL) == []
    assert found(rules, principal="User:bob") == []
    assert found(rules, operation=AclOperation.READ, permission=Permission.ALLOW, host="*") == rules


def test_the_rules_of_a_resource_are_replaced_without_the_others():
    index = AclIndex([rule("READ"), rule("WRITE"), rule("READ", "ord", pattern="PREFIXED"), rule("READ", "other")])

    def operations(name):
        return {(binding.pattern.name, binding.acl.operation.name) for binding in index.about(ResourceType.TOPIC, name)}

    assert operations("orders") == {("orders", "READ"), ("orders", "WRITE"), ("ord", "READ")}
    index.replace(rule("READ", "ord", pattern="PREFIXED").pattern, [])
    index.replace(rule("READ").pattern, [rule("ALTER").acl])
    assert operations("orders") == {("orders", "ALTER")}
    assert operations("other") == {("other", "READ")}
    index.replace(rule("READ", "ord", pattern="PREFIXED").pattern, [])
    index.replace(rule("READ", "ot", pattern="PREFIXED").pattern, [rule("DELETE").acl])
    assert operations("other") == {("other", "READ"), ("ot", "DELETE")}


def test_a_lookup_does_not_take_longer_with_more_rules():
    """10,000 rules of other names: the index looks at none of them."""
    rules = [rule("READ", f"topic-{number}", principal=f"User:{number}") for number in range(10_000)]
    index = AclIndex([*rules, rule("READ", "orders")])
    assert len(list(index.about(ResourceType.TOPIC, "orders"))) == 1
