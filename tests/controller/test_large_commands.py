"""Requests of a few bytes that concern thousands of partitions or ACLs: a controller works on them in slices.

An input is measured in calls of functions, a number that hardly depends on the machine; `large_commands` prints what
inputs take.
"""

import sys

import pytest

from tests.controller import large_commands

ENTRIES = 4_000
MOST_CALLS = ENTRIES
"""One for each entry would be too many."""
MOST_CALLS_OF_A_CHUNK = 20_000
"""A thousand partitions that were read, or five hundred that are written: about ten milliseconds."""


@pytest.fixture(scope="module")
def cluster():
    return large_commands.filled(ENTRIES)


def calls():
    count = 0

    def called(_frame, event, _argument):
        nonlocal count
        count += event == "call"

    def ended():
        sys.setprofile(None)
        return count

    sys.setprofile(called)
    return ended


def entries(answer):
    return {
        "ElectLeadersResponse": lambda: [e for t in answer.replica_election_results for e in t.partition_result],
        "ListPartitionReassignmentsResponse": lambda: [e for topic in answer.topics for e in topic.partitions],
        "DescribeAclsResponse": lambda: [acl for resource in answer.resources for acl in resource.acls],
        "DeleteAclsResponse": lambda: [acl for each in answer.filter_results for acl in each.matching_acls],
    }[type(answer).__name__]()


def test_no_input_works_on_all_partitions_of_a_cluster():
    """A new controller with 50,000 partitions took turns of 0.6 s, and 1.5 s when a broker died."""
    cluster = large_commands.written(ENTRIES)
    for name in large_commands.EVENTS:
        found = large_commands.consequences(cluster, name, calls)
        assert sum(found) > ENTRIES, name
        assert max(found) <= MOST_CALLS_OF_A_CHUNK, name
    assert not cluster.state.topics


@pytest.mark.parametrize("name", large_commands.REQUESTS)
def test_no_input_works_on_more_than_a_slice(cluster, name):
    costs, answer = large_commands.costs(cluster, name, calls)
    assert len(entries(answer)) == ENTRIES
    assert sum(costs) > 2 * MOST_CALLS
    assert max(costs) <= MOST_CALLS
