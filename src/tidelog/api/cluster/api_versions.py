"""ApiVersions (18): which APIs and versions this listener serves, and the cluster's features (KIP-35, 511, 584).

A version that is not served is answered in version 0 with UNSUPPORTED_VERSION and the versions of ApiVersions itself.
"""

import re
from functools import cache

from tidelog.api.context import Context
from tidelog.api.registry import APIS, CONTROLLER_APIS
from tidelog.controller.features import FIXED, IN_TREE, KRAFT, finalized
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
OURS = "tidelog"
"""The name under which Tidelog's own clients present themselves."""


def handle(request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    own = APIS[KEY]
    if not own.low <= context.version <= own.high:
        versions = [ApiVersion(api_key=KEY, min_version=own.low, max_version=own.high)]
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=versions)
    if context.version >= 3 and not _is_named(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    image, quorum = context.broker.image, context.broker.quorum
    features = (*IN_TREE, *FIXED) if context.broker.has_features else FIXED
    levels = finalized(image.features)
    if quorum is not None:
        features = (KRAFT, *features)
        levels |= {KRAFT.name: quorum.kraft_version} if quorum.kraft_version else {}
    return ApiVersionsResponse(
        api_keys=_served_here(context, to_ours=request.client_software_name == OURS),
        supported_features=[
            SupportedFeatureKey(name=feature.name, min_version=feature.low, max_version=feature.high)
            for feature in features
            if feature.low > 0 or context.version >= 4
        ],
        finalized_features_epoch=image.features_epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in levels.items()
        ],
    )


def _served_here(context: Context, *, to_ours: bool) -> list[ApiVersion]:
    broker = context.broker
    return _served(
        by_controllers=broker.quorum is not None and context.listener in broker.quorum.listeners,
        among_brokers=context.listener == broker.inter_broker_listener,
        to_ours=to_ours,
        sasl=broker.has_sasl,
        authorizer=broker.has_authorizer,
        features=broker.has_features,
        quorum=broker.quorum is not None,
    )


@cache
def _served(
    *,
    by_controllers: bool,
    among_brokers: bool,
    to_ours: bool,
    sasl: bool,
    authorizer: bool,
    features: bool,
    quorum: bool,
) -> list[ApiVersion]:
    """The same response for every new connection; it is never modified."""
    holding = {
        "broker": among_brokers,
        "tidelog": to_ours,
        "sasl": sasl,
        "secured": sasl or authorizer,
        "features": features,
        "quorum": quorum,
    }
    callers = {"anyone"} | {caller for caller, holds in holding.items() if holds}
    return [
        ApiVersion(api_key=api.key, min_version=api.advertised_low, max_version=api.high)
        for api in (CONTROLLER_APIS if by_controllers else APIS).values()
        if api.caller in callers
    ]


def _is_named(request: ApiVersionsRequest) -> bool:
    names = (request.client_software_name, request.client_software_version)
    return all(_SOFTWARE.fullmatch(name) for name in names)
