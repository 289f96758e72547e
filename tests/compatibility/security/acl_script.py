"""ACL requests, good and bad, and the operations that a client is shown (KIP-430), under the same script on both sides."""

from typing import Any

from tests.compatibility.differential.side import Side
from tests.waiting import wait_for
from tidelog.security.acls import AclOperation, PatternType, Permission, ResourceType

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
CREATION = {
    "resource_type": TOPIC,
    "resource_name": "s-t",
    "resource_pattern_type": LITERAL,
    "principal": "User:carol",
    "host": "*",
    "operation": AclOperation.READ,
    "permission_type": Permission.ALLOW,
}
ANYTHING = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": "User:carol",
    "host_filter": None,
    "operation": AclOperation.ANY,
    "permission_type": Permission.ANY,
}
CREATIONS: dict[str, dict[str, Any]] = {
    "usual": {},
    "an empty name": {"resource_name": ""},
    "another cluster": {"resource_type": CLUSTER, "resource_name": "other"},
    "a part of the cluster's name": {
        "resource_type": CLUSTER,
        "resource_name": "kafka",
        "resource_pattern_type": PREFIXED,
    },
    "the cluster": {"resource_type": CLUSTER, "resource_name": "kafka-cluster", "operation": AclOperation.ALTER},
    "a principal without a colon": {"principal": "carol"},
    "a principal without a name": {"principal": "User:"},
    "an empty principal": {"principal": ""},
    "a principal of another type": {"principal": "Group:carol"},
    "any host name": {"host": "not an address"},
    "an empty host": {"host": ""},
    "no name of a topic": {"resource_name": "a b/c"},
    "an operation of another resource": {"operation": AclOperation.CLUSTER_ACTION},
    "every operation": {"operation": AclOperation.ALL},
    "two phases": {"operation": AclOperation.TWO_PHASE_COMMIT},
    "a user": {"resource_type": ResourceType.USER, "resource_name": "User:x", "operation": AclOperation.CREATE_TOKENS},
    "every topic": {"resource_name": "*"},
    "a prefix": {"resource_name": "s-", "resource_pattern_type": PREFIXED},
    "a prefix of a star": {"resource_name": "*", "resource_pattern_type": PREFIXED},
    "a denial": {"permission_type": Permission.DENY},
    "ANY resource": {"resource_type": ResourceType.ANY},
    "ANY pattern": {"resource_pattern_type": PatternType.ANY},
    "MATCH": {"resource_pattern_type": PatternType.MATCH},
    "ANY operation": {"operation": AclOperation.ANY},
    "ANY permission": {"permission_type": Permission.ANY},
    "UNKNOWN resource": {"resource_type": 0},
    "UNKNOWN pattern": {"resource_pattern_type": 0},
    "UNKNOWN operation": {"operation": 0},
    "UNKNOWN permission": {"permission_type": 0},
    "a resource that does not exist": {"resource_type": 99},
    "an operation that does not exist": {"operation": 99},
    "a pattern that does not exist": {"resource_pattern_type": -1},
    "a permission that does not exist": {"permission_type": 99},
}
FILTERS: dict[str, dict[str, Any]] = {
    "all": {},
    "topics": {"resource_type_filter": TOPIC},
    "the star": {"resource_type_filter": TOPIC, "resource_name_filter": "*"},
    "literal": {"resource_type_filter": TOPIC, "resource_name_filter": "s-t", "pattern_type_filter": LITERAL},
    "prefixed": {"pattern_type_filter": PREFIXED},
    "matching": {
        "resource_type_filter": TOPIC,
        "resource_name_filter": "s-t",
        "pattern_type_filter": PatternType.MATCH,
    },
    "matching something else": {"resource_name_filter": "other", "pattern_type_filter": PatternType.MATCH},
    "matching anything": {"pattern_type_filter": PatternType.MATCH},
    "an empty name": {"resource_name_filter": ""},
    "an empty host": {"host_filter": ""},
    "every host": {"host_filter": "*"},
    "all operations": {"operation": AclOperation.ALL},
    "denials": {"permission_type": Permission.DENY},
    "nobody": {"principal_filter": "User:nobody"},
    "no principal": {"principal_filter": "carol"},
    "UNKNOWN resource": {"resource_type_filter": 0},
    "UNKNOWN pattern": {"pattern_type_filter": 0},
    "UNKNOWN operation": {"operation": 0},
    "UNKNOWN permission": {"permission_type": 0},
    "a resource that does not exist": {"resource_type_filter": 99},
    "a pattern that does not exist": {"pattern_type_filter": -1},
    "an operation that does not exist": {"operation": 99},
    "a permission that does not exist": {"permission_type": 99},
}


def run(side: Side) -> None:
    """As the administrator. Both versions, which are the same but for their form."""
    for label, changed in CREATIONS.items():
        side.both(f"create: {label}", "CreateAcls", creations=[{**CREATION, **changed}])
    side.both("create: good and bad", "CreateAcls", creations=_several("usual", "an empty name", "a prefix"))
    side.both("create: one that is about anything", "CreateAcls", creations=_several("every topic", "ANY operation"))
    side.both("create: one twice", "CreateAcls", creations=_several("usual", "usual"))
    side.both("create: none", "CreateAcls", creations=[])
    _await_last(side)
    for label, changed in FILTERS.items():
        side.both(f"describe: {label}", "DescribeAcls", **{**ANYTHING, **changed})
    unknown = [label for label in FILTERS if "UNKNOWN" in label or "does not exist" in label]
    for label in ("nobody", "literal", "matching something else", *unknown):
        side.ask(f"delete: {label}", "DeleteAcls", 3, filters=[{**ANYTHING, **FILTERS[label]}])
    two = [{**ANYTHING, **FILTERS[label]} for label in ("prefixed", "all")]
    side.ask("delete: two that overlap", "DeleteAcls", 3, filters=[*two, two[0]])
    wait_for(lambda: not _found(side), f"{side}: that all is deleted")
    side.ask("describe: what is left", "DescribeAcls", 3, **ANYTHING)
    side.ask("delete: with no filter", "DeleteAcls", 3, filters=[])


def _await_last(side: Side) -> None:
    """Creation is answered before the broker knows of it."""
    side.quiet("CreateAcls", 3, creations=[{**CREATION, "resource_name": "s-last"}])
    wait_for(lambda: "s-last" in _found(side), f"{side}: that all is created")


def _found(side: Side) -> set[str]:
    return {each.resource_name for each in side.quiet("DescribeAcls", 3, **ANYTHING).resources}


def _several(*labels: str) -> list[dict[str, Any]]:
    return [{**CREATION, **CREATIONS[label]} for label in labels]


def show_operations(client: Side, whose: str) -> None:
    """What this client may do with the topic t, the group g and the cluster."""
    for version, name in ((8, "by name"), (12, "by name"), (10, "of the cluster")):
        asked = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": version < 11}
        answer = client.quiet("Metadata", version, topics=[{"name": "t"}], **asked)
        shown = [topic.topic_authorized_operations for topic in answer.topics]
        client.note(
            f"{whose}: metadata {name} v{version}", [*shown, getattr(answer, "cluster_authorized_operations", 0)]
        )
    for included in (False, True):
        answer = client.quiet("DescribeCluster", 2, include_cluster_authorized_operations=included)
        client.note(f"{whose}: cluster, {included}", answer.cluster_authorized_operations)
        groups = client.quiet("DescribeGroups", 5, groups=["g"], include_authorized_operations=included).groups
        client.note(f"{whose}: group, {included}", [(each.error_code, each.authorized_operations) for each in groups])
        groups = client.quiet(
            "ConsumerGroupDescribe", 1, group_ids=["g"], include_authorized_operations=included
        ).groups
        client.note(f"{whose}: consumer group, {included}", [each.authorized_operations for each in groups])
        asked = {"include_topic_authorized_operations": included}
        answer = client.quiet("Metadata", 12, topics=[{"name": "t"}], **asked)
        client.note(f"{whose}: topic, {included}", [topic.topic_authorized_operations for topic in answer.topics])
    answer = client.quiet("DescribeTopicPartitions", 0, topics=[{"name": "t"}], response_partition_limit=10)
    client.note(f"{whose}: pages of topics", [topic.topic_authorized_operations for topic in answer.topics])


RIGHTS: dict[str, set[str]] = {
    "nobody's": set(),
    "somebody's": {
        *("Topic:t READ", "Topic:t ALTER_CONFIGS", "Group:g DELETE"),
        *("Cluster:kafka-cluster ALTER", "Cluster:kafka-cluster IDEMPOTENT_WRITE"),
    },
    "everybody's": {"Topic:t ALL", "Group:g ALL", "Cluster:kafka-cluster ALL"},
}
"""Of clients that are shown their operations."""
