"""What a leader knows of a follower, and the high watermark that follows (rules 1 and 3)."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.partition.leader import Leader
from tidelog.partition.progress import Progress, committed_offset


def test_a_follower_at_the_end_is_caught_up_however_long_nothing_happens():
    progress = Progress(caught_up_at=0)
    progress.fetched(10, 0, leader_end=10, broker_epoch=1, now=5)
    assert progress.is_caught_up(10, now=10_000_000, lag_ms=1)


def test_a_follower_that_stops_fetching_falls_behind_from_the_next_append_on():
    progress = Progress(caught_up_at=0)
    progress.fetched(10, 0, leader_end=10, broker_epoch=1, now=5)
    progress.leader_appended(old_end=10, now=1_000)
    assert progress.is_caught_up(11, now=1_500, lag_ms=500)
    assert not progress.is_caught_up(11, now=1_501, lag_ms=500)


def test_a_follower_that_keeps_up_with_a_steady_stream_counts_as_caught_up():
    """It is never at the end, but reaches at each fetch the end that the leader had at the one before."""
    progress = Progress(caught_up_at=0)
    for tick in range(1, 20):
        progress.fetched((tick - 1) * 10, 0, leader_end=tick * 10, broker_epoch=1, now=tick * 100)
    assert progress.is_caught_up(200, now=1_950, lag_ms=200)


def test_a_follower_that_gets_further_behind_is_not_caught_up():
    progress = Progress(caught_up_at=0)
    for tick in range(1, 20):
        progress.fetched(tick, 0, leader_end=tick * 10, broker_epoch=1, now=tick * 100)
    assert not progress.is_caught_up(200, now=1_950, lag_ms=200)


@given(current=st.integers(0, 50), end=st.integers(0, 50), others=st.lists(st.integers(-1, 50)))
def test_the_high_watermark_is_the_largest_that_all_have_and_never_descends(current, end, others):
    found = committed_offset(current, end, others)
    reached_by_all = max(o for o in range(-1, 51) if all(o <= have for have in [end, *others]))
    assert found == max(current, reached_by_all)


def leader(isr, **ends):
    remote = {int(name[1:]): Progress(0) for name in ends}
    for name, end in ends.items():
        if end >= 0:
            remote[int(name[1:])].fetched(end, 0, leader_end=100, broker_epoch=7, now=0)
    return Leader(epoch_start=5, isr=isr, remote=remote)


def test_who_was_proposed_to_join_counts_at_once():
    role = leader((0, 1), b1=50, b2=20)
    assert role.high_watermark(0, 100, now=99_999, lag_ms=10, eligible={1, 2}) == 50
    role.propose((0, 1, 2), partition_epoch=3, own=0, own_epoch=9)
    assert role.high_watermark(0, 100, now=99_999, lag_ms=10, eligible={1, 2}) == 20


def test_who_was_proposed_to_leave_still_counts():
    role = leader((0, 1, 2), b1=50, b2=20)
    role.propose((0, 1), partition_epoch=3, own=0, own_epoch=9)
    assert role.high_watermark(0, 100, now=99_999, lag_ms=10, eligible={1, 2}) == 20
    role.commit_isr((0, 1))
    assert role.high_watermark(0, 100, now=99_999, lag_ms=10, eligible={1, 2}) == 50


def test_the_high_watermark_waits_for_a_caught_up_replica_that_is_about_to_join():
    role = leader((0, 1), b1=50, b2=20)
    assert role.high_watermark(0, 100, now=5, lag_ms=10, eligible={1, 2}) == 20
    assert role.high_watermark(0, 100, now=5, lag_ms=10, eligible={1}) == 50


def test_a_replica_joins_only_from_the_epochs_first_offset_on():
    role = leader((0, 1), b1=50, b2=4)
    assert not role.may_join(2, high_watermark=3, eligible={2})
    role.remote[2].fetched(5, 0, leader_end=100, broker_epoch=7, now=1)
    assert role.may_join(2, high_watermark=3, eligible={2})
    assert not role.may_join(2, high_watermark=6, eligible={2})
    assert not role.may_join(2, high_watermark=3, eligible={1})


def test_a_proposal_carries_the_broker_epochs_of_those_it_names():
    role = leader((0, 1), b1=50, b2=60)
    proposal = role.propose((0, 1, 2), partition_epoch=3, own=0, own_epoch=9)
    assert dict(proposal.broker_epochs) == {0: 9, 1: 7, 2: 7}
