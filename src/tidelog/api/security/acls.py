"""DescribeAcls (29), CreateAcls (30) and DeleteAcls (31): handed to the controller, which reads and writes the ACLs in
the metadata store. So who adds an ACL finds it there, whichever broker is asked."""

from typing import Any

from tidelog.api import to_controller
from tidelog.api.context import Context, Pending
from tidelog.errors import ErrorCode, ProtocolViolation
from tidelog.security.acls import AclOperation, PatternType, Permission, ResourceType
from tidelog.wire.messages.security.acls import DescribeAclsRequest
from tidelog.wire.refusals import refuse

_KNOWN = {
    "resource_type": frozenset(ResourceType),
    "resource_type_filter": frozenset(ResourceType),
    "pattern_type_filter": frozenset(PatternType),
    "resource_pattern_type": frozenset(PatternType),
    "operation": frozenset(AclOperation),
    "permission_type": frozenset(Permission),
}
UNKNOWN = 0


def submit(request: Any, context: Context) -> Any | Pending:
    check_known(request)
    if not context.broker.has_authorizer:
        where = " on the broker" if isinstance(request, DescribeAclsRequest) else "."
        return refuse(request, ErrorCode.SECURITY_DISABLED, f"No Authorizer is configured{where}")
    return to_controller.submit(request, context)


def check_known(request: Any) -> None:
    """ProtocolViolation if the request names a type or an operation that does not exist: Kafka cannot parse it, either,
    and closes the connection, whoever sent it."""
    entries = (
        [request] if isinstance(request, DescribeAclsRequest) else getattr(request, _LISTS[type(request).__name__])
    )
    for entry in entries:
        for field, known in _KNOWN.items():
            value = getattr(entry, field, None)
            if value is not None and (value == UNKNOWN or value not in known):
                raise ProtocolViolation(f"{field} {value} of an ACL does not exist")


_LISTS = {"CreateAclsRequest": "creations", "DeleteAclsRequest": "filters"}
