"""DescribeAcls (29), CreateAcls (30) and DeleteAcls (31): handed to the controller, which reads and writes the ACLs in
the metadata store. So who adds an ACL finds it there, whichever broker is asked."""

from typing import Any

from tidelog.api import to_controller
from tidelog.api.context import Context, Pending
from tidelog.errors import ErrorCode, ProtocolViolation
from tidelog.wire.messages.security.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from tidelog.wire.refusals import refuse

UNKNOWN = 0
_NUMBERS = (
    *("resource_type", "resource_pattern_type", "operation", "permission_type"),
    *("resource_type_filter", "pattern_type_filter"),
)
_LISTS = {CreateAclsRequest: "creations", DeleteAclsRequest: "filters"}


def submit(request: Any, context: Context) -> Any | Pending:
    check_known(request)
    if not context.broker.has_authorizer:
        where = " on the broker" if isinstance(request, DescribeAclsRequest) else "."
        return refuse(request, ErrorCode.SECURITY_DISABLED, f"No Authorizer is configured{where}")
    return to_controller.submit(request, context)


def check_known(request: Any) -> None:
    """ProtocolViolation if the request has the number of UNKNOWN: Kafka does not parse it, and closes the connection,
    whoever sent it. Other numbers that mean nothing are refused where they are used."""
    entries = [request] if isinstance(request, DescribeAclsRequest) else getattr(request, _LISTS[type(request)])
    for entry in entries:
        for field in _NUMBERS:
            if getattr(entry, field, None) == UNKNOWN:
                raise ProtocolViolation(f"{field} of an ACL is UNKNOWN")
