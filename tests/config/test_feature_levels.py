"""Levels of features in a new cluster; tests/cli/test_storage_as_kafka.py compares them with Kafka's."""

import pytest

from tidelog.config.feature_levels import LATEST, RELEASES, level_of_release, levels, parse
from tidelog.errors import InvalidOption


def test_releases_are_named_with_or_without_their_last_part():
    assert (RELEASES[7], RELEASES[LATEST], LATEST) == ("3.3-IV3", "4.3-IV0", 30)
    assert [level_of_release(name) for name in ("3.3", "4.0", "4.0-IV1", "4.3")] == [7, 25, 23, 30]


def test_a_release_decides_the_levels_that_are_not_given():
    old = levels("3.9", {"group.version": 1}, is_dynamic=False)
    assert {name: level for name, level in old.items() if level} == {"metadata.version": 21, "group.version": 1}
    new = levels(None, {"share.version": 0}, is_dynamic=True)
    assert [new[name] for name in ("metadata.version", "kraft.version", "share.version", "transaction.version")] == [
        30, 1, 0, 2,
    ]  # fmt: skip
    assert levels(None, {"metadata.version": 24}, is_dynamic=False)["eligible.leader.replicas.version"] == 0


@pytest.mark.parametrize(
    ("release", "given", "dynamic", "sentence"),
    [
        ("4.4", {}, False, "Unknown metadata.version '4.4'. Supported metadata.version are: 3.3-IV3, .*, 4.3-IV0$"),
        ("4.0", {"metadata.version": 20}, False, "Use --release-version instead of --feature metadata.version=X"),
        (None, {"metadata.version": 31}, False, "metadata.version has no level 31; expected 7 to 30"),
        (None, {"foo": 1}, False, "Unsupported feature: foo. Supported features are: eligible.*, transaction.version$"),
        (None, {"group.version": 2}, False, "group.version has no level 2; expected 0 to 1"),
        ("3.9", {"eligible.leader.replicas.version": 1}, False, "needs metadata.version 23, 4.0-IV1"),
        (None, {"kraft.version": 1}, False, "Cannot set kraft.version to 1 unless"),
        (None, {"kraft.version": 0}, True, "Cannot set kraft.version to 0 if"),
        (None, {"kraft.version": 2}, True, "kraft.version has no level 2"),
    ],
)
def test_levels_that_do_not_go_together_are_refused(release, given, dynamic, sentence):
    with pytest.raises(InvalidOption, match=sentence):
        levels(release, given, is_dynamic=dynamic)


def test_a_level_is_given_as_a_number():
    assert parse("group.version=1") == ("group.version", 1)
    for text, why in (
        ("group.version", "equals sign not found"),
        ("group.version=x", "unable to parse x as a short"),
        ("group.version=", "unable to parse  as a short"),
        ("group.version=32768", "unable to parse 32768 as a short"),
    ):
        with pytest.raises(InvalidOption, match=f"Can't parse feature=level string {text}: {why}"):
            parse(text)
