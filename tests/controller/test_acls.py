"""ACLs created, described and deleted through the controller, and what is then stored."""

import pytest

from tests.controller.fake_cluster import FakeCluster
from tidelog.controller import acl_tree
from tidelog.controller.commands import acls
from tidelog.errors import ErrorCode
from tidelog.ports import Create
from tidelog.security.acls import Acl, AclOperation, PatternType, Permission, ResourcePattern, ResourceType
from tidelog.wire.messages.security.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
INVALID, UNKNOWN = ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR
T = ResourcePattern(TOPIC, "t", LITERAL)


@pytest.fixture
def cluster():
    return FakeCluster().start()


def creation(name="t", principal="User:alice", kind=TOPIC, pattern=LITERAL, host="*", operation="READ", deny=False):
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=AclOperation[operation],
        permission_type=Permission.DENY if deny else Permission.ALLOW,
    )


def create(cluster, *creations):
    """The codes."""
    return [each.error_code for each in cluster.ask(CreateAclsRequest(creations=list(creations))).results]


def wanted(cls, name=None, kind=ResourceType.ANY, pattern=PatternType.ANY, **more):
    anything = {"principal_filter": None, "host_filter": None}
    values = {**anything, "operation": AclOperation.ANY, "permission_type": Permission.ANY, **more}
    return cls(resource_type_filter=kind, resource_name_filter=name, pattern_type_filter=pattern, **values)


def described(cluster, *named, **filters):
    answer = cluster.ask(wanted(DescribeAclsRequest, *named, **filters))
    assert answer.error_code == 0
    return {
        (each.resource_type, each.resource_name, each.pattern_type): {
            (acl.principal, acl.operation) for acl in each.acls
        }
        for each in answer.resources
    }


def delete(cluster, *filters):
    """The names of what each filter matched."""
    answer = cluster.ask(DeleteAclsRequest(filters=list(filters)))
    assert not any(each.error_code for each in answer.filter_results)
    return [sorted(acl.resource_name for acl in each.matching_acls) for each in answer.filter_results]


def stored(cluster, pattern=T):
    node = cluster.tree.nodes.get(acl_tree.pattern_path(pattern))
    return node and acl_tree.parse_acls(node.data)


def test_an_unused_tree_has_no_nodes_of_acls(cluster):
    assert described(cluster) == {}
    assert delete(cluster, wanted(DeleteAclsFilter)) == [[]]
    assert not [path for path in cluster.tree.nodes if path.startswith("/kafka-acl")]


def test_acls_are_created_beside_those_there_are_and_deleted(cluster):
    assert create(cluster, creation(), creation(operation="WRITE"), creation()) == [0, 0, 0]
    assert create(cluster, creation(principal="User:bob", host="10.0.0.1", deny=True)) == [0]
    alice = [Acl("User:alice", "*", AclOperation[name], Permission.ALLOW) for name in ("READ", "WRITE")]
    bob = Acl("User:bob", "10.0.0.1", AclOperation.READ, Permission.DENY)
    assert stored(cluster) == (*alice, bob)
    assert delete(cluster, wanted(DeleteAclsFilter, "t", TOPIC, LITERAL, principal_filter="User:alice")) == [["t", "t"]]
    assert stored(cluster) == (bob,)
    assert delete(cluster, wanted(DeleteAclsFilter)) == [["t"]]
    assert stored(cluster) is None


def test_every_change_is_announced_once_and_the_latest_are_kept(cluster, monkeypatch):
    monkeypatch.setattr(acls, "NOTIFICATIONS", 3)
    create(cluster, creation())
    create(cluster, creation())  # nothing new
    for number in range(4):
        create(cluster, creation(operation="WRITE", principal=f"User:{number}"))
    create(cluster, creation("p", pattern=PREFIXED))
    paths = sorted(path for path in cluster.tree.nodes if "/acl_changes_" in path)
    assert paths == [
        *(f"/kafka-acl-changes/acl_changes_{number:010d}" for number in (2, 3, 4)),
        "/kafka-acl-extended-changes/acl_changes_0000000000",
    ]
    assert cluster.tree.nodes[paths[0]].data == b"TOPIC:t"


@pytest.mark.parametrize(
    ("creation", "code"),
    [
        (creation(""), INVALID),
        (creation("other", kind=CLUSTER), INVALID),
        (creation("kafka-clus", kind=CLUSTER, pattern=PREFIXED), INVALID),
        (creation("kafka-cluster", kind=CLUSTER, operation="ALTER"), 0),
        (creation(principal="alice"), INVALID),
        (creation(principal="User:"), 0),
        (creation(kind=99), INVALID),
        (creation(pattern=-1), INVALID),
        (creation(host="nowhere at all"), 0),
        (creation("no topic's name / at all"), 0),
        (creation("g", kind=GROUP, operation="CLUSTER_ACTION"), 0),
    ],
)
def test_an_acl_is_checked_no_more_than_kafka_does(cluster, creation, code):
    assert create(cluster, creation) == [code]
    assert bool(described(cluster)) is not bool(code)


@pytest.mark.parametrize(
    "wrong",
    [
        creation(operation="ANY"),
        creation(pattern=PatternType.ANY),
        creation(pattern=PatternType.MATCH),
        creation(kind=ResourceType.ANY),
        AclCreation(
            resource_type=TOPIC, resource_name="t", principal="User:a", host="*", operation=3, permission_type=1
        ),
    ],
)
def test_an_acl_about_anything_fails_all_that_come_with_it(cluster, wrong):
    assert create(cluster, creation(), wrong) == [UNKNOWN, UNKNOWN]
    assert stored(cluster) is None


def test_an_acl_that_is_refused_does_not_hold_up_others(cluster):
    assert create(cluster, creation(""), creation(), creation(principal="x")) == [INVALID, 0, INVALID]
    assert len(stored(cluster)) == 1


def test_more_acls_than_a_node_can_hold_are_refused(cluster, monkeypatch):
    monkeypatch.setattr(acls, "MOST_BYTES", 200)
    assert create(cluster, creation()) == [0]
    many = [creation(principal=f"User:{number}") for number in range(3)]
    assert create(cluster, *many, creation("u")) == [INVALID, INVALID, INVALID, 0]
    assert len(stored(cluster)) == 1


def test_filters_find_what_kafka_finds(cluster):
    create(
        cluster,
        *(creation(name) for name in ("t", "*", "flights")),
        creation("fl", pattern=PREFIXED),
        creation("t", pattern=PREFIXED, operation="WRITE", principal="User:bob"),
        creation("t", kind=GROUP),
    )

    def found(*named, **filters):
        return sorted((name, PatternType(each).name) for _, name, each in described(cluster, *named, **filters))

    assert len(found()) == 6
    assert found("*", TOPIC) == [("*", "LITERAL")]
    assert found("t", TOPIC) == [("t", "LITERAL"), ("t", "PREFIXED")]
    assert found("t", TOPIC, LITERAL) == [("t", "LITERAL")]
    assert found("flights", TOPIC, PatternType.MATCH) == [("*", "LITERAL"), ("fl", "PREFIXED"), ("flights", "LITERAL")]
    assert found(kind=GROUP) == [("t", "LITERAL")]
    assert found(principal_filter="User:bob") == [("t", "PREFIXED")]
    assert found(operation=AclOperation.WRITE) == [("t", "PREFIXED")]
    assert found(operation=AclOperation.ALL) == []
    assert found(permission_type=Permission.DENY) == []
    assert found("missing", TOPIC, LITERAL) == []


def test_a_filter_that_means_nothing_is_refused_and_others_are_not(cluster):
    create(cluster, creation())
    assert described(cluster, kind=99) == described(cluster, operation=99) == {}
    filters = [wanted(DeleteAclsFilter, operation=99), wanted(DeleteAclsFilter)]
    results = cluster.ask(DeleteAclsRequest(filters=filters)).filter_results
    assert [(each.error_code, len(each.matching_acls)) for each in results] == [(INVALID, 0), (0, 1)]


def test_what_two_filters_match_is_returned_for_both(cluster):
    create(cluster, creation(), creation("u"))
    first, second = wanted(DeleteAclsFilter, "t", TOPIC, LITERAL), wanted(DeleteAclsFilter)
    assert delete(cluster, first, second, first) == [["t"], ["t", "u"], ["t"]]
    assert described(cluster) == {}


def test_an_acl_that_is_written_beside_the_controller_is_found(cluster):
    create(cluster, creation())
    content = acl_tree.format_acls([Acl("User:zoe", "*", AclOperation.ALL, Permission.ALLOW)])
    cluster.by_hand(Create("/kafka-acl/Topic/u", content), Create("/kafka-acl/Topic/broken", b"?"))
    assert set(described(cluster)) == {(TOPIC, "t", LITERAL), (TOPIC, "u", LITERAL)}
    assert create(cluster, creation("broken")) == [0]
    assert len(stored(cluster, ResourcePattern(TOPIC, "broken", LITERAL))) == 1


def test_a_change_whose_outcome_is_lost_is_made_once(cluster):
    create(cluster, creation())
    for outcome in ("lost", "answer lost"):
        cluster.outcomes.extend([None, None, outcome])
        assert create(cluster, creation(principal=f"User:{outcome}")) == [0]
    assert len(stored(cluster)) == 3


def test_many_acls_are_written_in_parts(cluster, monkeypatch):
    monkeypatch.setattr(acls, "CHUNK", 10)
    assert create(cluster, *(creation(f"t{number}") for number in range(50))) == [0] * 50
    assert cluster.kinds("acls.changed") == [{"resources": 50}], "many changes are one line of the log"
    assert len(described(cluster)) == 50
    assert len(delete(cluster, wanted(DeleteAclsFilter))[0]) == 50
