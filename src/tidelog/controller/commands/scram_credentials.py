"""SCRAM credentials changed (AlterUserScramCredentials, KIP-554), kept beside the user's quotas as Kafka 3 did.

The password comes salted by the client; what is kept of it is made here. A user is named once in a request.
"""

from collections import Counter
from collections.abc import Sequence

from tidelog.config.quotas import node_name
from tidelog.controller.commands.configs import Alteration, Current, carry_out
from tidelog.controller.commands.elections import LogEnds
from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.journal import Steps
from tidelog.errors import ApiError, ErrorCode
from tidelog.security import scram
from tidelog.wire.messages.security.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

USER = 0
"""A user is not a resource with a number of its own."""

Change = ScramCredentialDeletion | ScramCredentialUpsertion


def alter_scram_credentials(
    term: ControllerTerm, logs: LogEnds, request: AlterUserScramCredentialsRequest
) -> Steps[AlterUserScramCredentialsResponse]:
    changes: Sequence[Change] = [*request.deletions, *request.upsertions]
    named = Counter(change.name for change in changes)
    done = [_judge(term, change, named[change.name]) for change in {change.name: change for change in changes}.values()]
    yield from carry_out(term, logs, done, validate_only=False)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=each.name, error_code=each.code, error_message=each.message)
            for each in done
        ]
    )


def _judge(term: ControllerTerm, change: Change, times: int) -> Alteration:
    try:
        if times > 1:
            raise ApiError(
                ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
            )
        if not change.name:
            raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        mechanism = scram.BY_NUMBER.get(change.mechanism)
        if mechanism is None:
            raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        place = f"users/{node_name(change.name)}"
        current = dict(term.cluster.configs.get(place, {}))
        return Alteration(USER, change.name, place, _altered(current, change, mechanism))
    except ApiError as error:
        return Alteration(USER, change.name, error=error)


def _altered(current: Current, change: Change, mechanism: scram.Mechanism) -> Current:
    if isinstance(change, ScramCredentialDeletion):
        if current.pop(mechanism.name, None) is None:
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        return current
    if change.iterations < scram.MIN_ITERATIONS:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > scram.MAX_ITERATIONS:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not change.salt or not change.salted_password:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salt and salted password must not be empty")
    made = scram.credential(mechanism, bytes(change.salted_password), bytes(change.salt), change.iterations)
    return {**current, mechanism.name: scram.format_credential(made)}
