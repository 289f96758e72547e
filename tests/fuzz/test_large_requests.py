"""Every API gets its largest request. Invariant: it is answered, a canary that produces on another connection is answered
in between, and the broker's memory stays within a limit.

The canary is counted, not timed: without parts it got one answer while the broker was busy for seconds. What it waits is
printed with `-s`; docs/security.md has what a machine showed that did nothing else.
"""

import sys

import pytest

from tests.fuzz import attacks, large
from tests.fuzz.attacks import MEGABYTE, attacked, measure
from tidelog.api.registry import APIS

HELD_S = 0.1
"""Of the broker's processor time there must be one answer for the canary at least."""
MEMORY = 200 * MEGABYTE
TOPICS = 2_000
"""One request may create 10,000; this takes a fifth of the time."""


@pytest.fixture(scope="module")
def target():
    with attacked() as running:
        yield running


def held_up(cost):
    return len(cost.latencies) < cost.cpu_s / HELD_S - 1


@pytest.mark.parametrize(
    ("key", "path"), large.cases(), ids=lambda each: APIS[each].name if isinstance(each, int) else ""
)
def test_the_largest_request_of_each_api(target, key, path):
    cost = attacks.largest_of(target, key, path)
    sys.stdout.write(f"{cost}\n")
    assert cost.outcome.startswith("answered")
    assert cost.memory <= MEMORY
    assert not held_up(cost)


@pytest.mark.parametrize("shape", [(TOPICS, 1), (1, TOPICS)], ids=["topics", "partitions"])
def test_many_topics_or_partitions_in_one_request(target, shape):
    for attack in (large.Creation(*shape), large.Deletion(*shape)):
        cost = attacks.measure(target, type(attack).__name__, attack)
        sys.stdout.write(f"{cost}\n")
        assert f"codes {{0: {shape[0]}}}" in cost.outcome
        assert cost.memory <= MEMORY
        assert not held_up(cost)


@pytest.mark.parametrize("name", ["describe-configs", "pattern", "unread", "unread-keys"])
def test_what_once_held_a_broker_for_seconds(target, name):
    cost = measure(target, name)
    sys.stdout.write(f"{cost}\n")
    assert cost.memory <= MEMORY
    assert not held_up(cost)
