"""DescribeUserScramCredentials (50): users with SCRAM credentials (KIP-554). The cluster stores none: every requested
user is RESOURCE_NOT_FOUND, like a user without credentials in Kafka.
"""

from collections import Counter

from tidelog.api.context import Context
from tidelog.errors import ErrorCode
from tidelog.wire.messages.security.scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(request: DescribeUserScramCredentialsRequest, _context: Context) -> DescribeUserScramCredentialsResponse:
    counted = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(
        results=[_result(name, times) for name, times in counted.items()],
    )


def _result(name: str, times: int) -> DescribeUserScramCredentialsResult:
    if times > 1:
        code, message = ErrorCode.DUPLICATE_RESOURCE, f"The user {name!r} appears more than once in the request."
    else:
        code, message = ErrorCode.RESOURCE_NOT_FOUND, f"The user {name!r} has no SCRAM credentials."
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message)
