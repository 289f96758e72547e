"""The only owner of a transactional id and when it may be fenced; the auditor, which looks up where partitions begin."""

import pytest

from tidelog.client.results import Failed
from tidelog.client.transactional import FATAL_ERRORS
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.clients.transactor import Auditor, Owner
from tidelog.sim.world import World


@pytest.fixture
def ghosts():
    return Ghosts()


@pytest.fixture
def owner(ghosts):
    owner = Owner(ghosts, "a")
    owner.id_requested(3)
    return owner


def is_allowed(owner, error=ErrorCode.PRODUCER_FENCED):
    try:
        owner.life_ended(error)
    except AssertionError as broken:
        return not str(broken).startswith("I50")
    return True


@pytest.mark.parametrize("error", sorted(FATAL_ERRORS))
def test_it_is_not_refused(owner, error):
    owner.id_acquired(3)
    assert not is_allowed(owner, error)


def test_it_ends_by_other_errors(owner):
    owner.id_acquired(3)
    assert is_allowed(owner, ErrorCode.NONE)
    assert is_allowed(owner, ErrorCode.REQUEST_TIMED_OUT)


def test_a_time_out_fences_it_in_that_life_only(owner, ghosts):
    owner.id_acquired(3)
    ghosts.overdue["a"] += 1
    assert is_allowed(owner)
    owner.id_requested(0)
    owner.id_acquired(0)
    assert not is_allowed(owner)


def test_the_time_out_of_another_is_no_excuse(owner, ghosts):
    owner.id_acquired(3)
    ghosts.overdue["b"] += 1
    assert not is_allowed(owner)


def test_after_a_request_for_the_id_that_may_come_late_nothing_is_claimed(owner):
    owner.id_acquired(4)
    assert is_allowed(owner)
    owner.id_requested(0)
    owner.id_acquired(0)
    assert is_allowed(owner)


def test_nor_where_it_ended_before_the_answer_came(owner):
    assert is_allowed(owner)
    owner.id_requested(0)
    owner.id_acquired(0)
    assert is_allowed(owner)


def test_nor_where_the_cluster_may_have_forgotten(owner, ghosts):
    owner.id_acquired(3)
    ghosts.aged = True
    assert is_allowed(owner)


NAME = TopicPartition("t", 0)


@pytest.fixture
def auditor():
    return Auditor(World(1, lambda host: None), [NAME], None)


@pytest.mark.parametrize(
    "error", [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION, ErrorCode.BROKER_NOT_AVAILABLE]
)
def test_a_look_up_that_runs_out_of_time_begins_again(auditor, error):
    """Seeds 1004095, 1004647, 1005066 and 1005968: the last fault was that nobody was reached."""
    auditor._failed(Failed(error, "no known offsets", (NAME,)))


def test_any_other_failure_is_one_and_so_is_one_after_records_were_read(auditor):
    with pytest.raises(AssertionError):
        auditor._failed(Failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no", (NAME,)))
    auditor.found[NAME].append(b"a")
    with pytest.raises(AssertionError):
        auditor._failed(Failed(ErrorCode.LEADER_NOT_AVAILABLE, "no known offsets", (NAME,)))
