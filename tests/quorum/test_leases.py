from hypothesis import given
from hypothesis import strategies as st

from tidelog.quorum.leases import Leases

TERM = 9000


def test_a_session_is_over_a_term_after_its_last_heartbeat_and_reported_once():
    leases = Leases(TERM)
    leases.grant(1, now=0)
    leases.grant(2, now=100)
    assert leases.renew(1, now=4000)
    assert (leases.deadline, leases.over(9099)) == (9100, [])
    assert (leases.over(9100), leases.over(9100)) == ([2], [])
    assert not leases.renew(2, now=9200), "its end is on the way to the log"
    leases.drop(2)
    assert leases.over(13_000) == [1]
    leases.drop(1)
    assert leases.deadline is None


def test_an_end_that_did_not_get_to_the_log_is_reported_again():
    leases = Leases(TERM)
    leases.grant(1, now=0)
    leases.grant(2, now=0)
    leases.end(2, now=10)  # its process is gone
    assert (leases.deadline, 2 in leases) == (10 + TERM // 4, False)
    assert leases.over(10 + TERM // 4) == [2]
    leases.drop(2)
    assert leases.over(TERM) == [1]
    assert leases.deadline == TERM + TERM // 4
    assert not leases.renew(1, now=TERM + 1)
    assert leases.over(TERM + TERM // 4) == [1]
    leases.start([1], now=20_000)
    assert leases.deadline == 20_000 + TERM


def test_a_new_leader_grants_a_full_term_and_forgets_older_leases():
    leases = Leases(TERM)
    leases.grant(1, now=0)
    leases.start([2, 3], now=8000)
    assert (1 in leases, leases.deadline) == (False, 17_000)
    assert leases.over(17_000) == [2, 3]


def test_a_leader_that_stood_still_ends_no_session_for_its_own_silence():
    leases = Leases(TERM)
    leases.start([1, 2], now=0)
    assert leases.over(TERM + 20_000) == []
    assert leases.deadline == TERM * 2 + 20_000
    leases.renew(1, now=29_500)
    assert leases.over(TERM * 2 + 20_000) == [2]


def test_a_session_that_ends_otherwise_has_no_lease():
    leases = Leases(TERM)
    leases.start([1, 2], now=0)
    leases.drop(1)
    leases.drop(7)
    assert leases.over(TERM) == [2]


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2000)), max_size=40))
def test_no_session_ends_within_a_term_of_its_last_heartbeat_and_each_ends_soon_after(heartbeats):
    leases, now, last = Leases(TERM), 0, {}
    for session, pause in heartbeats:
        while (deadline := leases.deadline) is not None and deadline <= now + pause:
            for ended in leases.over(deadline):
                assert deadline == last.pop(ended) + TERM
                leases.drop(ended)
        now += pause
        leases.grant(session, now)
        last[session] = now
        assert leases.deadline == min(last.values()) + TERM
