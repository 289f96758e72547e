"""DescribeUserScramCredentials: those with credentials, those that are named, and those that are not there."""

from types import SimpleNamespace

from tests.api.fake_context import context
from tidelog.api.security import scram_credentials
from tidelog.errors import ErrorCode
from tidelog.security import scram
from tidelog.slices import begun
from tidelog.wire.messages.security.scram_credentials import DescribeUserScramCredentialsRequest, UserName

KEPT = scram.format_credential(scram.Credential(b"salt", b"stored", b"server", 8192))
VALUES = {
    "both": {"SCRAM-SHA-256": KEPT, "SCRAM-SHA-512": KEPT, "consumer_byte_rate": "1"},
    "quotas": {"consumer_byte_rate": "1"},
    "broken": {"SCRAM-SHA-256": "salt=?"},
}


def described(*names):
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names] or None)
    where = context()
    where.broker.configs = SimpleNamespace(user=lambda name: VALUES.get(name, {}), users=lambda: list(VALUES))
    results = begun(scram_credentials.handle(request, where)).results
    return {
        each.user: [(info.mechanism, info.iterations) for info in each.credential_infos] or each.error_code
        for each in results
    }


def test_all_users_with_credentials_or_those_that_are_named():
    both = [(1, 8192), (2, 8192)]
    assert described() == {"both": both}
    assert described("both", "quotas", "broken", "none", "twice", "twice") == {
        "both": both,
        "quotas": ErrorCode.RESOURCE_NOT_FOUND,
        "broken": ErrorCode.RESOURCE_NOT_FOUND,
        "none": ErrorCode.RESOURCE_NOT_FOUND,
        "twice": ErrorCode.DUPLICATE_RESOURCE,
    }
