"""Every API gets its largest request. Invariant: it is answered, a canary that produces on another connection is answered
in between, and the broker's memory stays within a limit.

The canary is counted, not timed: without parts it got one answer while the broker was busy for seconds. What it waits is
printed with `-s`; docs/security.md has what a machine showed that did nothing else.
"""

import sys

import pytest

from tests.fuzz import large
from tests.fuzz.attacks import MEGABYTE, attacked, measure
from tidelog.api.registry import APIS

HELD_S = 0.1
"""Of the broker's processor time there must be one answer for the canary at least."""
MEMORY = 200 * MEGABYTE


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
    count = large.largest_count(key, path)
    data = large.frame(large.request(key, path, count))
    cost = measure(target, APIS[key].name, lambda attacked: large.sent(attacked.port, data))
    sys.stdout.write(f"{cost} {count} {'.'.join(path)}\n")
    assert cost.outcome.startswith("answered")
    assert cost.memory <= MEMORY
    assert not held_up(cost)


@pytest.mark.parametrize("name", ["describe-configs", "pattern", "unread", "unread-keys"])
def test_what_once_held_a_broker_for_seconds(target, name):
    cost = measure(target, name)
    sys.stdout.write(f"{cost}\n")
    assert cost.memory <= MEMORY
    assert not held_up(cost)
