"""DescribeUserScramCredentials (key 50): which users have SCRAM credentials."""

from tidelog.wire.message import api, array, int8, int16, int32, message, string


@message
class UserName:
    name: str = string()


@api(50)
class DescribeUserScramCredentialsRequest:
    users: list[UserName] | None = array(UserName, nullable="0+")


@message
class CredentialInfo:
    mechanism: int = int8()
    iterations: int = int32()


@message
class DescribeUserScramCredentialsResult:
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


@api(50)
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)
