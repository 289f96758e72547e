"""CreateDelegationToken (key 38), RenewDelegationToken (39), ExpireDelegationToken (40), DescribeDelegationToken (41).

The field `requester` of three requests is not Kafka's: the broker that received the request says there, to the
controller, who sent it.
"""

from tidelog.wire.message import api, array, binary, int16, int32, int64, message, string


@message
class CreatableRenewers:
    principal_type: str = string()
    principal_name: str = string()


@api(38)
class CreateDelegationTokenRequest:
    owner_principal_type: str | None = string("3+", default=None, nullable="3+")
    owner_principal_name: str | None = string("3+", default=None, nullable="3+")
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()
    requester: str = string("2+", tag=10_000)


@api(38)
class CreateDelegationTokenResponse:
    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = binary()
    throttle_time_ms: int = int32()


@api(39)
class RenewDelegationTokenRequest:
    hmac: bytes = binary()
    renew_period_ms: int = int64()
    requester: str = string("2+", tag=10_000)


@api(39)
class RenewDelegationTokenResponse:
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()


@api(40)
class ExpireDelegationTokenRequest:
    hmac: bytes = binary()
    expiry_time_period_ms: int = int64()
    requester: str = string("2+", tag=10_000)


@api(40)
class ExpireDelegationTokenResponse:
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()


@message
class DescribeDelegationTokenOwner:
    principal_type: str = string()
    principal_name: str = string()


@api(41)
class DescribeDelegationTokenRequest:
    owners: list[DescribeDelegationTokenOwner] | None = array(DescribeDelegationTokenOwner, nullable="0+")


@message
class DescribedDelegationTokenRenewer:
    principal_type: str = string()
    principal_name: str = string()


@message
class DescribedDelegationToken:
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = binary()
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


@api(41)
class DescribeDelegationTokenResponse:
    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()
