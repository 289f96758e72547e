"""ApiVersions (18): which APIs and versions this listener serves, and the cluster's features (KIP-35, 511, 584).

A version that is not served is answered in version 0 with UNSUPPORTED_VERSION and the versions of ApiVersions itself.
"""

import re
from functools import cache
from typing import NamedTuple

from tidelog.api.context import Context
from tidelog.api.registry import APIS
from tidelog.errors import ErrorCode
from tidelog.wire.messages.cluster.features import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

KEY = 18
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
FEATURES_EPOCH = 0
OURS = "tidelog"
"""The name under which Tidelog's own clients present themselves."""


class Feature(NamedTuple):
    """Levels as Kafka 4.3.1 numbers them; a feature of minimum 0 is not reported before version 4 (KAFKA-17011)."""

    name: str
    low: int
    high: int


FEATURES = (
    Feature("group.version", 0, 1),
    Feature("metadata.version", 7, 30),
    Feature("transaction.version", 0, 2),
)


def handle(request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    own = APIS[KEY]
    if not own.low <= context.version <= own.high:
        versions = [ApiVersion(api_key=KEY, min_version=own.low, max_version=own.high)]
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=versions)
    if context.version >= 3 and not _is_named(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    among_brokers = context.listener == context.broker.inter_broker_listener
    return ApiVersionsResponse(
        api_keys=_served(
            among_brokers=among_brokers,
            to_ours=request.client_software_name == OURS,
            sasl=context.broker.has_sasl,
            authorizer=context.broker.has_authorizer,
        ),
        supported_features=[
            SupportedFeatureKey(name=feature.name, min_version=feature.low, max_version=feature.high)
            for feature in FEATURES
            if feature.low > 0 or context.version >= 4
        ],
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[
            FinalizedFeatureKey(name=feature.name, max_version_level=feature.high, min_version_level=feature.high)
            for feature in FEATURES
        ],
    )


@cache
def _served(*, among_brokers: bool, to_ours: bool, sasl: bool, authorizer: bool) -> list[ApiVersion]:
    """The same response for every new connection; it is never modified."""
    holding = {"broker": among_brokers, "tidelog": to_ours, "sasl": sasl, "secured": sasl or authorizer}
    callers = {"anyone"} | {caller for caller, holds in holding.items() if holds}
    return [
        ApiVersion(api_key=api.key, min_version=api.advertised_low, max_version=api.high)
        for api in APIS.values()
        if api.caller in callers
    ]


def _is_named(request: ApiVersionsRequest) -> bool:
    names = (request.client_software_name, request.client_software_version)
    return all(_SOFTWARE.fullmatch(name) for name in names)
