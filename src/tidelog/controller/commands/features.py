"""UpdateFeatures (KIP-584): the levels that are in the tree.

Turning eligible leader replicas on needs `min.insync.replicas` where the controller can see it: the cluster gets the
value of this broker's file if it has none, and brokers' own values are dropped. Turning it off makes the in-sync set of
a partition without a leader of all who may have what is committed: one of them that counts leads, or all are waited
for.
"""

from collections.abc import Iterable, Mapping

from tidelog.config.alter import BROKER
from tidelog.controller import tree
from tidelog.controller.commands.configs import Alteration, write
from tidelog.controller.commands.elections import LogEnds, elect_where_due
from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.features import (
    ELR,
    FIXED,
    KRAFT,
    MIN_INSYNC_REPLICAS,
    NEEDS,
    SUPPORTED,
    TREE,
    Kraft,
    finalized,
)
from tidelog.controller.journal import Steps
from tidelog.controller.leaders import forgotten
from tidelog.errors import ApiError, ErrorCode
from tidelog.ports import Change, Check, Create, Node, Read, Write
from tidelog.wire.messages.cluster.features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
FAILED = "The update failed for all features since the following feature had an error: "


def load_features(term: ControllerTerm) -> Steps[None]:
    cluster = term.cluster
    if not term.has_features:
        return
    (node,) = yield [Read(tree.FEATURE)]
    cluster.features, cluster.features_version = {}, -1
    if isinstance(node, Node):
        cluster.features_version = node.version
        try:
            cluster.features = tree.parse_features(node.data)
        except tree.UNREADABLE as error:
            term.report("features.unreadable", "warning", reason=f"{type(error).__name__}: {error}")


def keep_min_insync(term: ControllerTerm) -> Steps[None]:
    """With eligible leader replicas the cluster has a `min.insync.replicas`, and no broker its own. What changes is
    reported, as by Kafka: it may be another value than a broker had."""
    cluster = term.cluster
    if not cluster.has_elr:
        return
    default = f"brokers/{tree.DEFAULT_ENTITY}"
    changes = []
    if MIN_INSYNC_REPLICAS not in cluster.configs.get(default, {}):
        value = str(term.config.min_insync_replicas)
        term.report("min-insync.set", value=value)
        changes.append(
            Alteration(BROKER, "", default, {**cluster.configs.get(default, {}), MIN_INSYNC_REPLICAS: value})
        )
    for entity, options in cluster.configs.items():
        if entity.startswith("brokers/") and entity != default and MIN_INSYNC_REPLICAS in options:
            kept = {name: value for name, value in options.items() if name != MIN_INSYNC_REPLICAS}
            broker = entity.partition("/")[2]
            term.report("min-insync.removed", "warning", broker=broker, value=options[MIN_INSYNC_REPLICAS])
            changes.append(Alteration(BROKER, broker, entity, kept))
    if changes:
        yield from write(term, changes)


def update_features(
    term: ControllerTerm, logs: LogEnds, request: UpdateFeaturesRequest
) -> Steps[UpdateFeaturesResponse]:
    """All updates of a request, or none."""
    levels = {update.feature: update.max_version_level for update in request.feature_updates}
    kraft = {KRAFT.name: term.quorum.kraft_version} if term.quorum is not None else {}
    current, proposed = finalized(term.cluster.features) | kraft, {**term.cluster.features, **levels}
    try:
        for update in request.feature_updates:
            _check(term, update, current.get(update.feature, 0), proposed)
        if term.quorum is not None and levels.get(KRAFT.name, 0) > kraft[KRAFT.name]:
            yield from _upgrade_kraft(term, term.quorum, validate_only=request.validate_only)
    except ApiError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=f"{FAILED}{error.message}")
    changed = {n: v for n, v in levels.items() if n in SUPPORTED and v != term.cluster.features.get(n, 0)}
    if changed and not request.validate_only:
        yield from _set(term, logs, changed)
    results = [UpdatableFeatureResult(feature=name, error_message="NONE") for name in levels]
    return UpdateFeaturesResponse(error_message=None, results=results)


def _upgrade_kraft(term: ControllerTerm, quorum: Kraft, *, validate_only: bool) -> Steps[None]:
    quorum.upgrade_kraft_version(term.now, validate_only=validate_only)
    if not validate_only:
        yield [Check(tree.CONTROLLER_EPOCH, term.journal.epoch_version)]  # committed after it
        term.report("feature.changed", feature=KRAFT.name, to=KRAFT.high)


def _set(term: ControllerTerm, logs: LogEnds, changed: Mapping[str, int]) -> Steps[None]:
    cluster = term.cluster
    if changed.get(ELR.name) == 0:
        states = [(p, forgotten(p.state)) for p in cluster.partitions() if p.state.elr or p.state.last_known]
        yield from term.commit(states, "eligible leader replicas are turned off")
    levels = {**cluster.features, **changed}
    data = tree.format_features(levels)
    exists = cluster.features_version >= 0
    change: Change = Write(tree.FEATURE, data, cluster.features_version) if exists else Create(tree.FEATURE, data)
    (node,) = yield [change]
    cluster.features, cluster.features_version = levels, node.version
    for name, level in changed.items():
        term.report("feature.changed", feature=name, to=level)
    yield from keep_min_insync(term)
    term.pushes.push_features()
    yield from elect_where_due(term, logs, list(cluster.partitions()), "features changed")


def _check(term: ControllerTerm, update: FeatureUpdateKey, current: int, proposed: Mapping[str, int]) -> None:
    """Raise ApiError if the update is not possible, where `proposed` are the levels that the request leads to."""
    name, level = update.feature, update.max_version_level
    kind = UNSAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _invalid(update, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    for broker, low, high in _supporting(term, name):
        if not low <= level <= high:
            supported = f"only supports versions {low}-{high}" if high else "does not support this feature."
            raise _invalid(update, f"{broker} {supported}")
    if level < current and kind == UPGRADE:
        raise _invalid(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade.",
        )
    if level > current and kind != UPGRADE:
        raise _invalid(update, "Can't downgrade to a newer version.")
    if level < current and name == KRAFT.name:
        raise _invalid(update, "Can't downgrade the version of this feature.")
    if level < current and name == TREE.name:
        raise _invalid(update, "Refusing to perform the requested downgrade because it might delete metadata.")
    for needed, needed_level in NEEDS.get(name, {}).items() if level else ():
        if proposed.get(needed, 0) < needed_level:
            why = f"{name} could not be set to {level} because it depends on {needed} level {needed_level}"
            raise _invalid(update, why)


def _supporting(term: ControllerTerm, name: str) -> Iterable[tuple[str, int, int]]:
    """Who supports which levels of the feature: this controller, and every broker."""
    fixed = {each.name: (each.high, each.high) for each in FIXED}
    if term.quorum is not None:
        fixed[KRAFT.name] = (KRAFT.low, KRAFT.high)
    yield f"Local controller {term.broker_id}", *SUPPORTED.get(name, fixed.get(name, (0, 0)))
    if name not in fixed:
        for broker in term.cluster.brokers.values():
            yield f"Broker {broker.id}", *broker.registration.features.get(name, (0, 0))


def _invalid(update: FeatureUpdateKey, why: str) -> ApiError:
    text = f"Invalid update version {update.max_version_level} for feature {update.feature}. {why}"
    return ApiError(ErrorCode.INVALID_UPDATE_VERSION, text)
