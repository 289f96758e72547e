"""Where ACLs are in the metadata tree, in the forms that Kafka 3 wrote and read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.controller import acl_tree, tree
from tidelog.security.acls import Acl, AclOperation, PatternType, Permission, ResourcePattern, ResourceType

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


@pytest.mark.parametrize(
    ("pattern", "path", "change_path", "change"),
    [
        (
            ResourcePattern(ResourceType.TOPIC, "flights", LITERAL),
            "/kafka-acl/Topic/flights",
            "/kafka-acl-changes/acl_changes_0000000007",
            b"TOPIC:flights",
        ),
        (
            ResourcePattern(ResourceType.TRANSACTIONAL_ID, "*", LITERAL),
            "/kafka-acl/TransactionalId/*",
            "/kafka-acl-changes/acl_changes_0000000007",
            b"TRANSACTIONAL_ID:*",
        ),
        (
            ResourcePattern(ResourceType.GROUP, "team-", PREFIXED),
            "/kafka-acl-extended/prefixed/Group/team-",
            "/kafka-acl-extended-changes/acl_changes_0000000007",
            b'{"version":1,"resourceType":"GROUP","name":"team-","patternType":"PREFIXED"}',
        ),
    ],
)
def test_resources_and_notifications_are_where_kafka_3_kept_them(pattern, path, change_path, change):
    assert acl_tree.pattern_path(pattern) == path
    assert acl_tree.change_path(pattern.pattern_type, 7) == change_path
    assert acl_tree.format_change(pattern) == change
    assert acl_tree.parse_change(pattern.pattern_type, change) == pattern


def test_acls_are_written_as_kafka_3_wrote_them():
    acls = (
        Acl("User:alice", "*", AclOperation.READ, Permission.ALLOW),
        Acl("User:CN=bob,O=Org", "10.0.0.1", AclOperation.IDEMPOTENT_WRITE, Permission.DENY),
    )
    written = acl_tree.format_acls(acls)
    assert json.loads(written) == {
        "version": 1,
        "acls": [
            {"principal": "User:alice", "permissionType": "Allow", "operation": "Read", "host": "*"},
            {
                "principal": "User:CN=bob,O=Org",
                "permissionType": "Deny",
                "operation": "IdempotentWrite",
                "host": "10.0.0.1",
            },
        ],
    }
    assert acl_tree.parse_acls(written) == acls


@pytest.mark.parametrize(
    "content",
    [b"", b"?", b"[]", b'{"acls":[{"principal":"User:a"}]}', b'{"acls":[{"operation":"Fly"}]}', b'{"acls":1}'],
)
def test_what_nobody_can_read_is_reported_as_such(content):
    with pytest.raises(tree.UNREADABLE):
        acl_tree.parse_acls(content)


@pytest.mark.parametrize("content", [b"", b"TOPIC", b"Planet:earth", b"\xff:t"])
def test_a_notification_that_nobody_can_read_is_reported_as_such(content):
    for kind in (LITERAL, PREFIXED):
        with pytest.raises(tree.UNREADABLE):
            acl_tree.parse_change(kind, content)


def test_notifications_of_kafka_1_are_read():
    changed = acl_tree.parse_change(LITERAL, b"TransactionalId:x:y")
    assert changed == ResourcePattern(ResourceType.TRANSACTIONAL_ID, "x:y", LITERAL)


@pytest.mark.parametrize("name", ["a/b", ".", "..", "\0", "a\nb", "percent:a", "a\U0001f600", "\ue000", "/", "a/.%2F"])
def test_a_name_that_no_node_can_have_is_encoded(name):
    path = acl_tree.pattern_path(ResourcePattern(ResourceType.GROUP, name, LITERAL))
    node = path.removeprefix("/kafka-acl/Group/")
    assert node.startswith("percent:")
    assert node.isascii()
    assert "/" not in node


@given(st.text(min_size=1))
def test_every_name_is_found_again(name):
    pattern = ResourcePattern(ResourceType.GROUP, name, PREFIXED)
    node = acl_tree.pattern_path(pattern).removeprefix("/kafka-acl-extended/prefixed/Group/")
    assert acl_tree.pattern_of(PREFIXED, ResourceType.GROUP, node) == pattern
    assert acl_tree.parse_change(PREFIXED, acl_tree.format_change(pattern)) == pattern
