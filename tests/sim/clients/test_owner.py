"""Who alone has a transactional id, and when it may be fenced."""

import pytest

from tidelog.errors import ErrorCode
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.clients.owner import Owner


@pytest.fixture
def ghosts():
    return Ghosts()


@pytest.fixture
def owner(ghosts):
    owner = Owner(ghosts, "a")
    owner.asks(3)
    return owner


def is_allowed(owner, error=ErrorCode.PRODUCER_FENCED):
    try:
        owner.ends(error)
    except AssertionError as broken:
        return not str(broken).startswith("I50")
    return True


@pytest.mark.parametrize("error", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_it_is_not_fenced(owner, error):
    owner.has_it(3)
    assert not is_allowed(owner, error)


def test_it_ends_by_other_errors(owner):
    owner.has_it(3)
    assert is_allowed(owner, ErrorCode.NONE)
    assert is_allowed(owner, ErrorCode.INVALID_TXN_STATE)


def test_a_time_out_fences_it_in_that_life_only(owner, ghosts):
    owner.has_it(3)
    ghosts.overdue["a"] += 1
    assert is_allowed(owner)
    owner.asks(0)
    owner.has_it(0)
    assert not is_allowed(owner)


def test_the_time_out_of_another_is_no_excuse(owner, ghosts):
    owner.has_it(3)
    ghosts.overdue["b"] += 1
    assert not is_allowed(owner)


def test_after_a_request_for_the_id_that_may_come_late_nothing_is_claimed(owner):
    owner.has_it(4)
    assert is_allowed(owner)
    owner.asks(0)
    owner.has_it(0)
    assert is_allowed(owner)


def test_nor_where_it_ended_before_the_answer_came(owner):
    assert is_allowed(owner)
    owner.asks(0)
    owner.has_it(0)
    assert is_allowed(owner)


def test_nor_where_the_cluster_may_have_forgotten(owner, ghosts):
    owner.has_it(3)
    ghosts.aged = True
    assert is_allowed(owner)
