"""What `tidelog features` does; lines and messages are those of kafka-features of 4.3.1."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tidelog import __version__
from tidelog.cli.cluster.connecting import Asks
from tidelog.cli.options import CommandFailed
from tidelog.client.admin import ANY
from tidelog.client.results import code_of
from tidelog.config.feature_levels import (
    ALL_RELEASES,
    FEATURES,
    LATEST,
    METADATA_VERSION,
    defaults,
    level_of_release,
    parse,
)
from tidelog.wire.messages.cluster.features import (
    ApiVersionsRequest,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def downgrade_type(*, unsafe: bool) -> int:
    return UNSAFE_DOWNGRADE if unsafe else SAFE_DOWNGRADE


def described(admin: Asks, node: int | None) -> Iterator[str]:
    """A line for each feature that a node supports; any node where `node` is None."""
    request = ApiVersionsRequest(client_software_name="tidelog-cli", client_software_version=__version__)
    response = admin.ask(request, ANY if node is None else node)
    levels = {each.name: each.max_version_level for each in response.finalized_features}
    epoch = response.finalized_features_epoch
    for each in sorted(response.supported_features, key=lambda feature: feature.name):
        low, high, finalized = (
            _level(each.name, level) for level in (each.min_version, each.max_version, levels.get(each.name, 0))
        )
        yield (
            f"Feature: {each.name:40}  SupportedMinVersion: {low:15}  SupportedMaxVersion: {high:15}  "
            f"FinalizedVersionLevel: {finalized:15}  Epoch: {'-' if epoch < 0 else epoch}"
        )


def _level(name: str, level: int) -> str:
    return ALL_RELEASES.get(level, f"UNKNOWN {level}") if name == METADATA_VERSION else str(level)


def requested_levels(
    release_of_metadata: str | None, release: str | None, given: Sequence[str], upgrade_type: int
) -> dict[str, int]:
    """The levels that a command line requests; CommandFailed or InvalidOption if it is wrong."""
    if release is not None and (release_of_metadata is not None or given):
        raise CommandFailed("Can not specify `release-version` with other feature flags.")
    if release is not None:
        level = level_of_release(release, unstable=True)
        others = {name: other for name, other in defaults(level).items() if other or upgrade_type != UPGRADE}
        return {METADATA_VERSION: level, **others}
    levels = {}
    if release_of_metadata is not None:
        levels[METADATA_VERSION] = level_of_release(release_of_metadata, unstable=True)
    for text in given:
        name, level = parse(text)
        _add(levels, name, level, upgrade_type)
    return levels


def disabled_levels(names: Iterable[str], upgrade_type: int) -> dict[str, int]:
    levels: dict[str, int] = {}
    for name in names:
        _add(levels, name, 0, upgrade_type)
    return levels


def _add(levels: dict[str, int], name: str, level: int, upgrade_type: int) -> None:
    if level < 0:
        raise CommandFailed("Cannot specify a negative version level.")
    if level < 1 and upgrade_type == UPGRADE:
        raise CommandFailed(
            "The upgradeType flag should be set to SAFE_DOWNGRADE or UNSAFE_DOWNGRADE when the provided "
            f"maxVersionLevel:{level} is < 1."
        )
    if name in levels:
        raise CommandFailed(f"Feature {name} was specified more than once.")
    levels[name] = level


def update(admin: Asks, verb: str, levels: Mapping[str, int], upgrade_type: int, *, dry_run: bool) -> Iterator[str]:
    """Change levels, or only check the change; a line for each feature. CommandFailed at the end if one failed."""
    if not levels:
        raise CommandFailed(f"You must specify at least one feature to {verb}")
    updates = [
        FeatureUpdateKey(
            feature=name,
            max_version_level=level,
            upgrade_type=upgrade_type,
            allow_downgrade=upgrade_type != UPGRADE,
        )
        for name, level in levels.items()
    ]
    errors = _errors(admin.ask(UpdateFeaturesRequest(feature_updates=updates, validate_only=dry_run)), levels)
    for name in sorted(levels):
        if name in errors:
            target = name if verb == "disable" else f"{name} to {levels[name]}"
            yield f"{'Can not' if dry_run else 'Could not'} {verb} {target}. {errors[name]}"
        else:
            done = "disabled" if verb == "disable" else f"{verb}d to {levels[name]}"
            yield f"{name} {'can be' if dry_run else 'was'} {done}."
    if errors:
        raise CommandFailed(f"{len(errors)} out of {len(levels)} operation(s) failed.")


def _errors(response: UpdateFeaturesResponse, names: Iterable[str]) -> dict[str, str]:
    """Why each failed; an error of the whole request is one of each feature, and since version 2 there is no other."""
    if response.error_code:
        return dict.fromkeys(names, response.error_message or code_of(response.error_code).name)
    return {
        each.feature: each.error_message or code_of(each.error_code).name
        for each in response.results
        if each.error_code
    }


def levels_of_release(release: str | None) -> Iterator[str]:
    name = ALL_RELEASES[LATEST] if release is None else release
    level = level_of_release(name, unstable=True)
    yield f"{METADATA_VERSION}={level} ({name})"
    for feature, default in defaults(level).items():
        yield f"{feature}={default}"


def dependencies(given: Iterable[str]) -> Iterator[str]:
    """A few lines for each feature; CommandFailed at the first that is unknown."""
    for text in given:
        name, level = parse(text)
        if name == METADATA_VERSION:
            if level not in ALL_RELEASES:
                raise CommandFailed(f"Unknown {METADATA_VERSION} {level}")
            yield f"{name}={level} ({ALL_RELEASES[level]}) has no dependencies."
            continue
        if name not in FEATURES:
            raise CommandFailed(f"Unknown feature: {name}")
        if not 0 <= level <= FEATURES[name].highest:
            raise CommandFailed(f"No feature:{name} with feature level {level}")
        needs = FEATURES[name].needs if level else 0
        if needs:
            yield f"{name}={level} requires:"
            yield f"    {METADATA_VERSION}={needs} ({ALL_RELEASES[needs]})"
        else:
            yield f"{name}={level} has no dependencies."
