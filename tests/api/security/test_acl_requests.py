"""ACL requests before they reach the controller: what no broker can know, and brokers without an authorizer."""

import pytest

from tests.api.fake_context import context
from tidelog.api.context import PENDING
from tidelog.api.security import acls
from tidelog.errors import ErrorCode, ProtocolViolation
from tidelog.wire.messages.security.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)

DESCRIBED = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
CREATED = {
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


def requests(**changed):
    """One of each kind, with these fields changed where it has them."""

    def given(fields):
        return {**fields, **{name: value for name, value in changed.items() if name in fields}}

    yield DescribeAclsRequest(**given(DESCRIBED))
    yield DeleteAclsRequest(filters=[DeleteAclsFilter(**DESCRIBED), DeleteAclsFilter(**given(DESCRIBED))])
    yield CreateAclsRequest(creations=[AclCreation(**CREATED), AclCreation(**given(CREATED))])


def secured():
    where = context()
    where.broker.has_authorizer = True
    return where


@pytest.mark.parametrize("field", [*DESCRIBED, "resource_type", "resource_pattern_type"])
def test_the_number_of_unknown_closes_the_connection(field):
    refused = 0
    for request in requests(**{field: 0}):
        try:
            assert acls.submit(request, secured()) == PENDING
        except ProtocolViolation:
            refused += 1
    assert refused == sum(field in each for each in (DESCRIBED, DESCRIBED, CREATED))


@pytest.mark.parametrize("value", [1, 99, -1])
def test_other_numbers_are_for_the_controller_to_judge(value):
    for request in requests(operation=value, resource_type=value, pattern_type_filter=value):
        assert acls.submit(request, secured()) == PENDING


def test_without_an_authorizer_there_are_no_acls():
    for request in requests():
        where = context()
        where.broker.has_authorizer = False
        answer = acls.submit(request, where)
        if isinstance(request, DescribeAclsRequest):
            answers = [answer]
        elif isinstance(request, CreateAclsRequest):
            answers = answer.results
        else:
            answers = answer.filter_results
        assert {each.error_code for each in answers} == {ErrorCode.SECURITY_DISABLED}
        assert all("No Authorizer is configured" in each.error_message for each in answers)
