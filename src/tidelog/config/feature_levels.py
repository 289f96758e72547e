"""Kafka's features, and the levels that they have in a new cluster of each release.

`metadata.version` names a release; the levels of the others follow from it unless they are given.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from tidelog.errors import InvalidOption

METADATA_VERSION, KRAFT_VERSION = "metadata.version", "kraft.version"
ELR_VERSION = "eligible.leader.replicas.version"
TREE_VERSION = "tidelog.metadata"
"""Tidelog's own: what brokers may write into the metadata tree, and send to each other."""
FIRST_LEVEL = 7
_RELEASES = (
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1",
    "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0",
    "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0",
)  # fmt: skip
RELEASES: Mapping[int, str] = dict(enumerate(_RELEASES, FIRST_LEVEL))
"""The releases by their level of metadata.version."""
LATEST = max(RELEASES)
ALL_RELEASES: Mapping[int, str] = {**RELEASES, LATEST + 1: "4.4-IV0"}
"""With the one that is not stable in Kafka 4.3.1: kafka-features knows it, kafka-storage does not."""
SCRAM_SINCE = 11


class FeatureLevels(NamedTuple):
    """Levels from 0 to `highest`. From the metadata version `since` on, a new cluster has the highest. A level above 0
    needs the metadata version `needs`."""

    highest: int
    since: int
    needs: int = 0


FEATURES: Mapping[str, FeatureLevels] = {
    KRAFT_VERSION: FeatureLevels(1, since=21),
    "transaction.version": FeatureLevels(2, since=24),
    "group.version": FeatureLevels(1, since=22),
    ELR_VERSION: FeatureLevels(1, since=26, needs=23),
    "share.version": FeatureLevels(1, since=28),
    "streams.version": FeatureLevels(1, since=29),
}
"""By name, in Kafka's order."""


def level_of_release(release: str, *, unstable: bool = False) -> int:
    """The level of a release such as 4.3-IV0, or of the last one of 4.3; InvalidOption if there is none."""
    found = [level for level, name in RELEASES.items() if release in (name, name.partition("-")[0])]
    known = ALL_RELEASES if unstable else RELEASES
    found = found or [level for level, name in known.items() if release == name]
    if not found:
        raise InvalidOption(
            f"Unknown metadata.version '{release}'. Supported metadata.version are: {', '.join(known.values())}"
        )
    return found[-1]


def defaults(metadata_version: int) -> dict[str, int]:
    """The levels of the other features in a new cluster of this release."""
    return {name: feature.highest if metadata_version >= feature.since else 0 for name, feature in FEATURES.items()}


def levels(release: str | None, given: Mapping[str, int], *, is_dynamic: bool) -> dict[str, int]:
    """The levels of a new cluster by name; InvalidOption if they do not go together. `is_dynamic`: its controllers can
    change, and kraft.version is 1, whatever the release."""
    if METADATA_VERSION in given and release is not None:
        raise InvalidOption(f"Use --release-version instead of --feature {METADATA_VERSION}=X to avoid ambiguity.")
    metadata_version = given.get(METADATA_VERSION, LATEST if release is None else level_of_release(release))
    if metadata_version not in RELEASES:
        raise InvalidOption(f"{METADATA_VERSION} has no level {metadata_version}; expected {FIRST_LEVEL} to {LATEST}.")
    for name in given:
        if name != METADATA_VERSION and name not in FEATURES:
            raise InvalidOption(f"Unsupported feature: {name}. Supported features are: {', '.join(sorted(FEATURES))}")
    found = {METADATA_VERSION: metadata_version}
    for name, default in sorted(defaults(metadata_version).items()):
        found[name] = given.get(name, int(is_dynamic) if name == KRAFT_VERSION else default)
        _check(name, found[name], metadata_version, is_dynamic=is_dynamic)
    return found


def _check(name: str, level: int, metadata_version: int, *, is_dynamic: bool) -> None:
    if name == KRAFT_VERSION:
        _check_kraft_version(level, is_dynamic=is_dynamic)
    feature = FEATURES[name]
    if not 0 <= level <= feature.highest:
        raise InvalidOption(f"{name} has no level {level}; expected 0 to {feature.highest}.")
    if level and metadata_version < feature.needs:
        raise InvalidOption(f"{name}={level} needs {METADATA_VERSION} {feature.needs}, {RELEASES[feature.needs]}.")


def _check_kraft_version(level: int, *, is_dynamic: bool) -> None:
    if level == 0 and is_dynamic:
        raise InvalidOption(
            "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags --standalone, "
            "--initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try removing "
            "the --feature flag for kraft.version."
        )
    if level and not is_dynamic:
        raise InvalidOption(
            f"Cannot set kraft.version to {level} unless controller.quorum.voters is empty and one of the flags "
            "--standalone, --initial-controllers, or --no-initial-controllers is used. For dynamic controllers "
            "support, try using one of --standalone, --initial-controllers, or --no-initial-controllers and removing "
            "controller.quorum.voters."
        )


def parse(text: str) -> tuple[str, int]:
    """The name and level of `--feature NAME=LEVEL`; InvalidOption, in Kafka's words, if it is malformed."""
    name, equals, level = text.partition("=")
    if not equals:
        raise InvalidOption(f"Can't parse feature=level string {text}: equals sign not found.")
    level = level.strip()
    if not re.fullmatch(r"[+-]?\d+", level) or not -(2**15) <= int(level) < 2**15:
        raise InvalidOption(f"Can't parse feature=level string {text}: unable to parse {level} as a short.")
    return name.strip(), int(level)
