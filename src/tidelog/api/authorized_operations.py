"""The operations that a client may ask to see for a resource, as bit fields (KIP-430)."""

from tidelog.api.context import Context
from tidelog.security.acls import CLUSTER_NAME, AclOperation, ResourceType

_TOPIC = (
    *(AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER),
    *(AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
)
_GROUP = (
    *(AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE),
    *(AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
)
_CLUSTER = (
    *(AclOperation.CREATE, AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION),
    *(AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS, AclOperation.IDEMPOTENT_WRITE),
)


def of_topic(context: Context, name: str) -> int:
    return _allowed(context, _TOPIC, ResourceType.TOPIC, name)


def of_group(context: Context, name: str) -> int:
    return _allowed(context, _GROUP, ResourceType.GROUP, name)


def of_cluster(context: Context) -> int:
    return _allowed(context, _CLUSTER, ResourceType.CLUSTER, CLUSTER_NAME)


def _allowed(context: Context, operations: tuple[AclOperation, ...], kind: ResourceType, name: str) -> int:
    access = context.access
    return sum(1 << each for each in operations if access is None or access.allows(each, kind, name))
