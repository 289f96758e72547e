"""Each API is refused without its ACLs, refused with every other operation, and allowed with exactly its own."""

import tracemalloc

import pytest

from tests.api.fake_context import add_topic, context, image
from tidelog.api.authorization import CONTROLLER_GUARDS, GUARDS, authorize
from tidelog.api.registry import APIS, CONTROLLER_APIS
from tidelog.config.broker import BrokerConfig
from tidelog.errors import ErrorCode
from tidelog.model import NO_ID, Time
from tidelog.node.security.authorizer import Authorizer
from tidelog.security.acls import (
    CLUSTER_NAME,
    Acl,
    AclIndex,
    AclOperation,
    Binding,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tidelog.wire.message import fields
from tidelog.wire.messages import SCHEMAS

ALICE, HOST = "User:alice", "10.0.0.1"
NAMES = {"Topic": "t", "Group": "g", "Cluster": CLUSTER_NAME, "TransactionalId": "x", "User": "User:bob"}
TYPES = {
    "Topic": ResourceType.TOPIC,
    "Group": ResourceType.GROUP,
    "Cluster": ResourceType.CLUSTER,
    "TransactionalId": ResourceType.TRANSACTIONAL_ID,
    "User": ResourceType.USER,
}
CODES = {
    "Topic": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    "Group": ErrorCode.GROUP_AUTHORIZATION_FAILED,
    "Cluster": ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    "TransactionalId": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    "User": ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
INCLUDED_IN = {
    "DESCRIBE": {"DESCRIBE", "READ", "WRITE", "DELETE", "ALTER"},
    "DESCRIBE_CONFIGS": {"DESCRIBE_CONFIGS", "ALTER_CONFIGS"},
}
OPERATIONS = [each.name for each in AclOperation if each >= AclOperation.READ]
OPEN = {3, 17, 18, 36, 39, 40, 60, 75}
"""Open to everybody: these hide what may not be described, or are about the client's own token. Fetch, 1, asks at every read."""


def message(cls, **values):
    """With one entry in every list, and the usual names."""
    made = cls()
    for field in fields(cls):
        if field.kind.name == "array":
            element = field.element
            one = message(element, **values) if isinstance(element, type) else values.get(field.name, "t")
            setattr(made, field.name, [one if isinstance(element, type) or element.name == "string" else 0])
        elif field.name in values:
            setattr(made, field.name, values[field.name])
    return made


USUAL = {
    "name": "t",
    "topic": "t",
    "group_id": "g",
    "transactional_id": "x",
    "group_ids": "g",
    "groups_names": "g",
    "groups": "g",
    "v3_and_below_transactional_id": "x",
    "transactional_ids": "x",
    "acks": 1,
    "resource_name": "t",
    "topic_name": "t",
}


NOT_IN_THIS_VERSION = {(20, False): ["topic_names"], (10, False): ["coordinator_keys"]}
"""By API key, and whether the keys of FindCoordinator are given."""


def request(key, /, **values):
    made = message(SCHEMAS[key].request, **(USUAL | values))
    for field in NOT_IN_THIS_VERSION.get((key, "coordinator_keys" in values), ()):
        setattr(made, field, [])
    return made


ACL = {"resource_type": 2, "resource_type_filter": 2, "operation": 3, "permission_type": 3}
CASES = [
    (0, 12, {}, [{"TransactionalId WRITE", "Topic WRITE"}]),
    (0, 12, {"transactional_id": None}, [{"Topic WRITE"}]),
    (2, None, {}, [{"Topic DESCRIBE"}]),
    *((key, None, {}, [{"Cluster CLUSTER_ACTION"}]) for key in (4, 5, 6, 7, 56)),
    (8, 9, {}, [{"Group READ", "Topic READ"}]),
    (9, 9, {}, [{"Group DESCRIBE", "Topic DESCRIBE"}]),
    (9, 7, {}, [{"Group DESCRIBE", "Topic DESCRIBE"}]),
    (9, 1, {}, [{"Group DESCRIBE", "Topic DESCRIBE"}]),
    (10, 3, {"key": "g"}, [{"Group DESCRIBE"}]),
    (10, 3, {"key": "x", "key_type": 1}, [{"TransactionalId DESCRIBE"}]),
    (10, 4, {"coordinator_keys": "g"}, [{"Group DESCRIBE"}]),
    (10, 4, {"coordinator_keys": "x", "key_type": 1}, [{"TransactionalId DESCRIBE"}]),
    *((key, None, {}, [{"Group READ"}]) for key in (11, 12, 13, 14)),
    (15, None, {}, [{"Group DESCRIBE"}]),
    (19, None, {}, [{"Topic CREATE"}, {"Cluster CREATE"}]),
    (20, None, {}, [{"Topic DELETE"}]),
    (21, None, {}, [{"Topic DELETE"}]),
    (22, None, {}, [{"TransactionalId WRITE"}]),
    (22, None, {"transactional_id": None}, [{"Cluster IDEMPOTENT_WRITE"}, {"Topic WRITE"}]),
    (23, None, {}, [{"Topic DESCRIBE"}, {"Cluster CLUSTER_ACTION"}]),
    (24, 3, {}, [{"TransactionalId WRITE", "Topic WRITE"}]),
    (24, 5, {}, [{"Cluster CLUSTER_ACTION"}]),
    (25, None, {}, [{"TransactionalId WRITE", "Group READ"}]),
    (26, None, {}, [{"TransactionalId WRITE"}]),
    (27, None, {}, [{"Cluster ALTER"}, {"Cluster CLUSTER_ACTION"}]),
    (28, None, {}, [{"TransactionalId WRITE", "Group READ", "Topic READ"}]),
    (29, None, ACL, [{"Cluster DESCRIBE"}]),
    (30, None, ACL, [{"Cluster ALTER"}]),
    (31, None, ACL, [{"Cluster ALTER"}]),
    (32, None, {"resource_type": 2}, [{"Topic DESCRIBE_CONFIGS"}]),
    (32, None, {"resource_type": 4}, [{"Cluster DESCRIBE_CONFIGS"}]),
    (32, None, {"resource_type": 8}, [{"Cluster DESCRIBE_CONFIGS"}]),
    (32, None, {"resource_type": 32, "resource_name": "g"}, [{"Group DESCRIBE_CONFIGS"}]),
    *((key, None, {"resource_type": 2}, [{"Topic ALTER_CONFIGS"}]) for key in (33, 44)),
    *((key, None, {"resource_type": 4}, [{"Cluster ALTER_CONFIGS"}]) for key in (33, 44)),
    *((key, None, {"resource_type": 32, "resource_name": "g"}, [{"Group ALTER_CONFIGS"}]) for key in (33, 44)),
    *((key, None, {}, [{"Cluster ALTER"}]) for key in (34, 43, 45, 51, 57, 64, 80, 81)),
    *((key, None, {}, [{"Cluster DESCRIBE"}]) for key in (35, 46, 50, 55, 10000)),
    *((key, None, {}, [{"Cluster CLUSTER_ACTION"}]) for key in (52, 53, 54, 59, 82, 10001)),
    (37, None, {}, [{"Topic ALTER"}]),
    (38, None, {"owner_principal_type": "User", "owner_principal_name": "bob"}, [{"User CREATE_TOKENS"}]),
    (42, None, {}, [{"Group DELETE"}]),
    (47, None, {}, [{"Group DELETE", "Topic READ"}]),
    (48, None, {}, [{"Cluster DESCRIBE_CONFIGS"}]),
    (49, None, {}, [{"Cluster ALTER_CONFIGS"}]),
    (61, None, {}, [{"Topic READ"}]),
    (65, None, {}, [{"TransactionalId DESCRIBE"}]),
    (68, None, {"subscribed_topic_names": "t"}, [{"Group READ", "Topic DESCRIBE"}]),
    (69, None, {}, [{"Group DESCRIBE"}]),
    (74, None, {}, [{"Cluster DESCRIBE_CONFIGS"}]),
]


def name_of(case):
    key, version, values, needs = case
    return f"{key}-{SCHEMAS[key].name}-v{version or 'max'}-{'/'.join('+'.join(sorted(each)) for each in needs)}{values}"


def rules(grants, permission=Permission.ALLOW):
    return [
        Binding(
            ResourcePattern(TYPES[kind], NAMES[kind], PatternType.LITERAL),
            Acl(ALICE, "*", AclOperation[operation], permission),
        )
        for kind, _, operation in (grant.partition(" ") for grant in grants)
    ]


def judge(case, bindings, *, of_controller=False, **options):
    key, version, values, _ = case
    found = image()
    add_topic(found, "t", 0)
    where = context(found, version=SCHEMAS[key].max_version if version is None else version)
    where.principal = ALICE
    where.broker.topic_name = found.topic_names.get
    authorizer = Authorizer(BrokerConfig({"node.id": "0"} | options), where.effects, lambda: Time(5, 6))
    authorizer.update(AclIndex(bindings))
    where.access = authorizer.access(ALICE, HOST)
    return authorize(request(key, **values), where, of_controller=of_controller), where


def codes_of(answer):
    for field in fields(answer):
        value = getattr(answer, field.name)
        if field.name in ("error_code", "partition_error_code"):
            yield value
        for each in value if isinstance(value, list) else ():
            if hasattr(each, "__fields__"):
                yield from codes_of(each)


def is_refused(verdict):
    return verdict is not None and verdict.refusal is not None


def refusal_codes(verdict):
    return set(codes_of(verdict.refusal)) - {ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED}


def expected_codes(case):
    return {CODES[grant.partition(" ")[0]] for needs in case[3] for grant in needs}


def test_every_api_is_in_the_table():
    assert set(GUARDS) - {29, 30, 31} <= {*APIS, *CONTROLLER_APIS} <= set(GUARDS)
    unguarded = {key for key, guard in GUARDS.items() if guard is None}
    assert unguarded == OPEN | {1}
    tested = {key for key, *_ in CASES} | OPEN | {1}
    assert set(APIS) - tested == {16, 41, 66}, "these filter their answers"


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_without_acls_it_is_refused_with_the_code_of_the_resource(case):
    verdict, where = judge(case, [])
    assert is_refused(verdict)
    assert refusal_codes(verdict) <= expected_codes(case) | {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    assert refusal_codes(verdict)
    if case[0] not in (22, 23, 27):  # what they ask first only decides what they ask next
        assert any(effect.kind == "access.denied" for effect in where.effects)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_with_exactly_its_own_acls_it_is_allowed(case):
    for needs in case[3]:
        verdict, where = judge(case, rules(needs))
        assert not is_refused(verdict)
        if verdict is not None:
            assert verdict.request == request(case[0], **case[2])
        assert not [effect for effect in where.effects if effect.kind == "access.denied"]


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_with_every_other_operation_it_is_refused(case):
    """All operations on all resources, except one that it needs and those that include it."""
    alternatives = case[3]
    for left_out in alternatives[0]:
        without = {left_out, *(each for needs in alternatives[1:] for each in needs)}
        missing = {
            f"{kind} {other}"
            for grant in without
            for kind, _, operation in [grant.partition(" ")]
            for other in INCLUDED_IN.get(operation, {operation})
        }
        others = {f"{kind} {operation}" for kind in TYPES for operation in OPERATIONS} - missing
        verdict, _ = judge(case, rules(others))
        if case[0] == 9 and left_out == "Topic DESCRIBE":  # refused when the group's answer is there
            kept = verdict.request.groups[0] if case[1] >= 8 else verdict.request
            assert kept.topics == []
            continue
        assert is_refused(verdict), left_out
        assert refusal_codes(verdict) <= expected_codes(case)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_deny_refuses_what_is_allowed_and_a_super_user_is_never_refused(case):
    everything = rules(f"{kind} ALL" for kind in TYPES)
    verdict, _ = judge(case, everything)
    assert not is_refused(verdict)
    denied = [*everything, *rules((f"{kind} ALL" for kind in TYPES), Permission.DENY)]
    verdict, _ = judge(case, denied)
    assert is_refused(verdict)
    verdict, _ = judge(case, denied, **{"super.users": "User:bob;User:alice"})
    assert not is_refused(verdict)


@pytest.mark.parametrize("topic_id", [NO_ID, b"nobody knows it."])
def test_an_id_that_is_not_known_is_for_the_handler_to_refuse(topic_id):
    """As in Kafka: UNKNOWN_TOPIC_ID, not that access is denied."""
    values = {"transactional_id": None, "name": "", "topic_id": topic_id}
    for key, version in ((0, 13), (8, 10)):
        verdict, _ = judge((key, version, values, []), rules(["Group READ"]))
        assert verdict is None
        known = {**values, "topic_id": b"t".ljust(16, b".")}
        verdict, _ = judge((key, version, known, []), rules(["Group READ"]))
        assert refusal_codes(verdict) == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}


def test_the_controller_is_not_asked_to_delete_a_topic_whose_id_this_broker_cannot_judge():
    values = {"name": None, "topic_id": b"nobody knows it."}
    verdict, _ = judge((20, 6, values, []), [])
    assert is_refused(verdict)
    assert refusal_codes(verdict) == {ErrorCode.UNKNOWN_TOPIC_ID}
    verdict, _ = judge((20, 6, {"name": None, "topic_id": NO_ID}, []), [])
    assert not is_refused(verdict)


def test_until_the_rules_are_known_only_super_users_are_allowed():
    where = context()
    authorizer = Authorizer(
        BrokerConfig({"node.id": "0", "super.users": "User:root"}), where.effects, lambda: Time(5, 6)
    )
    asked = (HOST, AclOperation.READ, ResourceType.TOPIC, "t")
    assert not authorizer.decide((ALICE, *asked)).allowed
    assert authorizer.decide(("User:root", *asked)).allowed
    authorizer.update(AclIndex(rules(["Topic READ"])))
    assert authorizer.decide((ALICE, *asked)).allowed
    authorizer.update(AclIndex())
    assert not authorizer.decide((ALICE, *asked)).allowed


def kept_bytes(authorizer, principal, names):
    """What the broker keeps in memory of a principal who asks for these names."""
    access = authorizer.access(principal, HOST)
    access.allows(AclOperation.READ, ResourceType.TOPIC, "t")
    tracemalloc.start()
    try:
        for name in names:
            access.allows(AclOperation.READ, ResourceType.TOPIC, name)
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_names_that_clients_make_up_take_no_memory(monkeypatch):
    monkeypatch.setattr("tidelog.node.security.authorizer.MAX_REMEMBERED", 100)
    config = BrokerConfig({"node.id": "0", "super.users": "User:root"})
    authorizer = Authorizer(config, [], lambda: Time(5, 6))
    authorizer.update(AclIndex(rules(["Topic READ"])))
    assert kept_bytes(authorizer, ALICE, (f"{number:032000d}" for number in range(90))) < 100_000
    for principal in (ALICE, "User:root"):
        assert kept_bytes(authorizer, principal, (f"{number:0200d}" for number in range(1000))) < 100_000


def test_a_request_that_names_many_topics_logs_only_some_denials():
    where = context()
    authorizer = Authorizer(BrokerConfig({"node.id": "0"}), where.effects, lambda: Time(5, 6))
    authorizer.update(AclIndex())
    access = authorizer.access(ALICE, HOST)
    for number in range(1000):
        access.allows(AclOperation.WRITE, ResourceType.TOPIC, f"t{number}", "Produce")
    assert len(where.effects) == 20
    event = where.effects[0]
    assert (event.kind, event.level) == ("access.denied", "info")
    assert event.fields == {
        "principal": ALICE,
        "operation": "WRITE",
        "host": HOST,
        "resource": "Topic:LITERAL:t0",
        "request": "Produce",
        "rule": "DefaultDeny",
    }


OF_CONTROLLERS = {1: AclOperation.CLUSTER_ACTION, 60: AclOperation.ALTER}
"""APIs whose operation is another one on a listener of controllers, as in Kafka's ControllerApis."""


@pytest.mark.parametrize(("key", "needed"), OF_CONTROLLERS.items())
def test_on_a_listener_of_controllers_it_needs_its_own_operation(key, needed):
    assert CONTROLLER_GUARDS.keys() == OF_CONTROLLERS.keys()
    for operation in (AclOperation.CLUSTER_ACTION, AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.READ):
        pattern = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL)
        binding = Binding(pattern, Acl(ALICE, "*", operation, Permission.ALLOW))
        verdict, _ = judge((key, None, {}, ()), [binding], of_controller=True)
        assert is_refused(verdict) == (operation != needed), operation
